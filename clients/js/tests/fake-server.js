/** A server that answers as a test says, and remembers what it was asked. */

import { once } from "node:events";
import { createServer } from "node:http";
import { after } from "node:test";

import { Kith } from "../index.js";

/** No pauses between tries, and no chance. */
export const AT_ONCE = { retry: { tries: 4, baseMs: 0, capMs: 5_000 }, random: () => 0 };

/**
 * A server that gives its requests the `answers` one after the other, and the last of them from then on.
 *
 * An answer is {status, headers, body}, or a function of the request and response that writes one itself.
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
      return; // the client went away while it sent
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

/** A client of such a server, and what it was asked. */
export async function clientOf(answers, options = {}) {
  const { url, asked, server } = await serverOf(...answers);
  return { kith: new Kith(url, { key: "a-key", ...AT_ONCE, ...options }), asked, server, url };
}

/** An error as the service says it. */
export function refusal(status, code, headers = {}) {
  return { status, headers, body: { error: { code, message: `says ${code}`, details: { of: code } } } };
}

/** Answers that never come, and connections that break. */
export const hangs = () => {};
export const breaks = (request) => request.socket.destroy();
