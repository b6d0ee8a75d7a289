/** The client: a method for every operation of the API, and whom they act for. */

import { askInBatches, writeInBatches } from "./batches.js";
import { arityOf, checkedId, requestOf, several } from "./calls.js";
import { Credential } from "./credential.js";
import { OPERATIONS } from "./operations.js";
import { Listing } from "./paging.js";
import { checkedRetry } from "./retry.js";
import { Session } from "./session.js";
import { FeedStream, WatchStream } from "./stream.js";
import { UPLOAD_SILENCE_MS, uploader } from "./upload.js";

/** Limits of one try and of a call with all its tries. */
const TIMEOUT_MS = 10_000;
const DEADLINE_MS = 30_000;
/** In place of a user: the back office of the app, which sees all. */
const SYSTEM = "system";

/**
 * A client of one Kith service. `key`: a server key, a user's token, or a function that gets one.
 *
 * A server key acts for `user`, or, through a view, for whom `asUser` names; without a user it sees what a visitor may.
 */
export class Kith {
  #session;

  constructor(url, { key, user, token, timeoutMs = TIMEOUT_MS, deadlineMs = DEADLINE_MS, retry, fetch, random } = {}) {
    if (url instanceof Session) {
      this.#session = url;
      return;
    }
    const shared = {
      url: checkedUrl(url),
      credential: new Credential(key),
      timeoutMs,
      deadlineMs,
      retry: checkedRetry(retry),
      fetch: fetch ?? ((...request) => globalThis.fetch(...request)), // browsers want it called on the window
      random: random ?? Math.random,
    };
    this.#session = new Session(shared, user == null ? null : checkedId(user, "user"), token);
  }

  /** The newest read-your-writes token seen; sent with every call. Set it to hand one over. */
  get token() {
    return this.#session.token;
  }

  set token(token) {
    this.#session.token = token;
  }

  /** A view that acts for `user`, with a token of its own, from here unless one is given. It costs nothing to make. */
  asUser(user, { token = this.token } = {}) {
    return new Kith(new Session(this.#session.shared, checkedId(user, "user"), token));
  }

  /** A view that acts for the back office of the app: it sees all there is. */
  asSystem({ token = this.token } = {}) {
    return new Kith(new Session(this.#session.shared, SYSTEM, token));
  }

  /** What changes in the acting user's feed, as it happens. See `FeedStream`. */
  feedStream(options) {
    return new FeedStream(this.#session, options);
  }

  /** Every change of chosen kinds, graphs and nodes, in order, each once. Takes a server key. See `WatchStream`. */
  watch(options) {
    return new WatchStream(this.#session, options);
  }

  /** The whole address of a picture or video, of which the service may answer the path only. */
  fileUrl(path) {
    return new URL(path, `${this.#session.shared.url}/`).href;
  }

  async #ask(name, operation, given, options) {
    const answer = await this.#session.call(requestOf(name, operation, given, options), options);
    return operation.only ? answer[operation.only] : answer;
  }

  /** For what takes many: the items are the last argument. */
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

/** The error does not quote the URL: a wrong one may hold a password. */
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
