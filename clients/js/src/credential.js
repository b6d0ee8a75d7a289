import { KithError } from "./errors.js";

/**
 * The key of a client: a server key or user token, or a function that gets one.
 *
 * A function is asked at the first call, and again when the service refuses what it gave: once for all calls that were
 * refused meanwhile. So a page that slept through the night goes on.
 */
export class Credential {
  #source;
  #key;
  #asked = null;

  constructor(source) {
    this.#source = source;
    this.#key = typeof source === "function" || source == null ? null : headerValue(source, "key");
  }

  /** The key to send; null: none. */
  async current() {
    return this.#key === null ? this.#ask() : this.#key;
  }

  /** Whether there is another key than this one, which was refused. */
  async renewed(refused) {
    if (this.#key === refused) await this.#ask();
    return this.#key !== refused;
  }

  async #ask() {
    if (typeof this.#source !== "function") return this.#key;
    this.#asked ??= Promise.resolve()
      .then(this.#source)
      .catch(failed)
      .finally(() => (this.#asked = null));
    this.#key = headerValue(await this.#asked, "key");
    return this.#key;
  }
}

function failed(cause) {
  throw new KithError("NO_KEY", "`key` failed; see `cause`", { cause });
}

/** The value, where a header can carry it. The error does not quote it: it may be a secret. */
export function headerValue(value, name) {
  if (typeof value !== "string" || !/^[\x21-\x7e]+$/.test(value)) {
    throw new TypeError(`\`${name}\` must be printable ASCII without spaces, and not empty`);
  }
  return value;
}
