/**
 * What a call throws: a `KithError`, or, where its own signal was aborted, the reason of that signal.
 *
 * `code` is what to switch on. The service's own are in its documentation; the client adds
 *
 *   UNREACHABLE       no answer came, in all tries (`cause`: of the last one). A write may have happened all the same
 *   TIMEOUT           no answer came in time; likewise
 *   NO_KEY            `key` failed (`cause`)
 *   HTTP_<status>     the answer is of something in front of the service
 *   INVALID_ANSWER    a success that does not say what the service promises
 *
 * `status` is 0 where there is no answer. `retryAfter`: seconds that the service asks to wait. No error holds the key.
 */
export class KithError extends Error {
  constructor(code, message, { status = 0, details = {}, retryAfter = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "KithError";
    this.code = code;
    this.status = status;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

/** The error that an answer stands for, which is no success. */
export function refusalOf(status, headers, text) {
  const retryAfter = secondsIn(headers.get("Retry-After"));
  const { code, message, details } = parsed(text)?.error ?? {};
  if (typeof code === "string" && typeof message === "string") {
    return new KithError(code, message, { status, details: details ?? {}, retryAfter });
  }
  const said = `${status}, and the answer is not Kith's; check the URL and what stands in front of the service`;
  return new KithError(`HTTP_${status}`, said, { status, retryAfter });
}

export function unreadable(what, status = 200) {
  return new KithError("INVALID_ANSWER", `${what}; is this the URL of a Kith server, and no older one?`, { status });
}

export function unreachable(url, cause) {
  return new KithError("UNREACHABLE", `no answer from ${url} (${reasonOf(cause)}); is the server running?`, { cause });
}

/** Retry-After in seconds. Its other form, a date, is left to the back-off: a device's clock may be wrong by a day. */
function secondsIn(header) {
  return header !== null && /^\d+(\.\d+)?$/.test(header) ? Number(header) : null;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Node says why a `fetch` failed in the cause of its error; browsers tell no reason. */
function reasonOf(error) {
  return error?.cause?.code ?? error?.cause?.message ?? error?.message ?? String(error);
}
