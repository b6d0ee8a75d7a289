/** What the reader does is on the screen at once, and taken back where the server refuses it. */

import { heed } from "./session.js";
import { explained, say } from "./telling.js";

/** The last thing under way for each key: what follows waits, so that a like and its undoing arrive in order. */
const underWay = new Map();

/**
 * Show it with `apply`, send it, and take it back with `undo` where that fails. What is done meanwhile to the same `key`
 * stands: only the last one is taken back. Resolves to whether it holds.
 */
export async function attempt({ key, apply, send, undo, what }) {
  apply();
  const before = underWay.get(key);
  const mine = (async () => {
    await before?.catch(() => {});
    return send();
  })();
  underWay.set(key, mine);
  try {
    await mine;
    return true;
  } catch (error) {
    if (underWay.get(key) === mine) undo();
    failed(error, what);
    return false;
  } finally {
    if (underWay.get(key) === mine) underWay.delete(key);
  }
}

/** Tell of a failure; where the token is out, ask for another one. */
export function failed(error, what) {
  heed(error);
  if (error.code === undefined) console.error(error);
  say(what ? `${what} ${explained(error)}` : explained(error));
}
