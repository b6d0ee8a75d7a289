// Formats numbers, sizes and times for people.

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const step = Math.min(BYTES.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
  return `${number(value / 1024 ** step)} ${BYTES[step]}`;
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? `${number(value / 1000)} s` : `${number(value)} ms`;
}

export const rate = (value) => (value === null || value === undefined ? "–" : `${number(value)}/s`);
export const seconds = (value) => ms(value === null || value === undefined ? null : value * 1000);

export function ago(at, now = Date.now()) {
  const past = Math.max(0, Math.round((now - at) / 1000));
  if (past < 120) return `${past} s ago`;
  return past < 7200 ? `${Math.round(past / 60)} min ago` : `${Math.round(past / 3600)} h ago`;
}

export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
export const moment = (at) => new Date(at).toISOString().replace("T", " ").slice(0, 19) + " UTC";
