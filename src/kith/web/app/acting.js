/** Optimistic updates: an action shows on the screen at once, and is undone if the server refuses it. */

import { noteRefusal } from "./session.js";
import { errorText, toast } from "./messages.js";

/**
 * The last action in flight for each key: a promise of how to undo it and those before it that failed, newest first. The
 * next action waits for it, so that a like and its undo arrive in order.
 */
const underWay = new Map();

/**
 * Show an action with `apply`, send it, and call `undo` if that fails. If a newer action on the same `key` has started
 * meanwhile, the failed one is undone only if the newer one fails, too. Resolves to whether the server took the action.
 */
export async function attempt({ key, apply, send, undo, what }) {
  apply();
  const before = underWay.get(key);
  const mine = (async () => {
    const failures = (await before) ?? [];
    try {
      await send();
      return [];
    } catch (error) {
      failed(error, what);
      return [undo, ...failures];
    }
  })();
  underWay.set(key, mine);
  const failures = await mine;
  if (underWay.get(key) === mine) {
    underWay.delete(key);
    failures.forEach((one) => one());
  }
  return failures.length === 0;
}

/** Show a failure; if the token is no longer valid, ask for another one. */
export function failed(error, what) {
  noteRefusal(error);
  if (error.code === undefined) console.error(error);
  toast(what ? `${what} ${errorText(error)}` : errorText(error));
}
