// Sends requests with the key that was typed in. The key stays in this tab (sessionStorage), and is sent only as a header.

const KEY = "kith-console-key";

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const key = () => sessionStorage.getItem(KEY);
export const keep = (value) => sessionStorage.setItem(KEY, value);
export const forget = () => sessionStorage.removeItem(KEY);

/** Send a request. `viewer`: id of the user for whom the answer is; "system" for the back office. */
export async function send(method, path, { body, viewer } = {}) {
  const headers = { Authorization: `Bearer ${key()}` };
  if (viewer) headers["X-Kith-User"] = viewer;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "omit" });
  } catch {
    throw new Refused(0, "AWAY", "No server answers here; it is tried again.");
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(answer.status, "UNREADABLE", `Something answered ${answer.status} that is not Kith.`);
  }
  if (!answer.ok) throw new Refused(answer.status, value?.error?.code ?? "", value?.error?.message ?? `status ${answer.status}`);
  return value;
}

export const get = (path, options) => send("GET", path, options);
