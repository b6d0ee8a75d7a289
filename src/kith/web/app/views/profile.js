/** The profile of a user, with their posts. */

import { attempt } from "../acting.js";
import { button, counted, h } from "../dom.js";
import { EndlessList } from "../list.js";
import { fetchAhead } from "../media.js";
import { menu } from "../menu.js";
import { avatar, followButton, handle, nameOf } from "../people.js";
import { block, mute } from "../post-actions.js";
import { PostCard } from "../post-card.js";
import { keep } from "../posts.js";
import { session } from "../session.js";
import { retryNote, toast } from "../messages.js";

export function profile(id) {
  const head = h("section", { class: "profile", "aria-label": "Profile" }, h("div", { class: "placeholder", "aria-hidden": "true" }));
  const list = new EndlessList({
    load: async (cursor) => {
      const page = await session.kith.userPostsPage(id, { limit: 20, cursor });
      return { ...page, items: page.items.map(keep) };
    },
    draw: (post) => new PostCard(post),
    ahead: fetchAhead,
    empty: "Nothing that you may see.",
  });
  const view = h("div", { class: "view" }, head);
  view.title = "Profile";
  load();

  async function load() {
    try {
      const asked = [session.kith.user(id), id === session.user ? [null] : session.kith.relationships([id])];
      const [person, [how]] = await Promise.all(asked);
      view.title = nameOf(person);
      if (view.isConnected) document.title = `${view.title} · Kith`;
      draw(person, how);
    } catch (error) {
      head.replaceChildren(retryNote(error, load));
    }
  }

  function draw(person, how) {
    const count = (number, name, href) => h(href ? "a" : "span", { href, class: "count" }, name ? counted(number, name) : `${number.toLocaleString()} following`);
    head.replaceChildren(
      h("div", { class: "row" }, avatar(person, "huge"), h("div", { class: "grow" }, h("h1", { dir: "auto" }, nameOf(person)), handle(person), person.private ? h("span", { class: "note" }, " · Private") : null), ...buttons(person, how)),
      person.bio ? h("p", { class: "words", dir: "auto" }, person.bio) : "",
      h("div", { class: "row" }, count(person.postCount, "post"), count(person.followersCount, "follower", `#/user/${id}/followers`), count(person.followingCount, null, `#/user/${id}/following`), h("a", { href: `#/user/${id}/boards`, class: "count" }, "Boards")),
      how?.blocking ? h("p", { class: "quiet" }, "You blocked this account: neither of you sees the other.") : how?.followedBy ? h("p", { class: "note" }, "Follows you") : "",
    );
    if (!how?.blocking && !list.isConnected) view.append(list);
    if (how?.blocking) list.remove();
  }

  function buttons(person, how) {
    if (how === null) return [h("a", { href: "#/me/edit", class: "button" }, "Edit profile")];
    if (how.blocking) return [button("Unblock", () => readmit("unblock", `${nameOf(person)} is no longer blocked.`))];
    return [followButton(person, how), menu(`More about ${nameOf(person)}`, () => choices(person, how))];
  }

  function choices(person, how) {
    const name = nameOf(person);
    return [
      how.muting ? ["Unmute", () => readmit("unmute", `${name} is no longer muted.`)] : ["Mute", async () => (await mute(person, name)) && load()],
      ["See fewer posts", () => undo("seeFewer", `You will see fewer posts of ${name}.`)],
      ["See posts as before", () => undo("seeAsBefore", `You see posts of ${name} as before.`)],
      ...(how.followedBy ? [["Remove as a follower", () => undo("removeFollower", `${name} no longer follows you.`)]] : []),
      ["Block", async () => (await block(person, name)) && load()],
    ];
  }

  async function undo(method, done) {
    const held = await attempt({ key: `${method} ${id}`, apply: () => {}, send: () => session.kith[method](id), undo: () => {}, what: "Nothing was changed." });
    if (!held) return false;
    toast(done);
    await load();
    return true;
  }

  /** Undo a mute or a block, which took the posts from the screen. */
  async function readmit(method, done) {
    if (await undo(method, done)) list.reload();
  }
  return view;
}
