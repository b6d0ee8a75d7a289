/** Home: posts of followed users, ranked or latest. */

import { composeEvents } from "../compose.js";
import { button, h } from "../dom.js";
import { EndlessList } from "../list.js";
import { live } from "../live.js";
import { fetchAhead } from "../media.js";
import { PostCard } from "../post-card.js";
import { keep, postOf } from "../posts.js";
import { session } from "../session.js";
import { storyStrip } from "../stories.js";
import { learnTime } from "../time.js";

const DEGRADED = "Some of home is not available just now; what is here is right.";

/** `type`: ranked or latest. */
export function home(type) {
  const over = new AbortController();
  const until = { signal: over.signal };
  let fresh = new Set();
  const list = new EndlessList({ load, draw: (post) => new PostCard(post), ahead: fetchAhead, empty: nobody() });
  const degraded = h("p", { class: "note", role: "status", hidden: true }, DEGRADED);
  const pill = button("", show, { class: "pill main", hidden: true });
  const tab = (of, href, name) => h("a", { href, class: "tab", "aria-current": of === type ? "page" : null }, name);
  const view = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen-title" }, "Home"),
    storyStrip(until),
    h("nav", { class: "tabs", "aria-label": "Order" }, tab("ranked", "#/", "For you"), tab("latest", "#/latest", "Latest")),
    h("div", { class: "pill-place", role: "status" }, pill),
    degraded,
    list,
  );
  view.title = "Home";
  view.end = () => over.abort();

  async function load(cursor) {
    const page = await session.kith.feedPage({ type, limit: 20, cursor });
    learnTime(page.meta.generatedAt);
    degraded.hidden = page.meta.degraded.length === 0;
    return { items: page.posts.map(keep), pagination: page.pagination };
  }

  function show() {
    count(new Set());
    scrollTo({ top: 0 });
    list.reload();
  }

  function count(ids) {
    fresh = ids;
    pill.hidden = fresh.size === 0;
    pill.textContent = fresh.size === 1 ? "1 new post" : `${fresh.size} new posts`;
  }
  // A view that is kept while another one shows continues to count.
  live.addEventListener("new_post", ({ detail }) => postOf(detail.postId) === undefined && count(fresh.add(detail.postId)), until);
  live.addEventListener("post_removed", ({ detail }) => fresh.delete(detail.postId) && count(fresh), until);
  live.addEventListener("reset", () => view.isConnected && show(), until);
  composeEvents.addEventListener("posted", ({ detail }) => (fresh.delete(detail.id), count(fresh), list.prepend([detail])), until);
  return view;
}

function nobody() {
  return h("div", { class: "quiet" }, h("p", {}, "Nothing at home yet: follow somebody, and what they post comes here."), h("a", { href: "#/people", class: "button main" }, "People you may know"));
}
