/** Streams of the feed and of all changes: each event once, over any number of connections. */

import { checkedId, queryOf, several } from "./calls.js";
import { headerValue } from "./credential.js";
import { limited, pause } from "./deadline.js";
import { KithError, unreadable } from "./errors.js";
import { mayPass, waitMs } from "./retry.js";
import { EventParser } from "./sse.js";

const EVENTS = "text/event-stream";
/** The service sends at least a heartbeat every 15 s. After so long without one the connection counts as lost. */
const SILENCE_MS = 60_000;
const RETRY_MS = 2_000;
/** The longest pause before a stream that was open reconnects. It never gives up: phones sleep for hours. */
const PAUSE_MAX_MS = 30_000;
/** A proxy sends these while the service restarts. */
const RESTARTING = new Set([502, 504]);
/** Ids of notifications that a stream remembers. */
const NOTICES_MAX = 1_000;
/** Unknown events, from a newer service, are skipped. */
const KNOWN = new Set(["new_post", "post_updated", "engagement_update", "post_removed", "notification", "unread", "reset"]);

/**
 * Iterate with `for await (const event of stream)`. `close()` or a `break` ends the connection.
 *
 * After a lost connection the stream reconnects and resumes; `onConnection` is called for both. It throws a KithError
 * if reconnecting cannot help (the user may not read, or the service was never reached), and the reason of `signal` if
 * that is aborted.
 */
class EventStream {
  #session;
  #options;
  #path;
  #known;
  #limit;
  #closed = false;
  #lastEventId;

  /** `path()`: that of the next connection. `known`: the types of events to yield. */
  constructor(session, path, known, { after = null, signal, onConnection }) {
    this.#session = session;
    this.#options = { signal, onConnection };
    this.#path = path;
    this.#known = known;
    this.#lastEventId = after ? headerValue(after, "after") : null;
  }

  /** The `after` with which a new stream continues after this one. */
  get lastEventId() {
    return this.#lastEventId;
  }

  /** Closes the stream. The loop over it ends without an error. */
  close() {
    this.#closed = true;
    this.#limit?.abort(new KithError("CLOSED", "the stream was closed"));
  }

  async *[Symbol.asyncIterator]() {
    const state = { wasOpen: false, failures: 0, retryMs: RETRY_MS };
    while (!this.#closed) {
      const limit = (this.#limit = limited(this.#options.signal));
      try {
        const error = yield* this.#events(limit.signal, state);
        this.#options.onConnection?.(false, error);
        await pause(this.#pauseMs(error, state), limit.signal);
      } catch (error) {
        if (this.#closed) return;
        throw error;
      } finally {
        limit.abort(); // the connection, where the loop was left
        limit.end();
      }
    }
  }

  /** Yields the events of one connection. Returns the error that ended it; null: the service closed it. */
  async *#events(signal, state) {
    const headers = this.#lastEventId === null ? {} : { "Last-Event-ID": this.#lastEventId };
    try {
      const response = await this.#session.open(this.#path(), { Accept: EVENTS, ...headers }, signal);
      const kind = response.headers.get("Content-Type") ?? EVENTS;
      if (!kind.startsWith(EVENTS)) throw unreadable(`the answer is ${kind}, not ${EVENTS}`);
      const parser = new EventParser(this.#lastEventId, state.retryMs);
      const reader = response.body.getReader();
      state.wasOpen = true;
      this.#options.onConnection?.(true, null);
      for (;;) {
        const { done, value } = await this.#session.within(SILENCE_MS, signal, (limit) =>
          this.#session.reached(reader.read(), limit.signal),
        );
        if (done) return null;
        state.failures = 0;
        for (const event of parser.read(value)) {
          this.#lastEventId = parser.lastEventId;
          const told = this.#known.has(event.type) ? this.told(event, parser.lastEventId) : null;
          if (told !== null) yield told;
        }
        this.#lastEventId = parser.lastEventId;
        state.retryMs = parser.retryMs;
      }
    } catch (error) {
      if (signal.aborted || !(error instanceof KithError)) throw error;
      return error;
    }
  }

  /** Milliseconds to wait before reconnecting; throws the error if that cannot help. */
  #pauseMs(error, state) {
    if (error === null) return state.retryMs;
    const { retry, random } = this.#session.shared;
    const askedMs = (error.retryAfter ?? 0) * 1000;
    const patient = { ...retry, tries: Infinity, capMs: Math.max(PAUSE_MAX_MS, askedMs) };
    const again = mayPass(error) || (state.wasOpen && (RESTARTING.has(error.status) || error.code === "NO_KEY"));
    const ms = again ? waitMs(++state.failures, error, state.wasOpen ? patient : retry, random) : null;
    if (ms === null) throw error;
    return ms;
  }
}

/** The changes of the acting user's feed. */
export class FeedStream extends EventStream {
  #noticed = new Set();
  #posts;

  constructor(session, { posts, ...options } = {}) {
    super(session, () => "/api/v1/feed/stream" + queryOf(["posts"], { posts: this.#posts }), KNOWN, options);
    this.#posts = listed(posts, "posts", checkedId);
  }

  told(event, eventId) {
    const told = { type: event.type, eventId, ...fieldsOf(event) };
    // The next connection watches new posts, too.
    const isNew = told.type === "new_post";
    if (isNew || told.type === "post_removed") this.#posts = this.#posts?.filter((id) => id !== told.postId);
    if (isNew) this.#posts = this.#posts?.concat(told.postId).slice(-100);
    return told.type === "notification" && !this.#isNew(told.notificationId) ? null : told;
  }

  /** Whether a notification is new. Those of a mention of many users may repeat. */
  #isNew(id) {
    if (this.#noticed.has(id)) return false;
    this.#noticed.add(id);
    if (this.#noticed.size > NOTICES_MAX) this.#noticed.delete(this.#noticed.values().next().value);
    return true;
  }
}

/** Every change of the chosen kinds, graphs and nodes. `lastEventId` is the token of the last change. */
export class WatchStream extends EventStream {
  constructor(session, { kinds, graphs, nodes, ...options } = {}) {
    const asked = {
      kinds: listed(kinds, "kinds"),
      graphs: listed(graphs, "graphs"),
      nodes: listed(nodes, "nodes", checkedId),
    };
    const path = "/api/v1/watch" + queryOf(["kinds", "graphs", "nodes"], asked);
    super(session, () => path, new Set(["change"]), options);
  }

  told(event) {
    return fieldsOf(event);
  }
}

function listed(items, name, checked = (item) => item) {
  return items == null ? undefined : Array.from(several(items, name), (item) => checked(item, name));
}

function fieldsOf({ type, data }) {
  try {
    return JSON.parse(data);
  } catch {
    throw unreadable(`the data of ${type} is no JSON`);
  }
}
