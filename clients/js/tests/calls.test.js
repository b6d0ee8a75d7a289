import assert from "node:assert/strict";
import { test } from "node:test";

import { Kith, KithError, difference, in_, intersect, out, union } from "../index.js";
import { arityOf, requestOf } from "../src/calls.js";
import { OPERATIONS } from "../src/operations.js";

const requested = (name, given, options) => requestOf(name, OPERATIONS[name], given, options);

test("a call becomes a verb, a path, a query and a body", () => {
  const listed = requested("edgesOut", ["follows", 1], { state: "removed", limit: 5, since: 2n ** 60n });
  assert.equal(listed.verb, "GET");
  assert.equal(listed.path, "/api/v1/graph/follows/1/out?state=removed&limit=5&since=1152921504606846976");
  assert.equal(listed.body, undefined);
  const made = requested("createComment", ["5", "so it is"], { replyTo: 7n });
  assert.equal(made.path, "/api/v1/posts/5/comments");
  assert.deepEqual(JSON.parse(made.body), { text: "so it is", replyTo: "7" });
  assert.equal(made.headers["Content-Type"], "application/json");
});

test("a file of the service lies below its address, with the path that a proxy adds", () => {
  const kith = new Kith("https://example.org/social/", { key: "k" });
  assert.equal(kith.fileUrl("/media/80/fox.png"), "https://example.org/social/media/80/fox.png");
  assert.equal(kith.fileUrl("https://cdn.example.org/80/fox.png"), "https://cdn.example.org/80/fox.png");
});

test("null clears a field, and an omitted field is not sent", () => {
  assert.deepEqual(JSON.parse(requested("patchUser", [1], { bio: null, username: undefined }).body), { bio: null });
});

test("only creations have an idempotency key: a new one, unless one is given", () => {
  const keyOf = (...call) => requested(...call).headers["Idempotency-Key"];
  const made = ["createPost", "createStory", "createComment"].map((name) => keyOf(name, [1, "x"]));
  assert.equal(new Set(made).size, 3);
  for (const key of made) assert.match(key, /^[0-9a-f]{32}$/);
  assert.equal(keyOf("createPost", [{ text: "x" }], { key: "mine" }), "mine");
  assert.equal(keyOf("follow", [1]), undefined);
});

test("ids are strings, bigints or safe integers", () => {
  for (const id of [7, 7n, "7"]) assert.equal(requested("post", [id]).path, "/api/v1/posts/7");
  for (const id of [2 ** 53, -1, 1.5, NaN, "", "x", "1/2", "../1", undefined, null, {}, "1".repeat(20)]) {
    assert.throws(() => requested("post", [id]), { name: "KithError", code: "INVALID_ID", details: { field: "post" } });
  }
  assert.throws(() => requested("relationships", [[2 ** 60]]), { code: "INVALID_ID" });
  assert.throws(() => requested("edgesOut", ["follows", "1"], { since: 2 ** 60 }), { code: "INVALID_ID" });
});

test("words in a path are escaped or refused", () => {
  assert.equal(requested("userByUsername", ["a/b?c"]).path, "/api/v1/users/by-username/a%2Fb%3Fc");
  for (const word of ["", ".", "..", 5, undefined]) assert.throws(() => requested("userByUsername", [word]), TypeError);
});

test("a misspelt option is refused, so a post for friends does not become public", () => {
  assert.throws(
    () => requested("createPost", [{ text: "x" }], { visiblity: "friends" }),
    /takes no option `visiblity`; it takes .*visibility.*, key, signal, timeoutMs, deadlineMs/,
  );
});

test("header values with line ends are refused", () => {
  assert.throws(() => requested("createPost", [{}], { key: "a\r\nb: c" }), TypeError);
  assert.throws(() => requested("feed", [], { requestId: "é" }), TypeError);
});

test("the arity of a method is the number of its path and body arguments", () => {
  assert.deepEqual(
    ["follow", "exists", "createComment", "feed", "putLabels"].map((name) => arityOf(OPERATIONS[name])),
    [1, 3, 2, 0, 3],
  );
});

test("set programs have the form that the service takes", () => {
  const follows = { graph: "follows", node: "1", direction: "out" };
  const fans = { graph: "follows", node: "2", direction: "in", states: ["removed"] };
  const both = [out("follows", 1), in_("follows", 2n, "removed")];
  assert.deepEqual(intersect(...both), { intersect: [follows, fans] });
  assert.deepEqual(union(...both), { union: [follows, fans] });
  assert.deepEqual(difference(...both), { difference: [follows, fans] });
  assert.throws(() => out("follows", "x"), KithError);
});
