/**
 * Live events: one stream for all tabs of a browser.
 *
 * The tab that holds a lock reads the stream, and sends the other tabs its events over a channel. It also sends the
 * position of the stream, which advances without events too. When that tab closes, the next one gets the lock and resumes
 * from the position. Where the browser has no locks (a page over plain HTTP from another machine), each tab reads its own
 * stream.
 */

import { noteRefusal, session, sessionEvents } from "./session.js";

const PAUSE_MS = 10_000;
/** Ms between two messages to the other tabs with the position of the stream, if it advanced. */
const SHARED_MS = 1_000;
/**
 * Dispatches the events of the stream by their type, and `connection` with { is: true or false }. The page dispatches
 * `back` when it is online again.
 */
export const live = new EventTarget();
let channel = null; // between tabs that share a stream
let stream = null; // set in the tab that reads the stream
let lastEventId = null;

/** Start live events for the user of the session. */
export function goLive() {
  const name = `kith-live-${session.user}`;
  if (!navigator.locks) return void lead();
  channel = new BroadcastChannel(name);
  channel.addEventListener("message", ({ data }) => (data.type === "asks" ? sharePlace() : hear(data)));
  channel.postMessage({ type: "asks" });
  navigator.locks.request(name, lead);
}

/** Read the stream for all tabs, until this tab closes. */
async function lead() {
  setInterval(() => stream.lastEventId !== lastEventId && sharePlace(), SHARED_MS);
  for (;;) {
    stream = session.kith.feedStream({ after: lastEventId, onConnection: (is) => tell({ type: "connection", is }) });
    try {
      for await (const event of stream) tell(event);
    } catch (error) {
      tell({ type: "connection", is: false });
      await untilItHelps(error);
    }
  }
}

/** Send the position of the stream to all tabs, if this tab reads it. */
function sharePlace() {
  if (stream) tell({ type: "place", eventId: stream.lastEventId });
}

function tell(event) {
  channel?.postMessage(event);
  hear(event);
}

function hear(event) {
  lastEventId = event.eventId ?? lastEventId;
  live.dispatchEvent(new CustomEvent(event.type, { detail: event }));
}

/** Wait until the stream may be requested again after an error. */
async function untilItHelps(error) {
  const token = session.kith.token;
  noteRefusal(error);
  if (error.code === "UNAUTHORIZED") await new Promise((done) => sessionEvents.addEventListener("renewed", done, { once: true }));
  else if (session.kith.token === token) await new Promise((done) => setTimeout(done, PAUSE_MS)); // else the server was restored: retry at once
}
