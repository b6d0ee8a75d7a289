/**
 * Chooses the view by the URL's fragment, such as `#/post/7`. Back and forward restore a view as it was left, with its
 * scroll position.
 */

const KEPT_MAX = 8;
const main = document.getElementById("main");
/** Views by the history entry that shows them: { view, scroll }. */
const kept = new Map();
let routes = [];
let current = null;

/** Start routing. `table`: [pattern, make] rows; `make(...parts)` gives a view: an element with a `title`. */
export function start(table) {
  routes = table.map(([pattern, make]) => [new RegExp(`^#${pattern.replaceAll(":id", "([\\w.]+)")}$`), make]);
  history.scrollRestoration = "manual";
  addEventListener("popstate", show);
  show();
}

/** Go to a view. */
export function go(hash) {
  location.hash = hash;
}

/** Discard a view; its `end`, if it has one, removes its listeners. */
function forget(key) {
  kept.get(key).view.end?.();
  kept.delete(key);
}

function show() {
  if (location.hash.startsWith("#token=")) return; // `session` takes it, and removes it from the address
  const key = history.state?.key ?? crypto.getRandomValues(new Uint32Array(1))[0];
  history.replaceState({ key }, "");
  if (key === current) return;
  if (current !== null && kept.has(current)) kept.get(current).scroll = scrollY;
  const moved = current !== null;
  const entry = kept.get(key) ?? { view: viewOf(location.hash), scroll: 0 };
  kept.delete(key);
  kept.set(key, entry);
  if (kept.size > KEPT_MAX) forget(kept.keys().next().value);
  current = key;
  document.title = `${entry.view.title} · Kith`;
  main.replaceChildren(entry.view);
  scrollTo(0, entry.scroll);
  if (moved) main.focus({ preventScroll: true });
  dispatchEvent(new CustomEvent("viewchange"));
}

function viewOf(hash) {
  for (const [pattern, make] of routes) {
    const found = pattern.exec(hash || "#/");
    if (found) return make(...found.slice(1));
  }
  return routes[0][1]();
}
