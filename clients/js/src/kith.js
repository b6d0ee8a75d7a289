/** The client: a method for every operation of the API, acting for a user. */

import { askInBatches, writeInBatches } from "./batches.js";
import { arityOf, checkedId, requestOf, several } from "./calls.js";
import { Credential } from "./credential.js";
import { unreadable } from "./errors.js";
import { OPERATIONS } from "./operations.js";
import { Listing } from "./paging.js";
import { checkedRetry } from "./retry.js";
import { Session } from "./session.js";
import { FeedStream, WatchStream } from "./stream.js";
import { UPLOAD_SILENCE_MS, uploader } from "./upload.js";

/** The timeout of one try, and of a call with all its retries. */
const TIMEOUT_MS = 10_000;
const DEADLINE_MS = 30_000;
/** Used in place of a user: the back office of the app, which sees everything. */
const SYSTEM = "system";

/**
 * A client of one Kith service. `key`: a server key, a user token, or a function that returns one.
 *
 * With a server key, calls act for `user`, or for the user of the view that `asUser` returns. Without a user they see
 * what a logged-out visitor sees.
 */
export class Kith {
  #session;

  constructor(url, { key, user, token, timeoutMs = TIMEOUT_MS, deadlineMs = DEADLINE_MS, retry, fetch, random } = {}) {
    if (url instanceof Session) {
      this.#session = url;
      return;
    }
    const send = fetch ?? ((...request) => globalThis.fetch(...request)); // browsers want it called on the window
    const shared = {
      url: checkedUrl(url),
      credential: new Credential(key),
      timeoutMs,
      deadlineMs,
      retry: checkedRetry(retry),
      // A redirected POST is followed by a GET, whose answer would pass for that of the write.
      fetch: (url, request) => send(url, { ...request, redirect: "manual" }),
      random: random ?? Math.random,
    };
    this.#session = new Session(shared, user == null ? null : checkedId(user, "user"), token);
  }

  /** The newest read-your-writes token, sent with every call. Set it to take over that of another client. */
  get token() {
    return this.#session.token;
  }

  set token(token) {
    this.#session.token = token;
  }

  /** A view of this client that acts for `user`, with this token or the given one. Views cost nothing. */
  asUser(user, { token = this.token } = {}) {
    return new Kith(new Session(this.#session.shared, checkedId(user, "user"), token));
  }

  /** A view of this client that acts for the back office of the app: it sees everything. */
  asSystem({ token = this.token } = {}) {
    return new Kith(new Session(this.#session.shared, SYSTEM, token));
  }

  /** The changes of the acting user's feed, as they happen. See `FeedStream`. */
  feedStream(options) {
    return new FeedStream(this.#session, options);
  }

  /** Every change of the chosen kinds, graphs and nodes, in order, each once. See `WatchStream`. */
  watch(options) {
    return new WatchStream(this.#session, options);
  }

  /** The full URL of a picture or video. The service may return only its path. */
  fileUrl(path) {
    return path[0] === "/" ? this.#session.shared.url + path : path;
  }

  async #ask(name, operation, given, options) {
    const answer = await this.#session.call(requestOf(name, operation, given, options), options);
    const needed = operation.only ?? operation.items;
    if (needed && answer?.[needed] === undefined) throw unreadable(`${name}: the answer has no \`${needed}\``);
    return operation.only ? answer[operation.only] : answer;
  }

  /** Batched calls: the items are the last argument. */
  async #askMany(name, operation, given, options) {
    const items = several(given.at(-1), operation.takes.at(-1));
    const inBatches = operation.only ? askInBatches : writeInBatches;
    return inBatches(items, operation.batch, (batch) =>
      this.#ask(name, operation, [...given.slice(0, -1), batch], options),
    );
  }

  #list(name, operation, given, options = {}) {
    const page = (cursor) => this.#ask(name, operation, given, { limit: operation.walked, ...options, cursor });
    return new Listing(page, operation.items, options.cursor);
  }

  async #upload(name, operation, [file], options = {}) {
    const request = requestOf(name, operation, [], options);
    const send = uploader(file, options.altText, options.onProgress);
    return this.#session.call(request, { timeoutMs: UPLOAD_SILENCE_MS, deadlineMs: Infinity, ...options }, send);
  }

  static {
    for (const [name, operation] of Object.entries(OPERATIONS)) {
      const { items, form, batch } = operation;
      const arity = arityOf(operation);
      const method = (as, run) => {
        this.prototype[as] = function (...given) {
          if (given.length > arity + 1) throw new TypeError(`${as} takes ${arity} arguments, and options`);
          return run(this, as, operation, given.slice(0, arity), given[arity]);
        };
      };
      if (form) method(name, (kith, ...call) => kith.#upload(...call));
      else if (batch) method(name, (kith, ...call) => kith.#askMany(...call));
      else if (items) method(name, (kith, ...call) => kith.#list(...call));
      else method(name, (kith, ...call) => kith.#ask(...call));
      if (items) method(`${name}Page`, (kith, ...call) => kith.#ask(...call));
    }
  }
}

/** Checks the URL. The error does not quote it, since it may contain a password. */
function checkedUrl(url) {
  let parsed;
  try {
    parsed = new URL(url);
  } catch {
    parsed = new URL("none:");
  }
  if (!/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password || parsed.search) {
    throw new TypeError("`url` must be http(s)://host[:port][/prefix]; credentials go into `key`");
  }
  return (parsed.origin + parsed.pathname).replace(/\/+$/, "");
}
