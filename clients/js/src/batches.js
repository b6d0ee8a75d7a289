/** Splits any number of items into requests of the size that the service accepts. */

import { unreadable } from "./errors.js";

/**
 * The answers to all items, in order. `items`: any iterable, sync or async; it is read while requests are sent.
 * If a request fails, those before it remain done. Sending all items again is safe.
 */
export async function askInBatches(items, size, ask) {
  const answers = [];
  for await (const batch of batchesOf(items, size)) {
    const some = await ask(batch);
    if (some.length !== batch.length) throw unreadable(`${some.length} answers to ${batch.length} items`);
    answers.push(...some);
  }
  return answers;
}

/** The same for writes: returns how many items changed something, and the token of the last request. */
export async function writeInBatches(items, size, write) {
  const whole = { applied: 0, token: null };
  for await (const batch of batchesOf(items, size)) {
    const { applied, token } = await write(batch);
    whole.applied += applied;
    whole.token = token ?? whole.token;
  }
  return whole;
}

async function* batchesOf(items, size) {
  let batch = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length === size) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}
