/** A server that gives the answers of a test, and records the requests. */

import { once } from "node:events";
import { createServer } from "node:http";
import { after } from "node:test";

import { Kith } from "../index.js";

/** Options without pauses between tries, and without randomness. */
export const AT_ONCE = { retry: { tries: 4, baseMs: 0, capMs: 5_000 }, random: () => 0 };

/**
 * A server that gives the `answers` in order, and repeats the last one.
 *
 * An answer is {status, headers, body}, or a function of request and response that writes it.
 */
export async function serverOf(...answers) {
  const asked = [];
  const server = createServer(async (request, response) => {
    const answer = answers[Math.min(asked.length, answers.length - 1)];
    const seen = { verb: request.method, path: request.url, headers: request.headers, body: "" };
    asked.push(seen);
    try {
      for await (const chunk of request) seen.body += chunk.toString("latin1");
    } catch {
      return; // the client disconnected while sending
    }
    if (typeof answer === "function") return answer(request, response);
    const { status = 200, headers = {}, body = "{}" } = answer;
    response.writeHead(status, headers).end(typeof body === "string" ? body : JSON.stringify(body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, asked, server };
}

/** A client of such a server, and the requests that the server received. */
export async function clientOf(answers, options = {}) {
  const { url, asked, server } = await serverOf(...answers);
  return { kith: new Kith(url, { key: "a-key", ...AT_ONCE, ...options }), asked, server, url };
}

/** An error answer as the service sends it. */
export function refusal(status, code, headers = {}) {
  return { status, headers, body: { error: { code, message: `says ${code}`, details: { of: code } } } };
}

/** Answers that never come, and connections that break. */
export const hangs = () => {};
export const breaks = (request) => request.socket.destroy();
