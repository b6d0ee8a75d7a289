import type { FeedEvent, Operations } from "./src/operations.js";

export * from "./src/operations.js";

/** An id or another 64-bit number. Answers have strings. Numbers beyond 2**53 are refused: they have lost digits. */
export type Int64 = string | bigint | number;

/** Any number of items. They are read while they are sent, in several requests if they are many. */
export type Many<Item> = Iterable<Item> | AsyncIterable<Item>;

/** A file to upload. In Node, `await openAsBlob(path)` of node:fs reads it while it is sent. */
export type UploadFile = Blob | ArrayBuffer | ArrayBufferView;

export type State = "normal" | "negative" | "archived" | "removed";

/** A set program; made with `out`, `in_`, `intersect`, `union`, `difference`. */
export type Program =
  | { graph: string; node: Int64; direction: "out" | "in"; states?: State[] }
  | { intersect: Program[] }
  | { union: Program[] }
  | { difference: Program[] };

/** Options that every call accepts. */
export interface CallOptions {
  /** Cancels the call, which then throws the reason of the signal. */
  signal?: AbortSignal;
  /** Timeout of one try. */
  timeoutMs?: number;
  /** Timeout of the call with all its retries and pauses. */
  deadlineMs?: number;
}

export interface UploadOptions extends CallOptions {
  /** Called with the bytes of the form that were sent, and their total. */
  onProgress?: (progress: { loaded: number; total: number }) => void;
  /** The longest time without progress, for one try. */
  timeoutMs?: number;
}

/** Exponential back-off with full jitter. If Retry-After is longer than `capMs`, the error is thrown at once. */
export interface Retry {
  /** Tries of a call, 4 by default; 1: no retries. */
  tries?: number;
  /** 200 by default. */
  baseMs?: number;
  /** 5,000 by default. */
  capMs?: number;
}

export interface KithOptions {
  /** A server key, a user token, or a function that returns one. It is called first, and when the service refuses the key. */
  key?: string | (() => string | Promise<string>);
  /** The user that a server key acts for. Without it, calls see what a logged-out visitor sees. */
  user?: Int64;
  /** A read-your-writes token to start with. */
  token?: string | null;
  /** Timeout of one try, 10,000 by default. */
  timeoutMs?: number;
  /** Timeout of a call with all its retries, 30,000 by default. */
  deadlineMs?: number;
  retry?: Retry;
  /** Used instead of the platform's `fetch`. */
  fetch?: typeof fetch;
  /** Used for the jitter instead of `Math.random`. */
  random?: () => number;
}

/** A client of one Kith service: a method for every operation of its API. */
export interface Kith extends Operations {}

export class Kith {
  constructor(url: string | URL, options?: KithOptions);
  /** The newest read-your-writes token, sent with every call. Set it to take over the token of another client. */
  token: string | null;
  /** A view of this client that acts for `user`. It starts with this token, or the given one. Views cost nothing. */
  asUser(user: Int64, options?: { token?: string | null }): Kith;
  /** A view of this client that acts for the back office of the app: it sees everything. */
  asSystem(options?: { token?: string | null }): Kith;
  /** The changes of the acting user's feed, as they happen. */
  feedStream(options?: FeedStreamOptions): FeedStream;
  /** Every change of the chosen kinds, graphs and nodes, in order, each once. With a user token: those that its user may see, of `nodes`. */
  watch(options?: WatchOptions): WatchStream;
  /** The full URL of a picture or video. The service may return only its path. */
  fileUrl(path: string): string;
}

/** A whole list. Pages are fetched as the loop needs them. Each new loop starts at the beginning. */
export class Listing<Item, Page> implements AsyncIterable<Item> {
  private constructor();
  [Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined>;
  pages(): AsyncGenerator<Page, void, undefined>;
}

export interface FeedStreamOptions {
  /** The posts on the screen, to get their new numbers and removals; by default the newest posts at home. */
  posts?: Iterable<Int64>;
  /** The `eventId` to resume after. */
  after?: string | null;
  /** Ends the stream. The loop then throws the reason of the signal. */
  signal?: AbortSignal;
  /** Called when a connection opens, and when it is lost (`error` is null if the service closed it). */
  onConnection?: (connected: boolean, error: KithError | null) => void;
}

/** Events until `close()` or a `break`. After a lost connection the stream reconnects and resumes. */
export class FeedStream implements AsyncIterable<FeedEvent> {
  private constructor();
  /** The `after` with which a new stream continues after this one. */
  readonly lastEventId: string | null;
  close(): void;
  [Symbol.asyncIterator](): AsyncGenerator<FeedEvent, void, undefined>;
}

export interface WatchOptions {
  /** Only these kinds, such as `edge`, `post`, `comment`, `profile`, `node`; by default all. */
  kinds?: Iterable<string>;
  /** Only edges of these graphs. Without `kinds` only edges come. */
  graphs?: Iterable<string>;
  /** Only changes about these nodes: as an end of an edge, as the object that changed, or as its author. */
  nodes?: Iterable<Int64>;
  /** The `token` of a change to resume after. */
  after?: string | null;
  signal?: AbortSignal;
  onConnection?: (connected: boolean, error: KithError | null) => void;
}

/** A change: `kind` says which fields it has. Later versions may add kinds and fields. */
export interface Change {
  kind: string;
  /** Pass it as `after` to get the changes that follow. */
  token: string;
  at: string;
  [field: string]: unknown;
}

/** Changes until `close()` or a `break`. After a lost connection the stream reconnects and resumes. */
export class WatchStream implements AsyncIterable<Change> {
  private constructor();
  /** The token of the last change. */
  readonly lastEventId: string | null;
  close(): void;
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, undefined>;
}

/** The service refused a request, or did not answer. Switch on `code`. */
export class KithError extends Error {
  constructor(
    code: string,
    message: string,
    more?: { status?: number; details?: Record<string, unknown>; retryAfter?: number | null; cause?: unknown },
  );
  /** A code of the service, or UNREACHABLE, TIMEOUT, NO_KEY, HTTP_<status>, INVALID_ANSWER, INVALID_ID. */
  readonly code: string;
  /** The HTTP status; 0 without an answer. */
  readonly status: number;
  readonly details: Record<string, unknown>;
  /** Seconds that the service asks to wait. */
  readonly retryAfter: number | null;
}

/** The destinations of edges from `node`, in these states (normal by default). */
export function out(graph: string, node: Int64, ...states: State[]): Program;
/** The sources of edges to `node`, in these states (normal by default). */
export function in_(graph: string, node: Int64, ...states: State[]): Program;
/** Ids in all of the sets. */
export function intersect(...programs: Program[]): Program;
/** Ids in any of the sets. */
export function union(...programs: Program[]): Program;
/** Ids in the first set and in none of the others. */
export function difference(...programs: Program[]): Program;
