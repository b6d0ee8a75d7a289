// The console: the key, the views, and a poll every ten seconds while the page is visible.

import { el, form } from "./dom.js";
import { History } from "./history.js";
import { log } from "./log.js";
import { lookup } from "./lookup.js";
import { operations } from "./operations.js";
import { overview } from "./overview.js";
import { forget, keep, key } from "./server.js";
import { settings } from "./settings.js";
import { tasks } from "./tasks.js";

// name: [title, view, whether each poll redraws it]
const VIEWS = {
  overview: ["Overview", overview, true],
  operations: ["Operations", operations, true],
  log: ["Log", log, true],
  lookup: ["Look up", lookup, false],
  tasks: ["Tasks", tasks, true],
  settings: ["Settings", settings, false],
};
const EVERY = 10_000;
const SOON = 1_000; // ms after a sample was written
const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const header = document.querySelector("header");
const nav = document.querySelector("nav");
let history = new History();
let timer = 0;
let looks = 0; // number of polls; only the newest one draws

const current = () => (location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "overview");

function say(error) {
  trouble.textContent = error ? error.message : "";
  trouble.hidden = !error;
}

async function look({ opened = false } = {}) {
  clearTimeout(timer);
  const mine = ++looks;
  const [title, view, live] = VIEWS[current()];
  try {
    await history.refresh();
    if (opened || live) {
      const drawn = await view(history, guarded);
      if (mine !== looks) return;
      if (opened || !busy()) draw(drawn);
      if (opened) document.title = `${title} · Kith console`;
    }
    say(null);
  } catch (error) {
    if (mine !== looks) return;
    if (error.status === 401 || error.status === 403) return signIn("This is no server key of this service.");
    say(error);
  }
  if (mine === looks && !document.hidden) timer = setTimeout(look, EVERY - ((Date.now() - SOON) % EVERY));
}

/** Views call this after they changed something. */
const guarded = () => look({ opened: true });

const busy = () => document.querySelector("dialog[open]") !== null || (document.activeElement !== null && main.contains(document.activeElement) && document.activeElement.matches("input, select"));

/** Show a view. What had the focus gets it again, found by its name. */
function draw(children) {
  const focused = document.activeElement;
  const had = main.contains(focused) && focused !== main;
  const nameOf = (one) => one.ariaLabel ?? one.textContent;
  main.replaceChildren(...children.filter(Boolean));
  if (had) ([...main.querySelectorAll("button, [tabindex]")].find((one) => nameOf(one) === nameOf(focused)) ?? main).focus({ preventScroll: true });
}

function navigate() {
  if (!key()) return signIn();
  header.hidden = false;
  for (const link of nav.children) link.ariaCurrent = link.hash === `#${current()}` ? "page" : null;
  look({ opened: true });
}

function signIn(why) {
  looks++;
  clearTimeout(timer);
  forget();
  history = new History();
  header.hidden = true;
  say(why ? new Error(why) : null);
  document.title = "Kith console";
  main.replaceChildren(
    el("h1", {}, "Kith console"),
    el("p", {}, "For who runs the service. It takes a server key: the one that the server printed at its first start, or one that ", el("code", {}, "kith token --server"), " makes. The key stays in this tab."),
    form([["key", "Server key", { type: "password", required: true, size: 40 }]], "Sign in", (values) => {
      keep(values.key.trim());
      navigate();
    }),
  );
  main.querySelector("input").focus();
}

nav.append(...Object.entries(VIEWS).map(([name, [title]]) => el("a", { href: `#${name}` }, title)));
document.getElementById("out").addEventListener("click", () => signIn());
addEventListener("hashchange", navigate);
addEventListener("unhandledrejection", (event) => say(event.reason));
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : key() && look()));
navigate();
