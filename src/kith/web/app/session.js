/**
 * The session: the signed-in user, by the token of their app, and the API client that acts for them.
 *
 * The token comes in the fragment of a link, which no server sees, and is removed from the address at once. It is kept in
 * sessionStorage, so it ends with the tab. A new tab of the same browser asks open tabs for it. Signing out in one tab
 * signs out in all. Before a link signs a user in as somebody else, the page asks for confirmation: an attacker could send
 * a link with their own token, and read what the user then writes.
 */

import { Kith } from "./client/kith.js";
import { confirmed } from "./dom.js";

const STORED = "kith.token";
/** Ms to wait for other tabs' answers before the page shows. A busy tab may answer later. */
const BORROW_MS = 250;
/** Error codes of a server that was restored from a backup, and lost a write that we have seen. */
const BEFORE_RESTORE = new Set(["TOKEN_INVALID", "TOKEN_TOO_OLD", "CONFLICT"]);
const TOKEN_HEADER = "Kith-Token";
const tabs = new BroadcastChannel("kith-tabs");
/** Dispatches `ended` (the token is no longer accepted), `renewed` and `out`. */
export const sessionEvents = new EventTarget();

/** `user`: their id; `kith`: the client that acts for them. Set by `begin`. */
export const session = { user: null, kith: null, token: null };

/**
 * Start with a token from the address, from this tab or from another one. False: there is none, so the user must give
 * one; `late()` is called if another tab sends one later.
 */
export async function begin(late) {
  const linked = fromAddress();
  let token = sessionStorage.getItem(STORED);
  if (token === null && (linked === null || (await othersRead()))) token = await borrowed(late);
  if (linked !== null && (await mayReplace(token, linked))) token = linked;
  return token !== null && use(token);
}

/** Whether a user signed in with the token `own` (or null) switches to the token of a link; if so, their data is cleared. */
async function mayReplace(own, linked) {
  const [from, to] = [own, linked].map((token) => token && subjectOf(token));
  if (!from || from === to) return true;
  const asked = `This link signs you in as another user, ${to}. Whoever sent it may read what you do there.`;
  if (to === null || !(await confirmed(asked, `Sign in as ${to}`))) return false;
  sessionStorage.clear();
  return true;
}

/** Whether another tab with a session may be open. */
async function othersRead() {
  return !navigator.locks || (await navigator.locks.query()).held.length > 0;
}

/** Sign in with a token. False if it is malformed; only the server checks whether it is valid. */
export function use(token) {
  const user = subjectOf(token);
  if (user === null) return false;
  const before = session.user;
  session.token = token;
  sessionStorage.setItem(STORED, token);
  if (before !== null && before !== user) {
    forget();
    sessionStorage.setItem(STORED, token);
    location.replace("/app");
    return true;
  }
  if (location.pathname !== "/app") history.replaceState(null, "", "/app");
  session.user = user;
  session.kith ??= new Kith(location.origin, { key: () => session.token, fetch: uncached });
  sessionEvents.dispatchEvent(new Event("renewed"));
  return true;
}

/**
 * Update the session after a refused request. If the token is no longer accepted, the user must sign in again; the page
 * stays as it is. If the server was restored, drop the token of a lost write, so that the next request is answered.
 */
export function noteRefusal({ code }) {
  if (code === "UNAUTHORIZED") sessionEvents.dispatchEvent(new Event("ended"));
  if (BEFORE_RESTORE.has(code)) session.kith.token = null;
}

/** Sign out, here and in the other tabs, and clear all stored data. */
export function signOut() {
  tabs.postMessage({ out: true });
  leave();
}

function leave() {
  forget();
  location.replace("/app/signed-out");
}

/** Clear what this tab stores: the token and the drafts. */
function forget() {
  sessionStorage.clear();
  session.token = null;
}

function fromAddress() {
  const [, token] = location.hash.split(/^#token=/);
  if (token === undefined) return null;
  history.replaceState(null, "", "/app");
  return token || null;
}

function borrowed(late) {
  if (location.pathname.endsWith("/signed-out")) return Promise.resolve(null);
  return new Promise((resolve) => {
    let waits = true;
    tabs.addEventListener("message", ({ data }) => {
      if (!data.token || session.token !== null) return;
      if (waits) resolve(data.token);
      else if (use(data.token)) late();
    });
    tabs.postMessage({ asks: true });
    setTimeout(() => ((waits = false), resolve(null)), BORROW_MS);
  });
}

tabs.addEventListener("message", ({ data }) => {
  if (data.asks && session.token !== null) tabs.postMessage({ token: session.token });
  if (data.out && session.token !== null) leave();
});
addEventListener("hashchange", async () => {
  const token = fromAddress();
  if (token !== null && (await mayReplace(session.token, token)) && use(token)) location.replace("/app");
});
// A page from before the sign-out that comes back from the browser's back-forward cache must not show: reload it.
addEventListener("pageshow", (event) => event.persisted && location.reload());

/** The user id in a token; null if the token is malformed. */
function subjectOf(token) {
  try {
    const claims = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return /^\d+$/.test(claims.sub) ? claims.sub : null;
  } catch {
    return null;
  }
}

/**
 * A `fetch` that keeps no API answer in the browser's cache, and sends no cookies.
 *
 * A restored server refuses a request with the write token of a lost write, before it does anything. Such a request is
 * sent once more, without the token.
 */
async function uncached(url, options) {
  const ask = (headers) => fetch(url, { ...options, headers, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  const answer = await ask(options.headers);
  const { [TOKEN_HEADER]: seen, ...others } = options.headers;
  if (seen === undefined || !(await isOfBeforeRestore(answer))) return answer;
  if (session.kith.token === seen) session.kith.token = null;
  return ask(others);
}

async function isOfBeforeRestore(answer) {
  if (answer.status !== 400 && answer.status !== 409) return false;
  const said = await answer.clone().json().catch(() => null);
  return BEFORE_RESTORE.has(said?.error?.code);
}
