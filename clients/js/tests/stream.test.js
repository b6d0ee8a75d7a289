import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";

import { Kith, KithError } from "../index.js";
import { AT_ONCE, breaks, clientOf, refusal } from "./fake-server.js";

const removed = (id) => `id: ${id}\nevent: post_removed\ndata: {"postId": "${id}", "reason": "hidden"}\n\n`;
const idsOf = (events) => events.map((event) => event.eventId);

/** An answer that sends these chunks one at a time, and then ends as `end` says. */
function streaming(chunks, end = (response) => response.end()) {
  return async (request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.flushHeaders();
    for (const chunk of ["retry: 0\n\n", ...chunks]) {
      response.write(chunk);
      await new Promise(setImmediate); // so that each chunk is sent alone
    }
    end(response);
  };
}
const stays = () => {};
const cuts = (response) => response.socket.destroy();

async function first(stream, count) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length === count) break;
  }
  return events;
}

test("events have the service's fields, their type, and the id to resume from", async () => {
  const told = 'id: 5-2\nevent: new_post\ndata: {"postId": "9", "authorId": "1", "preview": "hé", "labels": []}\n\n';
  const { kith, asked } = await clientOf([streaming([told], stays)]);
  const events = await first(kith.asUser(3).feedStream({ posts: ["7", 8n] }), 1);
  assert.deepEqual(events, [
    { type: "new_post", eventId: "5-2", postId: "9", authorId: "1", preview: "hé", labels: [] },
  ]);
  assert.equal(asked[0].path, "/api/v1/feed/stream?posts=7%2C8");
  assert.equal(asked[0].headers["x-kith-user"], "3");
  assert.equal(asked[0].headers.authorization, "Bearer a-key");
});

test("a stream that is cut inside a character resumes where it was, with each event once", async () => {
  const whole = Buffer.from('id: 2\nevent: new_post\ndata: {"postId": "2", "preview": "😀"}\n\n');
  const half = whole.subarray(0, whole.indexOf("😀") + 2);
  const { kith, asked } = await clientOf([
    streaming([removed(1), half], cuts),
    streaming([whole.subarray(0, 20), whole.subarray(20), removed(3)], stays),
  ]);
  const events = await first(kith.feedStream(), 3);
  assert.deepEqual(idsOf(events), ["1", "2", "3"]);
  assert.equal(events[1].preview, "😀");
  assert.deepEqual(
    asked.map((one) => one.headers["last-event-id"]),
    [undefined, "1"],
  );
});

test("a notification repeated after a reconnect is yielded once", async () => {
  const noticed = (id, notice) =>
    `id: ${id}\nevent: notification\ndata: {"notificationId": "${notice}", "kind": "mention", "actorId": "2"}\n\n`;
  const { kith } = await clientOf([
    streaming([noticed(1, 7)]),
    streaming([noticed(2, 7), noticed(3, 8), removed(4)], stays),
  ]);
  assert.deepEqual(idsOf(await first(kith.feedStream(), 3)), ["1", "3", "4"]);
});

test("a stream that the service ends is resumed, also from a heartbeat's id", async () => {
  const { kith, asked } = await clientOf([streaming([removed(1), ":\nid: 4\n\n"]), streaming([removed(5)], stays)]);
  const stream = kith.feedStream({ after: "0" });
  assert.deepEqual(idsOf(await first(stream, 2)), ["1", "5"]);
  assert.deepEqual(
    asked.map((one) => one.headers["last-event-id"]),
    ["0", "4"],
  );
  assert.equal(stream.lastEventId, "5");
});

