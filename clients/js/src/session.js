/** A client's acting user and newest token, and how a request is sent: keys, timeouts, retries. */

import { headerValue } from "./credential.js";
import { limited, pause, unlessAborted } from "./deadline.js";
import { KithError, refusalOf, unreachable, unreadable } from "./errors.js";
import { mayPass, waitMs, wasNotStarted } from "./retry.js";

export const TOKEN_HEADER = "Kith-Token";
const TOKENS_MAX = 8; // the service takes 16
const USER_HEADER = "X-Kith-User";

export class Session {
  #token = null;

  /** `shared`: url, credential, retry, timeoutMs, deadlineMs, fetch and random, which a client and its views share. */
  constructor(shared, acting, token) {
    this.shared = shared;
    this.acting = acting;
    this.token = token;
  }

  get token() {
    return this.#token;
  }

  set token(token) {
    this.#token = token == null ? null : headerValue(token, "token");
  }

  /** The answer to a request, with retries. `send`: how to send it; as JSON by default. */
  call(request, options = {}, send = sendJson) {
    const { timeoutMs = this.shared.timeoutMs, deadlineMs = this.shared.deadlineMs } = options;
    const until = performance.now() + deadlineMs;
    return this.within(deadlineMs, options.signal, (whole) =>
      this.#tries(request, send, whole.signal, timeoutMs, until),
    );
  }

  /** The response to a GET with an endless body. The caller retries, and aborts `signal` at the end. */
  open(path, headers, signal) {
    const { fetch, url, timeoutMs } = this.shared;
    return this.within(timeoutMs, signal, async (limit) => {
      const sent = (key) => fetch(url + path, { headers: { ...this.#headers(key), ...headers }, signal });
      const response = await this.#sent(limit.signal, sent);
      if (response.ok) return response;
      throw refusalOf(response.status, response.headers, await this.reached(response.text(), limit.signal));
    });
  }

  /** The result of `ask(limit)`; a TIMEOUT error after so many milliseconds. */
  async within(ms, signal, ask) {
    const limit = limited(signal, ms, () => late("an answer", ms));
    try {
      return await ask(limit);
    } finally {
      limit.end();
    }
  }

  /** Sends a request; network failures become a KithError. */
  async reached(answer, signal) {
    try {
      return await unlessAborted(signal, answer);
    } catch (error) {
      throw signal.aborted ? signal.reason : unreachable(this.shared.url, error);
    }
  }

  async #tries(request, send, signal, timeoutMs, until) {
    let mayBeDone = false;
    for (let failures = 1; ; failures++) {
      try {
        return await this.#try(request, send, signal, timeoutMs);
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (request.deletes && mayBeDone && error.status === 404) return undefined;
        const notStarted = wasNotStarted(error);
        const again = mayPass(error) && (request.repeatable || notStarted);
        const ms = again ? waitMs(failures, error, this.shared.retry, this.shared.random) : null;
        if (ms === null || performance.now() + ms > until) throw error;
        mayBeDone ||= !notStarted;
        await pause(ms, signal);
      }
    }
  }

  #try(request, send, signal, timeoutMs) {
    const { fetch, url } = this.shared;
    return this.within(timeoutMs, signal, async (limit) => {
      const response = await this.#sent(limit.signal, (key) => {
        const headers = { ...this.#headers(key), ...request.headers };
        return send(url + request.path, { method: request.verb, headers, body: request.body }, limit, fetch);
      });
      const text = await this.reached(response.text(), limit.signal);
      if (request.health && (response.ok || response.status === 503)) return response.ok;
      if (!response.ok) throw refusalOf(response.status, response.headers, text);
      return response.status === 204 ? undefined : readJson(text, request, response.status);
    });
  }

  /** The result of `send` with the key; after a 401, when nothing was done, with a new key. */
  async #sent(signal, send) {
    const { credential } = this.shared;
    for (let renewals = 0; ; renewals++) {
      const key = await unlessAborted(signal, credential.current());
      const sent = this.#token;
      const response = await this.reached(send(key), signal);
      const token = response.headers.get(TOKEN_HEADER);
      if (token) this.#carry(token, sent);
      if (response.status !== 401 || renewals > 0) return response;
      if (!(await unlessAborted(signal, credential.renewed(key)))) return response;
      await response.body?.cancel();
    }
  }

  /** Adds the token of an answer. It replaces the tokens `sent` with its request; newer ones are kept. */
  #carry(token, sent) {
    const [seen, covered] = [this.#token, sent].map((tokens) => tokens?.split(".") ?? []);
    this.token = [...seen.filter((one) => !covered.includes(one)), token].slice(-TOKENS_MAX).join(".");
  }

  #headers(key) {
    const headers = {};
    if (key !== null) headers.Authorization = `Bearer ${key}`;
    if (this.acting !== null) headers[USER_HEADER] = this.acting;
    if (this.#token !== null) headers[TOKEN_HEADER] = this.#token;
    return headers;
  }
}

function sendJson(url, request, limit, fetch) {
  return fetch(url, { ...request, signal: limit.signal });
}

function readJson(text, request, status) {
  try {
    return JSON.parse(text);
  } catch {
    throw unreadable(`${request.verb} ${request.path}: the answer is no JSON`, status);
  }
}

function late(what, ms) {
  return new KithError("TIMEOUT", `${what} took more than ${ms} ms`);
}
