import { KithError } from "./errors.js";

/**
 * The key of a client: a server key, a user token, or a function that returns one.
 *
 * The function is called at the first request, and again when the service refuses the key: once for all requests
 * refused meanwhile. So a page that slept overnight continues with a fresh token.
 */
export class Credential {
  #source;
  #key;
  #asked = null;

  constructor(source) {
    this.#source = source;
    this.#key = typeof source === "function" || source == null ? null : headerValue(source, "key");
  }

  /** The key to send; null: send none. */
  async current() {
    return this.#key === null ? this.#ask() : this.#key;
  }

  /** Asks for a new key after `refused` was refused; whether there is another one to try. */
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

/** The key if it fits into a header; throws otherwise. The error does not quote it, since it is a secret. */
export function headerValue(value, name) {
  if (typeof value !== "string" || !/^[\x21-\x7e]+$/.test(value)) {
    throw new TypeError(`\`${name}\` must be printable ASCII without spaces, and not empty`);
  }
  return value;
}
