/** Views that are lists of posts or of users. */

import { attempt } from "../acting.js";
import { button, h } from "../dom.js";
import { EndlessList } from "../list.js";
import { fetchAhead } from "../media.js";
import { nameOf, personRow, withPeople } from "../people.js";
import { PostCard } from "../post-card.js";
import { keep } from "../posts.js";
import { session } from "../session.js";

/** A view of posts. `load(options)`: gives a page. */
function postsView(title, load, empty) {
  const list = new EndlessList({
    load: async (cursor) => {
      const page = await load({ limit: 20, cursor });
      return { ...page, items: page.items.map(keep) };
    },
    draw: (post) => new PostCard(post),
    ahead: fetchAhead,
    empty,
  });
  return titled(title, list);
}

/** A view of users. `load(options)`: gives a page of ids; `beside(item, row)`: the element at the end of a row. */
function peopleView(title, load, empty, beside = () => []) {
  const list = new EndlessList({
    load: async (cursor) => withPeople(await load({ limit: 50, cursor })),
    draw(item) {
      const row = personRow({ ...item.person, note: item.note }, item.how);
      row.append(...beside(item, row));
      return row;
    },
    empty,
  });
  return titled(title, list);
}

function titled(title, list) {
  const view = h("div", { class: "view" }, h("h1", {}, title), list);
  view.title = title;
  return view;
}

export const saved = () => postsView("Saved", (options) => session.kith.savedPostsPage(session.user, options), "Nothing saved yet. Only you see what you save.");
export const mentions = () => postsView("Mentions", (options) => session.kith.mentionsPage(session.user, options), "Nobody mentioned you yet.");
export const likes = (id) => peopleView("Liked by", (options) => session.kith.postLikesPage(id, options), "Nobody likes it yet.");
export const followers = (id) => peopleView("Followers", (options) => session.kith.followersPage(id, options), "No followers that you may see.");
export const following = (id) => peopleView("Following", (options) => session.kith.followingPage(id, options), "They follow nobody that you may see.");

/** Follow requests to the user. */
export function requests() {
  const load = (options) => session.kith.followRequestsPage(options);
  return peopleView("Requests to follow you", load, "Nobody asks just now.", (item, row) => {
    const name = nameOf(item.person);
    const answer = (label, method, props) => button(label, () => leave(row, `request ${item.id}`, () => session.kith[method](item.id)), { "aria-label": `${label}: ${name}`, ...props });
    return [answer("Accept", "acceptFollowRequest", { class: "main" }), answer("Decline", "declineFollowRequest")];
  });
}

/** Users whom the signed-in user blocks or mutes. */
export const blocked = () => shutOut("Blocked", "blockedPage", "Unblock", "unblock", "You block nobody.");
export const muted = () => shutOut("Muted", "mutedPage", "Unmute", "unmute", "You mute nobody.");

function shutOut(title, list, label, method, empty) {
  const load = (options) => session.kith[list](session.user, options);
  return peopleView(title, load, empty, (item, row) => [button(label, () => leave(row, `${method} ${item.id}`, () => session.kith[method](item.id)), { "aria-label": `${label}: ${nameOf(item.person)}` })]);
}

/** Users whom the signed-in user may know. */
export function people() {
  const load = async (options) => {
    const page = await session.kith.suggestionsPage(session.user, options);
    return { ...page, items: page.items.map((item) => ({ ...item, note: item.mutualCount ? `Followed by ${item.mutualCount} whom you follow` : "Popular" })) };
  };
  return peopleView("People you may know", load, "Nobody just now: come back when you follow some people.", (item, row) => [
    button("Not now", () => leave(row, `suggestion ${item.id}`, () => session.kith.hideSuggestion(item.id)), { class: "plain link", "aria-label": `Do not suggest ${nameOf(item.person)}` }),
  ]);
}

/** Remove a row at once, and bring it back if the server refuses. */
function leave(row, key, send) {
  return attempt({ key, apply: () => (row.hidden = true), send, undo: () => (row.hidden = false), what: "Nothing was changed." });
}
