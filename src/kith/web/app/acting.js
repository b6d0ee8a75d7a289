/** Optimistic updates: an action shows on the screen at once, and is undone if the server refuses it. */

import { noteRefusal } from "./session.js";
import { errorText, toast } from "./messages.js";

/** The last action in flight for each key. The next one waits for it, so that a like and its undo arrive in order. */
const underWay = new Map();

/**
 * Show an action with `apply`, send it, and call `undo` if that fails. If a newer action on the same `key` has started
 * meanwhile, the failed one is not undone. Resolves to whether the server took the action.
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

/** Show a failure; if the token is no longer valid, ask for another one. */
export function failed(error, what) {
  noteRefusal(error);
  if (error.code === undefined) console.error(error);
  toast(what ? `${what} ${errorText(error)}` : errorText(error));
}
