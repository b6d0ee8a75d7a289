/** Timeouts for abortable calls, and waits that end with them. */

const TIMER_MAX_MS = 2 ** 31 - 1; // beyond, timers fire at once

/**
 * A signal that aborts with `outer`, or, so many milliseconds after the last `touch`, with the error that `late` makes.
 *
 * Always call `end`: it removes the listener on `outer`, which may live as long as the page. (`AbortSignal.any` leaks
 * in Node 20.)
 */
export function limited(outer, ms = Infinity, late = undefined) {
  const inner = new AbortController();
  const forward = () => inner.abort(outer.reason);
  let timer;
  const touch = () => {
    clearTimeout(timer);
    if (ms <= TIMER_MAX_MS && !inner.signal.aborted) timer = setTimeout(() => inner.abort(late()), ms);
  };
  const end = () => {
    clearTimeout(timer);
    outer?.removeEventListener("abort", forward);
  };
  if (outer?.aborted) forward();
  outer?.addEventListener("abort", forward);
  touch();
  return { signal: inner.signal, touch, end, abort: (reason) => inner.abort(reason) };
}

/** The result of `promise`; rejects if the signal aborts first. */
export async function unlessAborted(signal, promise) {
  let stop;
  const aborted = new Promise((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop);
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Waits so many milliseconds; rejects with the signal's reason if it is aborted. */
export async function pause(ms, signal) {
  let timer;
  const passed = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
  try {
    await unlessAborted(signal, passed);
  } finally {
    clearTimeout(timer);
  }
}
