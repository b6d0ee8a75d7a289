/**
 * Who reads, by the token of their app, and the client that asks for them.
 *
 * The token comes in the fragment of a link, which no server sees, and is taken out of the address at once. It is kept in
 * sessionStorage, so it ends with the tab; a further tab of the same browser asks those that are open. Whoever signs
 * out in one tab is signed out in all. Whoever is signed in is asked before a link signs them in as another user: anybody
 * can send a link with a token of their own, and would read what is written there.
 */

import { Kith } from "./client/kith.js";
import { confirmed } from "./dom.js";

const STORED = "kith.token";
/** How long nothing is shown while other tabs are asked. A tab that is busy answers later. */
const BORROW_MS = 250;
/** What the server says where it was restored from a backup, and does not know a write that we have seen. */
const BEFORE_RESTORE = new Set(["TOKEN_INVALID", "TOKEN_TOO_OLD", "CONFLICT"]);
const TOKEN_HEADER = "Kith-Token";
const tabs = new BroadcastChannel("kith-tabs");
/** Told of `ended` (the token is no longer taken), `renewed` and `out`. */
export const sessionEvents = new EventTarget();

/** `user`: their id; `kith`: the client that acts for them. Set by `begin`. */
export const session = { user: null, kith: null, token: null };

/**
 * Begin with a token of the address, of this tab or of another one. False: there is none, so ask for it; `late()` is
 * called where another tab gives one after all.
 */
export async function begin(late) {
  const linked = fromAddress();
  let token = sessionStorage.getItem(STORED);
  if (token === null && (linked === null || (await othersRead()))) token = await borrowed(late);
  if (linked !== null && (await mayReplace(token, linked))) token = linked;
  return token !== null && use(token);
}

/** Whether the reader, signed in with the token `own`, if any, goes on with that of a link; if so, they leave nothing. */
async function mayReplace(own, linked) {
  const [from, to] = [own, linked].map((token) => token && subjectOf(token));
  if (!from || from === to) return true;
  const asked = `This link signs you in as another user, ${to}. Whoever sent it may read what you do there.`;
  if (to === null || !(await confirmed(asked, `Sign in as ${to}`))) return false;
  sessionStorage.clear();
  return true;
}

/** Whether another tab may be open in which somebody reads. */
async function othersRead() {
  return !navigator.locks || (await navigator.locks.query()).held.length > 0;
}

/** Sign in with a token. False where it is none; whether it is a good one, the server says. */
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
 * What a refusal says of the session. Where the token is taken no longer, somebody must sign in again, and what is on the
 * page stays. Where the server was restored, what it lost is waited for no longer, so the next request is answered.
 */
export function heed({ code }) {
  if (code === "UNAUTHORIZED") sessionEvents.dispatchEvent(new Event("ended"));
  if (BEFORE_RESTORE.has(code)) session.kith.token = null;
}

/** Sign out, here and in the other tabs, and leave nothing for the next person. */
export function signOut() {
  tabs.postMessage({ out: true });
  leave();
}

function leave() {
  forget();
  location.replace("/app/signed-out");
}

/** All that this tab kept: the token, and what was typed and not sent. */
function forget() {
  sessionStorage.clear();
  session.token = null;
}

function fromAddress() {
  const found = /^#token=([\w.-]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", "/app");
  return found[1];
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
// Back to a page of before the sign-out, which the browser kept whole: it must not show.
addEventListener("pageshow", (event) => event.persisted && location.reload());

/** The user that a token speaks for; null where it is no token. */
function subjectOf(token) {
  try {
    const claims = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return /^\d+$/.test(claims.sub) ? claims.sub : null;
  } catch {
    return null;
  }
}

/**
 * Nothing of what the API answers is left in the browser's cache, and no cookie is sent.
 *
 * A server that was restored refuses what waits for a write that it lost, before it does anything: so that is sent once
 * more, and waits for nothing.
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
