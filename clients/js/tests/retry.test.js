import assert from "node:assert/strict";
import { test } from "node:test";

import { KithError } from "../index.js";
import { RETRY, checkedRetry, mayPass, waitMs, wasNotStarted } from "../src/retry.js";

const error = (status, code, retryAfter = null) => new KithError(code, "", { status, retryAfter });
const busy = error(503, "OVERLOADED");

test("pauses double, and jitter spreads them from 0 to the full pause", () => {
  assert.deepEqual(
    [1, 2, 3].map((failures) => waitMs(failures, busy, RETRY, () => 1)),
    [200, 400, 800],
  );
  assert.equal(
    waitMs(3, busy, RETRY, () => 0),
    0,
  );
  assert.equal(
    waitMs(3, busy, RETRY, () => 0.5),
    400,
  );
});

test("no try follows the last one", () => {
  assert.equal(
    waitMs(4, busy, RETRY, () => 1),
    null,
  );
  assert.equal(
    waitMs(1, busy, { ...RETRY, tries: 1 }, () => 1),
    null,
  );
});

test("no pause is longer than the cap, after any number of failures", () => {
  assert.equal(
    waitMs(5_000, busy, { ...RETRY, tries: Infinity }, () => 1),
    RETRY.capMs,
  );
  assert.equal(
    waitMs(5_000, busy, { tries: Infinity, baseMs: 0, capMs: 1 }, () => 1),
    0,
  );
});

test("Retry-After is the minimum wait; beyond the cap the caller decides", () => {
  assert.equal(
    waitMs(1, error(429, "RATE_LIMITED", 2), RETRY, () => 0),
    2_000,
  );
  assert.equal(
    waitMs(1, error(429, "RATE_LIMITED", 2), RETRY, () => 1),
    2_200,
  );
  assert.equal(
    waitMs(1, error(429, "RATE_LIMITED", 6), RETRY, () => 0),
    null,
  );
});

test("which errors may be temporary, and which requests certainly did nothing", () => {
  const refused = new KithError("UNREACHABLE", "", { cause: new TypeError("", { cause: { code: "ECONNREFUSED" } }) });
  const table = [
    [error(429, "RATE_LIMITED"), true, true],
    [busy, true, true],
    [error(503, "STORE_UNAVAILABLE"), true, false],
    [refused, true, true],
    [error(0, "UNREACHABLE"), true, false],
    [error(0, "TIMEOUT"), true, false],
    [error(500, "INTERNAL"), false, false],
    [error(409, "CONFLICT"), false, false],
  ];
  for (const [failed, passes, nothing] of table) {
    assert.deepEqual([mayPass(failed), wasNotStarted(failed)], [passes, nothing], failed.code);
  }
});

test("invalid settings are refused", () => {
  for (const wrong of [{ tries: 0 }, { baseMs: -1 }, { capMs: NaN }])
    assert.throws(() => checkedRetry(wrong), TypeError);
});