test("a stream that was open survives any number of failures, and reports them", async () => {
  const down = [
    breaks,
    refusal(503, "OVERLOADED"),
    { status: 502, body: "<html>" },
    refusal(429, "TOO_MANY_STREAMS"),
    breaks,
  ];
  const { kith } = await clientOf([streaming([removed(1)]), ...down, ...down, streaming([removed(2)], stays)]);
  const states = [];
  const onConnection = (connected, error) => states.push(connected ? "open" : (error?.code ?? "ended"));
  assert.deepEqual(idsOf(await first(kith.feedStream({ onConnection }), 2)), ["1", "2"]);
  const codes = ["UNREACHABLE", "OVERLOADED", "HTTP_502", "TOO_MANY_STREAMS", "UNREACHABLE"];
  assert.deepEqual(states, ["open", "ended", ...codes, ...codes, "open"]);
});

test("a stream that never opened fails like any other call", async () => {
  const { kith, asked } = await clientOf([refusal(503, "OVERLOADED")]);
  await assert.rejects(first(kith.feedStream(), 1), { code: "OVERLOADED" });
  assert.equal(asked.length, 4);
});

test("a permanent refusal ends a stream, open or not", async () => {
  for (const before of [[], [streaming([removed(1)])]]) {
    const { kith, asked } = await clientOf([...before, refusal(403, "FORBIDDEN")]);
    await assert.rejects(first(kith.feedStream(), 2), { code: "FORBIDDEN" });
    assert.equal(asked.length, before.length + 1);
  }
});

test("a stream that ends because its token expired resumes with a new token", async () => {
  let renewals = 0;
  const { kith, asked } = await clientOf(
    [streaming([removed(1)]), refusal(401, "UNAUTHORIZED"), streaming([removed(2)], stays)],
    { key: () => `token-${++renewals}` },
  );
  assert.deepEqual(idsOf(await first(kith.feedStream(), 2)), ["1", "2"]);
  assert.equal(asked[2].headers.authorization, "Bearer token-2");
  assert.equal(asked[2].headers["last-event-id"], "1");
});

test("unknown events of a newer service are skipped, and malformed data is an error", async () => {
  const { kith } = await clientOf([streaming(["id: 1\nevent: of_tomorrow\ndata: ?\n\n", removed(2)], stays)]);
  assert.deepEqual(idsOf(await first(kith.feedStream(), 1)), ["2"]);
  const broken = await clientOf([streaming(["event: reset\ndata: ?\n\n"], stays)]);
  await assert.rejects(first(broken.kith.feedStream(), 1), { code: "INVALID_ANSWER" });
});

test("a page in place of a stream is an error, and no endless loop", async () => {
  const page = { headers: { "Content-Type": "text/html" }, body: "<p>Welcome</p>" };
  const { kith, asked } = await clientOf([page]);
  await assert.rejects(first(kith.feedStream(), 1), { code: "INVALID_ANSWER", message: /text\/html/ });
  assert.equal(asked.length, 1);
});

test("leaving the loop, closing and aborting each end the connection", async () => {
  const ended = [];
  const staying = (request, response) => {
    ended.push(once(response, "close"));
    return streaming([removed(1)], stays)(request, response);
  };
  const { kith } = await clientOf([staying]);

  await first(kith.feedStream(), 1);

  const closed = kith.feedStream();
  const events = [];
  for await (const event of closed) {
    events.push(event);
    closed.close();
  }
  assert.equal(events.length, 1); // and the loop ended on its own

  const controller = new AbortController();
  const why = new Error("the page was left");
  const aborted = (async () => {
    for await (const _ of kith.feedStream({ signal: controller.signal })) controller.abort(why);
  })();
  await assert.rejects(aborted, why);
  assert.equal(ended.length, 3);
  await Promise.all(ended);
});

test("a stream closed during a pause, or before its start, ends", async () => {
  const { kith, asked } = await clientOf([streaming([removed(1)]), refusal(503, "OVERLOADED", { "Retry-After": "5" })]);
  const stream = kith.feedStream({ onConnection: (_, error) => error && setImmediate(() => stream.close()) });
  const events = [];
  for await (const event of stream) events.push(event);
  assert.equal(events.length, 1);
  const before = kith.feedStream();
  before.close();
  for await (const _ of before) assert.fail("closed");
  assert.equal(asked.length, 2);
});

