import assert from "node:assert/strict";
import { openAsBlob } from "node:fs";
import { test } from "node:test";

import { clientOf, hangs, refusal } from "./fake-server.js";

const MADE = { status: 201, body: { id: "5", altText: "a fox" } };
const BYTES = new Uint8Array(300_000).map((_, at) => at % 251);

/** The parts of XMLHttpRequest that the client uses, built on `fetch`. */
class BrowserRequest {
  static made = [];
  upload = {};
  #headers = {};
  #controller = new AbortController();

  open(method, url) {
    Object.assign(this, { method, url });
    BrowserRequest.made.push(this);
  }

  setRequestHeader(name, value) {
    this.#headers[name] = value;
  }

  getAllResponseHeaders() {
    return [...this.answer.headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  }

  abort() {
    this.#controller.abort();
  }

  async send(body) {
    try {
      this.upload.onprogress({ loaded: body.size / 2 });
      const { method } = this;
      this.answer = await fetch(this.url, { method, headers: this.#headers, body, signal: this.#controller.signal });
      this.status = this.answer.status;
      this.responseText = await this.answer.text();
      this.upload.onprogress({ loaded: body.size });
      this.onload();
    } catch {
      this.#controller.signal.aborted ? this.onabort() : this.onerror();
    }
    this.onloadend();
  }
}

function inBrowser(t) {
  globalThis.XMLHttpRequest = BrowserRequest;
  t.after(() => delete globalThis.XMLHttpRequest);
}

for (const [where, prepare] of Object.entries({ "a browser": inBrowser, Node: () => {} })) {
  test(`an upload is one form with the file and its text, and reports its progress, in ${where}`, async (t) => {
    prepare(t);
    const { kith, asked } = await clientOf([MADE]);
    const told = [];
    const media = await kith.uploadMedia(BYTES, {
      altText: "a fox\r\n--x",
      onProgress: (progress) => told.push(progress),
    });
    assert.deepEqual(media, MADE.body);
    const [{ verb, path, headers, body }] = asked;
    const boundary = headers["content-type"].split("boundary=")[1];
    assert.equal(`${verb} ${path}`, "POST /api/v1/media");
    const [, alt, file, end] = body.split(`--${boundary}`);
    assert.equal(alt, '\r\nContent-Disposition: form-data; name="altText"\r\n\r\na fox\r\n--x\r\n');
    const head = '\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n\r\n';
    assert.deepEqual(Buffer.from(file.slice(head.length, -2), "latin1"), Buffer.from(BYTES));
    assert.equal(end, "--\r\n");
    const total = body.length;
    assert.ok(told.length > 1);
    assert.deepEqual(told.at(-1), { loaded: total, total });
    assert.deepEqual(
      told.map((one) => one.loaded),
      told.map((one) => one.loaded).sort((a, b) => a - b),
    );
  });

  test(`a refused upload is an error with its code, in ${where}`, async (t) => {
    prepare(t);
    const { kith } = await clientOf([refusal(400, "INVALID_CONTENT", { "Retry-After": "3" })]);
    await assert.rejects(kith.uploadMedia(BYTES), { code: "INVALID_CONTENT", status: 400, retryAfter: 3 });
  });

  test(`an upload can be aborted, and times out without progress, in ${where}`, async (t) => {
    prepare(t);
    const { kith } = await clientOf([hangs]);
    const controller = new AbortController();
    const upload = kith.uploadMedia(BYTES, { signal: controller.signal, onProgress: () => controller.abort() });
    await assert.rejects(upload, { name: "AbortError" });
    await assert.rejects(kith.uploadMedia(BYTES, { timeoutMs: 30 }), { code: "TIMEOUT" });
  });

  test(`an upload without a server fails as unreachable, in ${where}`, async (t) => {
    prepare(t);
    const { kith, server } = await clientOf([MADE]);
    await new Promise((resolve) => server.close(resolve));
    await assert.rejects(kith.uploadMedia(BYTES), { code: "UNREACHABLE" });
  });
}

test("an upload may take any time while it makes progress", async (t) => {
  const SILENCE_MS = 54_321;
  const { kith } = await clientOf([MADE]);
  const timers = t.mock.method(globalThis, "setTimeout");
  let told = 0;
  await kith.uploadMedia(BYTES, { timeoutMs: SILENCE_MS, onProgress: () => told++ });
  assert.equal(timers.mock.calls.filter((call) => call.arguments[1] === SILENCE_MS).length, told + 1);
});

test("a service worker sends the form whole, because browsers do not stream bodies over HTTP/1.1", async (t) => {
  globalThis.ServiceWorkerGlobalScope = class {};
  t.after(() => delete globalThis.ServiceWorkerGlobalScope);
  const { kith, asked } = await clientOf([MADE]);
  assert.deepEqual(await kith.uploadMedia(BYTES), MADE.body);
  assert.equal(Number(asked[0].headers["content-length"]), asked[0].body.length);
});

test("a file on disk is read while it is sent", async () => {
  const { kith, asked } = await clientOf([MADE]);
  await kith.uploadMedia(await openAsBlob(new URL(import.meta.url)));
  assert.ok(asked[0].body.includes("a file on disk is read while it is sent"));
});

test("a picture without alternative text has none", async () => {
  for (const altText of [undefined, null, ""]) {
    const { kith, asked } = await clientOf([MADE]);
    await kith.uploadMedia(BYTES, { altText });
    assert.match(asked[0].body, /name="altText"\r\n\r\n\r\n/);
  }
});

test("a value that is no file is refused before anything is sent", async () => {
  const { kith, asked } = await clientOf([MADE]);
  for (const file of ["fox.jpg", undefined, {}]) await assert.rejects(kith.uploadMedia(file), TypeError);
  assert.equal(asked.length, 0);
});
