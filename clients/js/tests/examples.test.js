/** The examples of README.md run, in order, against a real server. live.test.js lists the variables that name it. */

import assert from "node:assert/strict";
import { openAsBlob, readFileSync } from "node:fs";
import { test } from "node:test";

import * as client from "../index.js";

const { KITH_URL, KITH_KEY, KITH_TOKENS, KITH_PICTURE } = process.env;
const README = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const EXAMPLES = 10;
const AsyncFunction = (async () => {}).constructor;

/** [heading, code] of each example. */
function examples() {
  const sections = README.split(/^### /m).slice(1);
  return sections.map((section) => [section.split("\n")[0], section.match(/```js\n(.*?)```/s)[1]]);
}

/** A code block as a function body: without its imports, and with its constants stored in `names` for later blocks. */
function runnable(code) {
  return code
    .replace(/^import \{(.*?)\} from "kith-social";$/gm, "")
    .replaceAll("http://127.0.0.1:7400", KITH_URL)
    .replaceAll("a-server-key", KITH_KEY)
    .replace(/^const (\w+) =/gm, "names.$1 =");
}

/** Names that the examples use without defining them: the rest of an app. */
async function appOf(names) {
  const shown = [];
  return {
    ...client,
    shown,
    url: KITH_URL,
    cursorFromTheApp: undefined,
    cookies: {},
    file: await openAsBlob(KITH_PICTURE),
    console: { log: (...words) => shown.push(words.join(" ")) },
    fetch: async () => Response.json({ token: KITH_TOKENS.split(",")[1] }),
    showBar: (part) => shown.push(`bar ${part}`),
    showOffline: (offline) => {
      shown.push(`offline ${offline}`);
      if (!offline) names.alice.createPost({ text: "just now" }).then(({ id }) => names.bob.likePost(id));
    },
    showPill: (preview) => {
      shown.push(`pill ${preview}`);
      names.stream.close();
    },
    showLikes: () => {},
    showBadge: () => {},
    reload: () => {},
  };
}

test(
  "the examples of the README run",
  { skip: KITH_URL ? false : "no server: KITH_URL is not set; pytest sets it" },
  async () => {
    const names = {};
    const app = await appOf(names);
    Object.assign(names, app);
    const all = examples();
    assert.equal(all.length, EXAMPLES);
    for (const [heading, code] of all) {
      const run = new AsyncFunction("names", `with (names) {\n${runnable(code)}\n}`);
      await run(names).catch((error) => {
        throw new Error(`example ${heading}`, { cause: error });
      });
    }
    assert.ok(app.cookies["kith-token"], "example 8 stores a token in a cookie");
    assert.ok(app.shown.includes("pill just now"), "example 6 shows a new post");
    assert.ok(app.shown.includes("bar 1"), "example 7 shows progress");
    assert.ok(
      app.shown.some((line) => line.startsWith("SELF_EDGE 400")),
      "example 10 shows an error",
    );
  },
);
