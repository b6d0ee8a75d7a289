import assert from "node:assert/strict";
import { test } from "node:test";

import { Kith, KithError } from "../index.js";
import { AT_ONCE, breaks, clientOf, hangs, refusal } from "./fake-server.js";

const OK = { body: { exists: true } };
const BUSY = refusal(503, "OVERLOADED", { "Retry-After": "0" });
const SLOW = refusal(503, "STORE_UNAVAILABLE", { "Retry-After": "0" });
const LIMITED = refusal(429, "RATE_LIMITED", { "Retry-After": "0" });
const FILE = new Blob(["a picture"]);

for (const [name, failure] of Object.entries({ 503: BUSY, 429: LIMITED, "a broken connection": breaks })) {
  test(`after ${name} a call is retried, up to a limit`, async () => {
    const passing = await clientOf([failure, failure, failure, OK]);
    assert.equal(await passing.kith.exists("follows", 1, 2), true);
    assert.equal(passing.asked.length, 4);
    const lasting = await clientOf([failure]);
    await assert.rejects(lasting.kith.exists("follows", 1, 2), KithError);
    assert.equal(lasting.asked.length, 4);
  });
}

test("every other refusal is thrown at once, with its code, status, details and message", async () => {
  for (const status of [400, 401, 403, 404, 409, 413, 416, 500, 502, 504]) {
    const { kith, asked } = await clientOf([refusal(status, "SOME_CODE", { "Retry-After": "7" })]);
    await assert.rejects(kith.follow(2), {
      name: "KithError",
      code: "SOME_CODE",
      status,
      message: "says SOME_CODE",
      details: { of: "SOME_CODE" },
      retryAfter: 7,
    });
    assert.equal(asked.length, 1);
  }
});

test("a wait longer than the cap is left to the caller", async () => {
  const { kith, asked } = await clientOf([refusal(429, "RATE_LIMITED", { "Retry-After": "3600" })]);
  await assert.rejects(kith.follow(2), { code: "RATE_LIMITED", retryAfter: 3600 });
  assert.equal(asked.length, 1);
});

test("a wait that would end after the deadline is not started", async () => {
  const { kith, asked } = await clientOf([refusal(429, "RATE_LIMITED", { "Retry-After": "4" })]);
  await assert.rejects(kith.follow(2, { deadlineMs: 1_000 }), { code: "RATE_LIMITED" });
  assert.equal(asked.length, 1);
});

test("a creation is retried with the same key", async () => {
  const { kith, asked } = await clientOf([breaks, SLOW, { status: 201, body: { id: "5" } }]);
  assert.equal((await kith.createPost({ text: "once" })).id, "5");
  assert.equal(asked.length, 3);
  assert.equal(new Set(asked.map((one) => one.headers["idempotency-key"])).size, 1);
  assert.equal(new Set(asked.map((one) => one.body)).size, 1);
});

test("an upload is retried only if it was certainly not accepted", async () => {
  for (const failure of [LIMITED, BUSY]) {
    const { kith, asked } = await clientOf([failure, { status: 201, body: { id: "5" } }]);
    assert.equal((await kith.uploadMedia(FILE)).id, "5");
    assert.equal(asked.length, 2);
  }
  for (const [failure, code] of [
    [breaks, "UNREACHABLE"],
    [SLOW, "STORE_UNAVAILABLE"],
  ]) {
    const { kith, asked } = await clientOf([failure, { status: 201, body: { id: "5" } }]);
    await assert.rejects(kith.uploadMedia(FILE), { code });
    assert.equal(asked.length, 1);
  }
});

test("an upload is retried if the connection was refused", async () => {
  const { url, server } = await clientOf([OK]);
  await new Promise((resolve) => server.close(resolve));
  let tries = 0;
  const counting = (...request) => (tries++, fetch(...request));
  await assert.rejects(new Kith(url, { ...AT_ONCE, fetch: counting }).uploadMedia(FILE), { code: "UNREACHABLE" });
  assert.equal(tries, 4);
});

test("a 404 after a lost answer means that the delete worked", async () => {
  const gone = refusal(404, "POST_NOT_FOUND");
  const lost = await clientOf([breaks, gone]);
  assert.equal(await lost.kith.deletePost(5), undefined);
  for (const answers of [[gone], [BUSY, gone]]) {
    const { kith } = await clientOf(answers);
    await assert.rejects(kith.deletePost(5), { code: "POST_NOT_FOUND" });
  }
});