test("pauses grow with failures, restart after an event, and are the service's own if it ended the stream", async (t) => {
  const down = () => Promise.reject(new TypeError("fetch failed"));
  const up = (text) => async () => new Response(text, { headers: { "Content-Type": "text/event-stream" } });
  const answers = [down, down, up(`retry: 77\n\n${removed(1)}`), down, down, up(removed(2))];
  const kith = new Kith("http://nowhere", {
    retry: { tries: 4, baseMs: 100, capMs: 5_000 },
    random: () => 1,
    fetch: () => answers.shift()(),
  });
  const pauses = [];
  t.mock.method(globalThis, "setTimeout", (run, ms) => {
    if (ms < 10_000) pauses.push(ms); // longer ones are limits
    return setImmediate(ms < 10_000 ? run : () => {});
  });
  assert.deepEqual(idsOf(await first(kith.feedStream(), 2)), ["1", "2"]);
  assert.deepEqual(pauses, [100, 200, 77, 100, 200]);
});

test("a connection that is silent for a minute counts as lost", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let connections = 0;
  const silent = async (_, { signal }) => {
    connections += 1;
    const body = new ReadableStream({
      start: (out) => signal.addEventListener("abort", () => out.error(signal.reason)),
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
  const errors = [];
  const kith = new Kith("http://nowhere", { ...AT_ONCE, fetch: silent });
  const stream = kith.feedStream({ onConnection: (connected, error) => connected || errors.push(error.code) });
  const told = stream[Symbol.asyncIterator]().next();
  while (connections < 2) {
    t.mock.timers.tick(1_000);
    await new Promise(setImmediate);
  }
  stream.close();
  assert.deepEqual(await told, { value: undefined, done: true });
  assert.deepEqual(errors, ["TIMEOUT"]);
});

test("a bad id is refused before anything is sent", async () => {
  const { kith, asked } = await clientOf([{}]);
  assert.throws(() => kith.feedStream({ posts: ["x"] }), KithError);
  for (const after of ["a\nb", "日本"]) assert.throws(() => kith.watch({ after }), TypeError);
  assert.equal(asked.length, 0);
});

test("a stream that was open retries its key function; one that never opened throws", async () => {
  const away = new TypeError("fetch failed"); // the app's own backend
  const keys = ["old", away, away, "new"];
  const key = async () => {
    const next = keys.shift();
    if (next === away) throw away;
    return next;
  };
  const { kith, asked } = await clientOf(
    [
      streaming([removed(1)], cuts),
      refusal(401, "UNAUTHORIZED"),
      refusal(401, "UNAUTHORIZED"),
      refusal(401, "UNAUTHORIZED"),
      streaming([removed(2)], stays),
    ],
    { key },
  );
  assert.deepEqual(idsOf(await first(kith.feedStream(), 2)), ["1", "2"]);
  assert.equal(asked.at(-1).headers.authorization, "Bearer new");

  const never = await clientOf([{}], { key: () => Promise.reject(away) });
  await assert.rejects(first(never.kith.feedStream(), 1), { code: "NO_KEY", cause: away });
});

test("a stream that reconnects watches the posts that it told of, each once, 100 at most", async () => {
  const made = (id) => `id: ${id}\nevent: new_post\ndata: {"postId": "${id}", "authorId": "1"}\n\n`;
  const told = [made(201), made(202), removed(7), made(201), made(50)];
  const { kith, asked } = await clientOf([streaming(told, cuts), streaming([made(203)], stays)]);
  const shown = Array.from({ length: 100 }, (_, id) => String(id));
  await first(kith.feedStream({ posts: shown }), 6);
  const watched = asked.map((one) => new URL(one.path, "http://kith").searchParams.get("posts").split(","));
  assert.deepEqual(watched[0], shown);
  assert.deepEqual(watched[1], [...shown.slice(2).filter((id) => id !== "7" && id !== "50"), "202", "201", "50"]);
});
