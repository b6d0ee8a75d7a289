import assert from "node:assert/strict";
import { test } from "node:test";

import { EventParser } from "../src/sse.js";

const bytes = (text) => new TextEncoder().encode(text);

/** The events of these chunks, and the parser. */
function read(...chunks) {
  const parser = new EventParser("start", 2_000);
  const events = chunks.flatMap((chunk) => [...parser.read(typeof chunk === "string" ? bytes(chunk) : chunk)]);
  return { events, parser };
}

/** The events of a text, checked to be the same for every way to cut it in three. */
function readCut(text) {
  const whole = bytes(text);
  const all = new Set();
  for (let first = 0; first <= whole.length; first++) {
    for (let second = first; second <= whole.length; second++) {
      const { events, parser } = read(whole.slice(0, first), whole.slice(first, second), whole.slice(second));
      all.add(JSON.stringify([events, parser.lastEventId, parser.retryMs]));
    }
  }
  assert.equal(all.size, 1, `${all.size} readings of one text`);
  return JSON.parse([...all][0]);
}

for (const [name, end] of Object.entries({ LF: "\n", CR: "\r", CRLF: "\r\n" })) {
  test(`lines may end with ${name}, wherever the chunks are cut`, () => {
    const text = ["id: 1", "event: a", "data: ä€😀", "data", "data:  x", ": no matter", "", "data: y", "", ""].join(
      end,
    );
    const [events, lastId] = readCut(text);
    assert.deepEqual(events, [
      { type: "a", data: "ä€😀\n\n x" },
      { type: "message", data: "y" },
    ]);
    assert.equal(lastId, "1");
  });
}

test("one leading byte order mark is skipped", () => {
  const [events] = readCut("\ufeffdata: a\n\ndata: \ufeffb\n\n");
  assert.deepEqual(
    events.map((event) => event.data),
    ["a", "\ufeffb"],
  );
});

test("an event is emitted as soon as its empty line arrives, for any line end", () => {
  assert.equal(read("data: a\r\r").events.length, 1);
  assert.equal(read("data: a\r\n\r").events.length, 1);
  assert.deepEqual(
    read("data: a\r\n\r", "\ndata: b\n\n").events.map((event) => event.data),
    ["a", "b"],
  );
});

test("a truncated event is not emitted, and does not change the id", () => {
  const { events, parser } = read("id: 7\ndata: a\n\nid: 8\ndata: b\n");
  assert.deepEqual(
    events.map((event) => event.data),
    ["a"],
  );
  assert.equal(parser.lastEventId, "7");
});

test("a heartbeat emits nothing, and advances the id", () => {
  const { events, parser } = read(":\nid: 9-1\n\n");
  assert.deepEqual(events, []);
  assert.equal(parser.lastEventId, "9-1");
});

test("ids with NUL and malformed retry times are ignored", () => {
  const { parser } = read("id: a\0b\nretry: soon\n\nretry: -1\n\nretry\n\n");
  assert.deepEqual([parser.lastEventId, parser.retryMs], ["start", 2_000]);
  assert.equal(read("retry: 150\n\n").parser.retryMs, 150);
});

test("unknown fields are ignored, and one space after the colon is removed", () => {
  assert.deepEqual(read("colour: red\ndata:a\ndata:  b\n\n").events, [{ type: "message", data: "a\n b" }]);
});
