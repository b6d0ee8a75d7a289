import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";

import { limited, pause } from "../src/deadline.js";
import { clientOf, hangs } from "./fake-server.js";

const late = () => new Error("late");

test("a limit aborts when its time has passed since the last touch, and not before", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const limit = limited(undefined, 100, late);
  for (let touches = 0; touches < 3; touches++) {
    t.mock.timers.tick(99);
    limit.touch();
  }
  assert.equal(limit.signal.aborted, false);
  t.mock.timers.tick(100);
  assert.equal(limit.signal.reason.message, "late");
});

test("an ended limit never aborts, nor does one without a time", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const limits = [limited(undefined, 100, late), limited(undefined, Infinity, late), limited()];
  limits[0].end();
  t.mock.timers.tick(2 ** 31);
  assert.deepEqual(
    limits.map((limit) => limit.signal.aborted),
    [false, false, false],
  );
});

test("a limit aborts with its outer signal and reason, at once if the signal is already aborted", () => {
  const outer = new AbortController();
  const inner = limited(outer.signal);
  outer.abort("left");
  assert.deepEqual([inner.signal.reason, limited(outer.signal).signal.reason], ["left", "left"]);
});

test("a call removes its listener from the given signal, however it ends", async () => {
  const { signal } = new AbortController();
  await (await clientOf([{}])).kith.user(1, { signal });
  await assert.rejects((await clientOf([hangs])).kith.user(1, { signal, deadlineMs: 10 }), { code: "TIMEOUT" });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("a pause ends when its time is over or its signal is aborted", async () => {
  await pause(0, new AbortController().signal);
  await assert.rejects(pause(60_000, AbortSignal.abort("left")), (reason) => reason === "left");
});
