import type { FeedEvent, Operations } from "./src/operations.js";

export * from "./src/operations.js";

/** An id or another 64-bit number. Answers have strings; a number beyond 2**53 is refused, as it has lost digits. */
export type Int64 = string | bigint | number;

/** Any number of items; read as they are sent, in several requests where they are many. */
export type Many<Item> = Iterable<Item> | AsyncIterable<Item>;

/** What a client sends as a file. In Node, `await openAsBlob(path)` of node:fs reads it as it is sent. */
export type UploadFile = Blob | ArrayBuffer | ArrayBufferView;

export type State = "normal" | "negative" | "archived" | "removed";

/** A set program; made with `out`, `in_`, `intersect`, `union`, `difference`. */
export type Program =
  | { graph: string; node: Int64; direction: "out" | "in"; states?: State[] }
  | { intersect: Program[] }
  | { union: Program[] }
  | { difference: Program[] };

/** What may be said of any call. */
export interface CallOptions {
  /** Ends the call, which then throws the reason of the signal. */
  signal?: AbortSignal;
  /** For one try. */
  timeoutMs?: number;
  /** For the call with all its tries and pauses. */
  deadlineMs?: number;
}

export interface UploadOptions extends CallOptions {
  /** Bytes of the form that have gone out, and how many there are. */
  onProgress?: (progress: { loaded: number; total: number }) => void;
  /** For one try: the longest time without progress. */
  timeoutMs?: number;
}

/** Exponential back-off with full jitter. If Retry-After is longer than `capMs` the error is thrown at once. */
export interface Retry {
  /** 4 unless given; 1: never again. */
  tries?: number;
  /** 200 unless given. */
  baseMs?: number;
  /** 5,000 unless given. */
  capMs?: number;
}

export interface KithOptions {
  /** A server key, a user's token, or a function that gets one: asked first, and when the service refuses it. */
  key?: string | (() => string | Promise<string>);
  /** Whom a server key acts for; without it, it sees what a visitor may. */
  user?: Int64;
  /** A read-your-writes token to start from. */
  token?: string | null;
  /** For one try: 10,000 unless given. */
  timeoutMs?: number;
  /** For a call with all its tries: 30,000 unless given. */
  deadlineMs?: number;
  retry?: Retry;
  /** In place of the platform's. */
  fetch?: typeof fetch;
  /** In place of `Math.random`, for the jitter. */
  random?: () => number;
}

/** A client of one Kith service: a method for every operation of its API. */
export interface Kith extends Operations {}

export class Kith {
  constructor(url: string | URL, options?: KithOptions);
  /** The newest read-your-writes token seen; sent with every call. Set it to hand one over. */
  token: string | null;
  /** A view that acts for `user`, with a token of its own, from here unless one is given. It costs nothing to make. */
  asUser(user: Int64, options?: { token?: string | null }): Kith;
  /** A view that acts for the back office of the app: it sees all there is. */
  asSystem(options?: { token?: string | null }): Kith;
  /** What changes in the acting user's feed, as it happens. */
  feedStream(options?: FeedStreamOptions): FeedStream;
  /** Every change of chosen kinds, graphs and nodes, in order, each once. Takes a server key. */
  watch(options?: WatchOptions): WatchStream;
  /** The whole address of a picture or video, of which the service may answer the path only. */
  fileUrl(path: string): string;
}

/** A whole list. Pages are fetched as a loop goes; each loop begins anew. */
export class Listing<Item, Page> implements AsyncIterable<Item> {
  private constructor();
  [Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined>;
  pages(): AsyncGenerator<Page, void, undefined>;
}

export interface FeedStreamOptions {
  /** The posts on the screen, whose numbers and removal are told; else the newest at home. */
  posts?: Iterable<Int64>;
  /** The `eventId` to go on after. */
  after?: string | null;
  /** Ends the stream; the loop then throws the reason of the signal. */
  signal?: AbortSignal;
  /** Told when a connection is there, and when it is lost (`error` is null where the service ended it). */
  onConnection?: (connected: boolean, error: KithError | null) => void;
}

/** Events until `close()` or a `break`. A lost connection is taken up where it was. */
export class FeedStream implements AsyncIterable<FeedEvent> {
  private constructor();
  /** Where a new stream goes on after this one: its `after`. */
  readonly lastEventId: string | null;
  close(): void;
  [Symbol.asyncIterator](): AsyncGenerator<FeedEvent, void, undefined>;
}

export interface WatchOptions {
  /** Only these kinds, such as `edge`, `post`, `comment`, `profile`, `node`; else all. */
  kinds?: Iterable<string>;
  /** Edges of these graphs only; without kinds: edges alone. */
  graphs?: Iterable<string>;
  /** Only what is about these: ends of an edge, what was made, who made it. */
  nodes?: Iterable<Int64>;
  /** The `token` of a change, to go on after it. */
  after?: string | null;
  signal?: AbortSignal;
  onConnection?: (connected: boolean, error: KithError | null) => void;
}

/** What is so after a change: `kind` says which fields there are. New kinds and fields may come. */
export interface Change {
  kind: string;
  /** Watch from it on, and what follows comes. */
  token: string;
  at: string;
  [field: string]: unknown;
}

/** Changes until `close()` or a `break`. A lost connection is taken up where it was. */
export class WatchStream implements AsyncIterable<Change> {
  private constructor();
  /** The token of the last change. */
  readonly lastEventId: string | null;
  close(): void;
  [Symbol.asyncIterator](): AsyncGenerator<Change, void, undefined>;
}

/** The service refused, or did not answer. `code` is what to switch on. */
export class KithError extends Error {
  constructor(
    code: string,
    message: string,
    more?: { status?: number; details?: Record<string, unknown>; retryAfter?: number | null; cause?: unknown },
  );
  /** One of the service's, or UNREACHABLE, TIMEOUT, NO_KEY, HTTP_<status>, INVALID_ANSWER, INVALID_ID. */
  readonly code: string;
  /** 0 where there is no answer. */
  readonly status: number;
  readonly details: Record<string, unknown>;
  /** Seconds that the service asks to wait. */
  readonly retryAfter: number | null;
}

/** Whom `node` points to, in these states (normal if none is named). */
export function out(graph: string, node: Int64, ...states: State[]): Program;
/** Who points to `node`, in these states (normal if none is named). */
export function in_(graph: string, node: Int64, ...states: State[]): Program;
/** Who is in all of them. */
export function intersect(...programs: Program[]): Program;
/** Who is in any of them. */
export function union(...programs: Program[]): Program;
/** Who is in the first and in none of the others. */
export function difference(...programs: Program[]): Program;
