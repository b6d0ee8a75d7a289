import assert from "node:assert/strict";
import { test } from "node:test";

import { clientOf, refusal } from "./fake-server.js";

const page = (items, nextCursor) => ({
  body: { items, pagination: { nextCursor, prevCursor: null, hasMore: nextCursor !== null } },
});
const THREE = [page([{ id: "5" }, { id: "4" }], "a"), page([], "b"), page([{ id: "3" }], null)];

async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

test("a list is paged, over empty pages too, by item or by page", async () => {
  const { kith, asked } = await clientOf([...THREE, ...THREE]);
  assert.deepEqual(
    (await all(kith.followers(1))).map((item) => item.id),
    ["5", "4", "3"],
  );
  assert.deepEqual(
    (await all(kith.followers(1).pages())).map((one) => one.items.length),
    [2, 0, 1],
  );
  assert.deepEqual(
    asked.slice(0, 3).map((one) => one.path.split("?")[1]),
    ["limit=100", "limit=100&cursor=a", "limit=100&cursor=b"],
  );
});

test("a loop that is left fetches no more, and each loop starts again", async () => {
  const { kith, asked } = await clientOf([THREE[0]]);
  const list = kith.followers(1, { limit: 2, cursor: "from-here" });
  for (let loop = 0; loop < 2; loop++) for await (const _ of list) break;
  assert.deepEqual(
    asked.map((one) => one.path.split("?")[1]),
    Array(2).fill("limit=2&cursor=from-here"),
  );
});

test("a single id in place of a list is refused, and not split into its digits", async () => {
  const { kith, asked } = await clientOf([]);
  const refused = { name: "TypeError", message: "`ids` must be a list, even of one" };
  for (const method of ["lookupPosts", "lookupUsers", "viewPosts"]) await assert.rejects(kith[method]("517"), refused);
  assert.throws(() => kith.feedStream({ posts: "517" }), /`posts` must be a list/);
  assert.throws(() => kith.watch({ kinds: "edge" }), /`kinds` must be a list/);
  assert.throws(() => kith.watch({ nodes: 517 }), /`nodes` must be a list/);
  assert.deepEqual(asked, []);
});

test("a single page is the service's answer", async () => {
  const { kith, asked } = await clientOf([THREE[0]]);
  assert.deepEqual(await kith.followersPage(1, { cursor: "c" }), THREE[0].body);
  assert.equal(asked[0].path, "/api/v1/users/1/followers?cursor=c");
});

test("the items of home are posts, and programs send their cursor in the body", async () => {
  const { kith } = await clientOf([
    { body: { posts: [{ id: "9" }], pagination: { nextCursor: null, hasMore: false } } },
  ]);
  assert.deepEqual(await all(kith.feed({ type: "latest" })), [{ id: "9" }]);
  const computed = await clientOf(THREE);
  await all(computed.kith.select({ graph: "follows", node: "1", direction: "out" }));
  assert.deepEqual(
    computed.asked.map((one) => JSON.parse(one.body).cursor),
    [undefined, "a", "b"],
  );
});

test("a repeated cursor is an error, not an endless loop", async () => {
  const { kith, asked } = await clientOf([page([{ id: "5" }], "a")]);
  await assert.rejects(all(kith.followers(1)), { code: "INVALID_ANSWER" });
  assert.equal(asked.length, 2);
});

test("an error on a later page comes after the items before it", async () => {
  const { kith } = await clientOf([THREE[0], refusal(400, "CURSOR_INVALID")]);
  const seen = [];
  await assert.rejects(
    async () => {
      for await (const item of kith.followers(1)) seen.push(item);
    },
    { code: "CURSOR_INVALID" },
  );
  assert.equal(seen.length, 2);
});

test("lookups of any length are split into requests, and keep their order", async () => {
  const bodies = [];
  const { kith } = await clientOf([{}], {
    fetch: async (_, { body }) => {
      bodies.push(JSON.parse(body).pairs);
      return Response.json({ exists: bodies.at(-1).map(([source]) => source % 2 === 0) });
    },
  });
  const pairs = Array.from({ length: 2_001 }, (_, at) => [at, at]);
  assert.deepEqual(
    await kith.existsMany("follows", pairs),
    pairs.map(([at]) => at % 2 === 0),
  );
  assert.deepEqual(
    bodies.map((body) => body.length),
    [1_000, 1_000, 1],
  );
  assert.deepEqual(await kith.existsMany("follows", []), []);
  assert.equal(bodies.length, 3);
});

test("edges are written from any iterable, and the changes are summed", async () => {
  let at = 0;
  const { kith } = await clientOf([{}], {
    fetch: async (_, { body }) => Response.json({ applied: JSON.parse(body).edges.length, token: ["a", null][at++] }),
  });
  async function* lines() {
    for (let id = 0; id < 1_500; id++) yield { op: "add", source: id, destination: id + 1 };
  }
  assert.deepEqual(await kith.writeEdges("follows", lines()), { applied: 1_500, token: "a" });
});

test("fewer answers than items are an error", async () => {
  const { kith } = await clientOf([{ body: { users: [null] } }]);
  await assert.rejects(kith.lookupUsers([1, 2]), { code: "INVALID_ANSWER" });
});
