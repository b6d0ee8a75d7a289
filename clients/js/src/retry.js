/** Decides whether to retry, and how long to wait before. */

export const RETRY = { tries: 4, baseMs: 200, capMs: 5_000 };
const DOUBLINGS_MAX = 30; // keeps the back-off finite, however many tries are asked for

const AGAIN = new Set([429, 503]);
/** The only 503 code that guarantees that nothing was done. */
const NOT_STARTED = "OVERLOADED";
/** Failures of `fetch` in Node and Deno before anything was sent. Browsers do not report them. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

export function checkedRetry(given = {}) {
  const retry = { ...RETRY, ...given };
  if (!(retry.tries >= 1 && retry.baseMs >= 0 && retry.capMs >= 0)) {
    throw new TypeError("`retry` needs tries >= 1, baseMs >= 0 and capMs >= 0");
  }
  return retry;
}

/** Whether a retry may succeed: the service answered "not now", or there was no answer. */
export function mayPass(error) {
  return AGAIN.has(error.status) || error.code === "UNREACHABLE" || error.code === "TIMEOUT";
}

/** Whether the failed try certainly changed nothing, so that even an upload may be retried. */
export function wasNotStarted(error) {
  return error.status === 429 || error.code === NOT_STARTED || NOT_SENT.has(error.cause?.cause?.code);
}

/**
 * Milliseconds to wait after so many failures; null: give up.
 *
 * Exponential back-off with full jitter, so that clients that failed together do not return together, and at least the
 * time that the service asks for. If that exceeds the cap, the caller decides.
 */
export function waitMs(failures, error, { tries, baseMs, capMs }, random) {
  const askedMs = (error.retryAfter ?? 0) * 1000;
  if (failures >= tries || askedMs > capMs) return null;
  return Math.min(capMs, askedMs + random() * Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, DOUBLINGS_MAX)));
}
