/**
 * The error of a call. A call throws a `KithError`, or the reason of its own `signal` if that was aborted.
 *
 * Switch on `code`. The service documents its codes; the client adds these:
 *
 *   UNREACHABLE       no try got an answer (`cause`: of the last try). A write may have happened
 *   TIMEOUT           no answer came in time. A write may have happened
 *   NO_KEY            the `key` function failed (`cause`)
 *   HTTP_<status>     a proxy in front of the service answered
 *   INVALID_ANSWER    a success whose body is not what the service promises
 *
 * `status` is 0 without an answer. `retryAfter`: seconds that the service asks to wait. No error contains the key.
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

/** The error for an answer that is not a success. In browsers a redirect has status 0. */
export function refusalOf(status, headers, text) {
  const retryAfter = secondsIn(headers.get("Retry-After"));
  const { code, message, details } = parsed(text)?.error ?? {};
  if (typeof code === "string" && typeof message === "string") {
    return new KithError(code, message, { status, details: details ?? {}, retryAfter });
  }
  const said = `${status || "a redirect"}, and the answer is not Kith's; check the URL and what stands in front of the service`;
  return new KithError(`HTTP_${status}`, said, { status, retryAfter });
}

export function unreadable(what, status = 200) {
  return new KithError("INVALID_ANSWER", `${what}; is this the URL of a Kith server, and no older one?`, { status });
}

export function unreachable(url, cause) {
  return new KithError("UNREACHABLE", `no answer from ${url} (${reasonOf(cause)}); is the server running?`, { cause });
}

/** Retry-After in seconds. A date is ignored, since a device's clock may be wrong; the back-off applies. */
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

/** Why a `fetch` failed: Node reports it as the cause of the error; browsers give no reason. */
function reasonOf(error) {
  return error?.cause?.code ?? error?.cause?.message ?? error?.message ?? String(error);
}
