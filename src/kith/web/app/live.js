/**
 * What happens, as it happens: one stream for all tabs of a browser.
 *
 * The tab that holds a lock reads the stream and tells the others over a channel; when it goes, the next one holds the
 * lock and goes on after the last event that it heard. Where a browser has no locks (a page over plain HTTP from another
 * machine), each tab reads its own.
 */

import { heed, session, sessionEvents } from "./session.js";

const PAUSE_MS = 10_000;
/** Events of the stream, by their type; `connection` with true or false. */
export const live = new EventTarget();
let channel;
let lastEventId = null;

/** Begin for the user of the session. */
export function goLive() {
  channel = new BroadcastChannel(`kith-live-${session.user}`);
  channel.addEventListener("message", ({ data }) => hear(data));
  if (navigator.locks) navigator.locks.request(`kith-live-${session.user}`, lead);
  else lead();
}

/** Read the stream for all tabs, as long as this one lives. */
async function lead() {
  for (;;) {
    const stream = session.kith.feedStream({ after: lastEventId, onConnection: (is) => tell({ type: "connection", is }) });
    try {
      for await (const event of stream) tell(event);
    } catch (error) {
      tell({ type: "connection", is: false });
      await untilItHelps(error);
    }
  }
}

function tell(event) {
  channel.postMessage(event);
  hear(event);
}

function hear(event) {
  lastEventId = event.eventId ?? lastEventId;
  live.dispatchEvent(new CustomEvent(event.type, { detail: event }));
}

/** Until the stream may be asked for again. */
async function untilItHelps(error) {
  const token = session.kith.token;
  heed(error);
  if (error.code === "UNAUTHORIZED") await new Promise((done) => sessionEvents.addEventListener("renewed", done, { once: true }));
  else if (session.kith.token === token) await new Promise((done) => setTimeout(done, PAUSE_MS)); // else it was restored: at once
}
