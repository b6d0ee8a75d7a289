/** The strip of stories above home, and the dialog that shows stories one after the other. */

import { failed } from "./acting.js";
import { button, confirmed, dialog, h, icon, words } from "./dom.js";
import { composeEvents, tellStory } from "./compose.js";
import { EndlessList } from "./list.js";
import { gallery } from "./media.js";
import { avatar, nameLink, nameOf, personRow } from "./people.js";
import { session } from "./session.js";
import { errorText, toast, toastError } from "./messages.js";
import { ago } from "./time.js";

/** The strip. `until`: { signal } that removes its listeners. */
export function storyStrip(until) {
  const strip = h("section", { class: "strip", "aria-label": "Stories" });
  const mine = button([h("span", { class: "avatar big add", "aria-hidden": "true" }, icon("write")), h("span", {}, "Your story")], tellStory);
  const load = async () => {
    try {
      const { items } = await session.kith.storyStripPage({ limit: 30 });
      strip.replaceChildren(mine, ...items.map((entry) => teller(entry)));
    } catch (error) {
      strip.replaceChildren(mine, h("p", { class: "quiet" }, errorText(error)));
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
      if (items.length > 0) return showStories(items, () => mark(items.filter(({ seen }) => !seen).length));
      toast("These stories are no longer there.");
      composeEvents.dispatchEvent(new Event("told"));
    } catch (error) {
      toastError(error);
    }
  }
  return one;
}

/** Show stories, starting with the first unseen one; `seen()` is called for each newly seen story. */
function showStories(items, seen) {
  let at = Math.max(0, items.findIndex((story) => !story.seen));
  const place = h("div", { class: "story", "aria-live": "polite" });
  const marks = items.map(() => h("span"));
  const step = (by) => (items[at + by] ? ((at += by), show()) : by > 0 && box.close());
  const back = button("Back", () => step(-1));
  const next = button("Next", () => step(1), { class: "main" });
  const box = dialog("Stories", () => [h("div", { class: "marks", "aria-hidden": "true" }, marks), place, h("div", { class: "row end" }, back, next)], { class: "stories" });
  box.addEventListener("keydown", ({ key }) => ({ ArrowRight: () => step(1), ArrowLeft: () => step(-1) })[key]?.());

  function show() {
    const story = items[at];
    marks.forEach((mark, place) => mark.classList.toggle("on", place <= at));
    back.disabled = at === 0;
    const about = h("div", { class: "row" }, avatar(story.author, "small"), nameLink(story.author), h("span", { class: "time" }, `${ago(story.createdAt)} · ${at + 1} of ${items.length}`));
    const own = story.author.id === session.user;
    const focused = place.contains(document.activeElement);
    place.replaceChildren(about, ...(story.content.text ? [words(story.content.text)] : []), ...[gallery(story.content.media, story.labels.includes("sensitive"))].filter(Boolean), ...(own ? [ownButtons(story, gone)] : []));
    if (focused) next.focus(); // the arrow keys work while the focus is in the dialog
    if (story.seen || own) return;
    story.seen = true;
    seen();
    session.kith.viewStory(story.id).catch(() => (story.seen = false)); // retried the next time it is shown
  }

  /** Remove the current story, which was deleted. */
  function gone() {
    items.splice(at, 1);
    marks.splice(at, 1)[0].remove();
    at = Math.max(0, at - 1);
    if (items.length > 0) show();
    else box.close();
    composeEvents.dispatchEvent(new Event("told"));
  }
  place.addEventListener("click", (event) => event.target.closest("a") && box.close());
  show();
}

/** Buttons for the story's own author. */
function ownButtons(story, gone) {
  const remove = async () => {
    if (!(await confirmed("Delete this story for good?", "Delete"))) return;
    try {
      await session.kith.deleteStory(story.id);
      gone();
      toast("The story is deleted.");
    } catch (error) {
      failed(error, "The story is still there.");
    }
  };
  const seen = button(`Seen by ${story.viewCount ?? 0}`, () => showViewers(story.id));
  return h("div", { class: "row" }, seen, button("Delete", remove, { class: "danger" }));
}

/** Show who has seen a story, latest first. */
function showViewers(id) {
  const load = async (cursor) => {
    const { items, pagination } = await session.kith.storyViewersPage(id, { limit: 50, cursor });
    return { items: items.map(({ user, viewedAt }) => ({ ...user, note: ago(viewedAt) })), pagination };
  };
  const box = dialog("Seen by", () => new EndlessList({ load, draw: (person) => personRow(person), empty: "Nobody has seen it yet." }), { class: "viewers" });
  box.addEventListener("click", (event) => event.target.closest("a") && document.querySelectorAll("dialog").forEach((one) => one.close()));
}
