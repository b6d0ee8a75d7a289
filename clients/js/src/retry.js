/** When to try again, and how long to wait before it. */

export const RETRY = { tries: 4, baseMs: 200, capMs: 5_000 };
const DOUBLINGS_MAX = 30; // keeps the back-off finite, however many tries are asked for

const AGAIN = new Set([429, 503]);
/** The one 503 that says that nothing was done. */
const NOT_STARTED = "OVERLOADED";
/** Failures of Node's and Deno's `fetch` before anything was sent. Browsers do not tell. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

export function checkedRetry(given = {}) {
  const retry = { ...RETRY, ...given };
  if (!(retry.tries >= 1 && retry.baseMs >= 0 && retry.capMs >= 0)) {
    throw new TypeError("`retry` needs tries >= 1, baseMs >= 0 and capMs >= 0");
  }
  return retry;
}

/** Whether another try may end better: the service said "not now", or there was no answer. */
export function mayPass(error) {
  return AGAIN.has(error.status) || error.code === "UNREACHABLE" || error.code === "TIMEOUT";
}

/** Whether a failed try did certainly nothing, so that even what must not happen twice may be tried again. */
export function wasNotStarted(error) {
  return error.status === 429 || error.code === NOT_STARTED || NOT_SENT.has(error.cause?.cause?.code);
}

/**
 * Milliseconds to wait after so many failures, null: give up.
 *
 * Exponential with full jitter, so that clients that failed together do not come back together; and at least what
 * the service asks for. If that is more than the cap, whether to wait so long is the caller's decision.
 */
export function waitMs(failures, error, { tries, baseMs, capMs }, random) {
  const askedMs = (error.retryAfter ?? 0) * 1000;
  if (failures >= tries || askedMs > capMs) return null;
  return Math.min(capMs, askedMs + random() * Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, DOUBLINGS_MAX)));
}
