/** Times in words. They use the server's clock: if this device's clock is a day off, "in 23 hours" would show. */

const WHOLE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });
const STEPS = [
  ["minute", 60_000, 3_600_000],
  ["hour", 3_600_000, 86_400_000],
  ["day", 86_400_000, 604_800_000],
];
let aheadMs = 0;

/** Learn the server's time from a fresh answer. */
export function learnTime(generatedAt) {
  aheadMs = Date.parse(generatedAt) - Date.now();
}

/** "5 min. ago" */
export function ago(at) {
  const pastMs = Math.max(0, Date.now() + aheadMs - Date.parse(at));
  if (pastMs < 60_000) return "now";
  for (const [unit, ms, upTo] of STEPS) if (pastMs < upTo) return AGO.format(-Math.floor(pastMs / ms), unit);
  return DAY.format(new Date(at));
}

/** Date and time. */
export function exactly(at) {
  return WHOLE.format(new Date(at));
}