test("a call to a hanging server fails after its tries, each with its timeout", async () => {
  let tries = 0; // counted here, because an aborted try may never reach the server
  const counting = (...request) => (tries++, fetch(...request));
  const { kith } = await clientOf([hangs], { timeoutMs: 20, fetch: counting });
  await assert.rejects(kith.user(1), { code: "TIMEOUT", status: 0 });
  assert.equal(tries, 4);
});

test("a server that stops in the middle of an answer times out too", async () => {
  const half = (_, response) => response.writeHead(200, { "Content-Length": "100" }).write('{"exists"');
  const { kith, asked } = await clientOf([half, OK], { timeoutMs: 1_000 });
  assert.equal(await kith.exists("follows", 1, 2), true);
  assert.equal(asked.length, 2);
});

test("the deadline limits a call with all its tries", async () => {
  const { kith } = await clientOf([hangs], { timeoutMs: 60_000, deadlineMs: 20 });
  await assert.rejects(kith.user(1), { code: "TIMEOUT" });
});

test("an aborted call throws the reason of its signal, and is not retried", async () => {
  const { kith, asked } = await clientOf([hangs]);
  const controller = new AbortController();
  const call = kith.user(1, { signal: controller.signal });
  const why = new Error("the page was left");
  controller.abort(why);
  await assert.rejects(call, why);
  await assert.rejects(kith.user(1, { signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.ok(asked.length <= 1);
});

test("a call can be aborted in the pause between its tries", async () => {
  const controller = new AbortController();
  const answer = (_, response) => {
    response.writeHead(429, { "Retry-After": "5" }).end();
    response.on("close", () => controller.abort());
  };
  const { kith } = await clientOf([answer]);
  await assert.rejects(kith.user(1, { signal: controller.signal }), { name: "AbortError" });
});

test("every call carries the newest token, and a view starts with its client's", async () => {
  const { kith, asked } = await clientOf([
    { headers: { "Kith-Token": "first" } },
    { headers: { "Kith-Token": "second" } },
    {},
  ]);
  await kith.follow(2);
  const view = kith.asUser(7);
  await view.follow(3);
  await view.follow(4);
  await kith.follow(5);
  assert.deepEqual(
    asked.map((one) => one.headers["kith-token"]),
    [undefined, "first", "second", "first"],
  );
  assert.deepEqual(
    asked.map((one) => one.headers["x-kith-user"]),
    [undefined, "7", "7", undefined],
  );
  assert.equal(kith.asUser(8, { token: "given" }).token, "given");
  assert.throws(() => (kith.token = "a b"), TypeError);
});

test("concurrent writes lose no token", async () => {
  const { kith, asked } = await clientOf(["a", "b", "c"].map((token) => ({ headers: { "Kith-Token": token } })));
  await Promise.all([kith.follow(2), kith.follow(3)]);
  assert.deepEqual(kith.token.split(".").sort(), ["a", "b"]);
  const both = kith.token;
  await kith.follow(4);
  assert.deepEqual([asked[2].headers["kith-token"], kith.token], [both, "c"]);
});

test("a refusal carries the token as well", async () => {
  const { kith } = await clientOf([refusal(409, "CONFLICT", { "Kith-Token": "of-a-refusal" })]);
  await assert.rejects(kith.follow(2), { code: "CONFLICT" });
  assert.equal(kith.token, "of-a-refusal");
});

test("views act for a user, for the back office, or for nobody", async () => {
  const { kith, asked } = await clientOf([{}]);
  for (const view of [kith, kith.asUser("9"), kith.asSystem()]) await view.user(1);
  assert.deepEqual(
    asked.map((one) => one.headers["x-kith-user"]),
    [undefined, "9", "system"],
  );
  assert.throws(() => kith.asUser("system"), { code: "INVALID_ID" });
});

test("a refused token is renewed once for all calls, and they are repeated", async () => {
  let renewals = 0;
  const key = async () => `token-${++renewals}`;
  const answer = (request, response) => {
    response.writeHead(request.headers.authorization === "Bearer token-2" ? 200 : 401).end('{"exists": true}');
  };
  const { kith, asked } = await clientOf([answer], { key });
  const calls = [1, 2, 3].map((user) => kith.exists("follows", user, 9));
  assert.deepEqual(await Promise.all(calls), [true, true, true]);
  assert.equal(renewals, 2);
  assert.equal(asked.length, 6);
});

test("a creation whose token was refused keeps its key", async () => {
  const { kith, asked } = await clientOf([refusal(401, "UNAUTHORIZED"), { status: 201, body: { id: "1" } }], {
    key: (() => {
      let at = 0;
      return () => `t${++at}`;
    })(),
  });
  await kith.createPost({ text: "x" });
  assert.equal(asked[0].headers["idempotency-key"], asked[1].headers["idempotency-key"]);
});

test("a token that is refused again is not renewed forever", async () => {
  let renewals = 0;
  const { kith, asked } = await clientOf([refusal(401, "UNAUTHORIZED")], { key: () => `token-${++renewals}` });
  await assert.rejects(kith.user(1), { code: "UNAUTHORIZED", status: 401 });
  assert.deepEqual([renewals, asked.length], [2, 2]);
  const fixed = await clientOf([refusal(401, "UNAUTHORIZED")]);
  await assert.rejects(fixed.kith.user(1), { code: "UNAUTHORIZED" });
  assert.equal(fixed.asked.length, 1);
});

test("an error of the key function is the cause of NO_KEY; if it hangs, the deadline ends the call", async () => {
  const why = new Error("signed out");
  for (const key of [() => Promise.reject(why), () => { throw why; }]) {
    const { kith, asked } = await clientOf([{}], { key });
    await assert.rejects(kith.user(1), { code: "NO_KEY", cause: why });
    await assert.rejects(kith.user(1), { code: "NO_KEY", cause: why });
    assert.equal(asked.length, 0);
  }
  const hanging = await clientOf([{}], { key: () => new Promise(() => {}), deadlineMs: 20 });
  await assert.rejects(hanging.kith.user(1), { code: "TIMEOUT" });
});

test("an answer of another program is reported as such", async () => {
  const page = { status: 502, body: "<html>Bad gateway</html>" };
  await assert.rejects((await clientOf([page])).kith.user(1), { code: "HTTP_502", status: 502 });
  await assert.rejects((await clientOf([{ body: "<html>" }])).kith.user(1), { code: "INVALID_ANSWER", status: 200 });
  for (const body of ["null", "{}", '{"message": "welcome"}']) {
    const { kith } = await clientOf([{ body }]);
    await assert.rejects(kith.exists("follows", 1, 2), { code: "INVALID_ANSWER" });
    await assert.rejects(kith.followersPage(1), { code: "INVALID_ANSWER" });
  }
});

test("a redirect is an error: fetch would send a GET in place of a write, and report that it was done", async () => {
  for (const status of [301, 302, 303, 307, 308]) {
    const elsewhere = { body: { items: [], pagination: { nextCursor: null, hasMore: false } } };
    const { kith, asked } = await clientOf([{ status, headers: { Location: "/comments" } }, elsewhere]);
    await assert.rejects(kith.createComment(1, "once"), { code: `HTTP_${status}`, status });
    assert.equal(asked.length, 1);
  }
});

test("a redirect whose status the browser hides is an error, too", async () => {
  const hidden = async () => ({ ok: false, status: 0, headers: new Headers(), text: async () => "" });
  await assert.rejects(new Kith("https://x", { fetch: hidden }).follow(2), { code: "HTTP_0", message: /redirect/ });
});

test("health is an answer, not an error", async () => {
  const { kith, asked } = await clientOf([{ status: 503, body: "{}" }]);
  assert.deepEqual([await kith.isReady(), await kith.isAlive()], [false, false]);
  assert.equal(asked.length, 2);
  assert.equal(await (await clientOf([{}])).kith.isReady(), true);
});

test("neither errors nor a printed client show the key", async () => {
  const { kith } = await clientOf([breaks], { key: "very-secret" });
  const error = await kith.user(1).catch((caught) => caught);
  const { inspect } = await import("node:util");
  for (const shown of [
    inspect(error, { depth: 9 }),
    inspect(kith, { depth: 9, showHidden: true }),
    JSON.stringify(kith),
  ]) {
    assert.ok(!shown.includes("very-secret"));
  }
  assert.throws(
    () => new Kith("http://x", { key: "a b\n" }),
    (thrown) => thrown instanceof TypeError && !thrown.message.includes("a b"),
  );
});

test("a bad URL is refused, and not quoted", () => {
  for (const url of ["", "kith.example", "ftp://x", "http://user:secret@x", "http://x?key=secret"]) {
    assert.throws(
      () => new Kith(url),
      (thrown) => thrown instanceof TypeError && !thrown.message.includes("secret"),
    );
  }
});

test("a prefix before the API is kept", async () => {
  const { url, asked } = await clientOf([{}]);
  await new Kith(`${url}/social/`).user(1);
  assert.equal(asked[0].path, "/social/api/v1/users/1");
});

test("too many arguments are refused", async () => {
  const { kith } = await clientOf([{}]);
  assert.throws(() => kith.follow(1, 2, 3), TypeError);
});
