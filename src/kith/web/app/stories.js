/** The strip of stories above home, and what shows them one after the other. */

import { button, dialog, h, icon, words } from "./dom.js";
import { composeEvents, tellStory } from "./compose.js";
import { gallery } from "./media.js";
import { avatar, nameLink, nameOf } from "./people.js";
import { session } from "./session.js";
import { explained, sayError } from "./telling.js";
import { ago } from "./time.js";

/** The strip. `until`: { signal } that ends it. */
export function storyStrip(until) {
  const strip = h("section", { class: "strip", "aria-label": "Stories" });
  const mine = button([h("span", { class: "avatar big add", "aria-hidden": "true" }, icon("write")), h("span", {}, "Your story")], tellStory);
  const load = async () => {
    try {
      const { items } = await session.kith.storyStripPage({ limit: 30 });
      strip.replaceChildren(mine, ...items.map((entry) => teller(entry)));
    } catch (error) {
      strip.replaceChildren(mine, h("p", { class: "quiet" }, explained(error)));
    }
  };
  strip.append(mine);
  composeEvents.addEventListener("told", load, until);
  load();
  return strip;
}

function teller({ author, unseenCount, storyCount }) {
  const one = button([avatar(author, "big"), h("bdi", {}, nameOf(author))], open);
  const mark = (unseen) => {
    one.className = unseen > 0 ? "unseen" : "";
    one.ariaLabel = `Stories of ${nameOf(author)}: ${unseen} new of ${storyCount}`;
  };
  mark(unseenCount);
  async function open() {
    try {
      const { items } = await session.kith.userStoriesPage(author.id, { limit: 50 });
      if (items.length > 0) showStories(items, () => mark(items.filter(({ seen }) => !seen).length));
    } catch (error) {
      sayError(error);
    }
  }
  return one;
}

/** Show stories, the first unseen first; `seen()` is told after each. */
function showStories(items, seen) {
  let at = Math.max(0, items.findIndex((story) => !story.seen));
  const place = h("div", { class: "story", "aria-live": "polite" });
  const marks = items.map(() => h("span"));
  const step = (by) => (items[at + by] ? ((at += by), show()) : by > 0 && box.close());
  const back = button("Back", () => step(-1));
  const box = dialog("Stories", () => [h("div", { class: "marks", "aria-hidden": "true" }, marks), place, h("div", { class: "row end" }, back, button("Next", () => step(1), { class: "main" }))], { class: "stories" });
  box.addEventListener("keydown", ({ key }) => ({ ArrowRight: () => step(1), ArrowLeft: () => step(-1) })[key]?.());

  function show() {
    const story = items[at];
    marks.forEach((mark, place) => mark.classList.toggle("on", place <= at));
    back.disabled = at === 0;
    const about = h("div", { class: "row" }, avatar(story.author, "small"), nameLink(story.author), h("span", { class: "time" }, `${ago(story.createdAt)} · ${at + 1} of ${items.length}`));
    const own = story.author.id === session.user;
    place.replaceChildren(about, ...(story.content.text ? [words(story.content.text)] : []), ...[gallery(story.content.media, story.labels.includes("sensitive"))].filter(Boolean), own && story.viewCount !== null ? h("p", { class: "note" }, `Seen by ${story.viewCount}`) : "");
    if (story.seen || own) return;
    story.seen = true;
    seen();
    session.kith.viewStory(story.id).catch(() => (story.seen = false)); // it counts as unseen the next time
  }
  place.addEventListener("click", (event) => event.target.closest("a") && box.close());
  show();
}
