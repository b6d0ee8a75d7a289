/** The menu of a post. */

import { attempt } from "./acting.js";
import { edit } from "./compose.js";
import { confirmed } from "./dom.js";
import { nameOf } from "./people.js";
import { pin } from "./pinning.js";
import { drop, idsOf } from "./posts.js";
import { session } from "./session.js";
import { toast } from "./messages.js";
import { showWhy } from "./why.js";

/** The rows of the menu: [label, function]. */
export function postActions(post) {
  const why = ["Why am I seeing this?", () => showWhy(post.id)];
  const toBoard = ["Pin to a board", () => pin(post)];
  if (post.author.id === session.user) return [["Edit", () => edit(post)], ["Delete", () => remove(post)], toBoard, why];
  const name = nameOf(post.author);
  return [
    toBoard,
    why,
    [`See fewer posts of ${name}`, () => fewer(post.author, name)],
    ["Hide this post", () => hide(post)],
    [`Mute ${name}`, () => mute(post.author, name)],
    [`Block ${name}`, () => block(post.author, name)],
  ];
}

async function remove(post) {
  if (!(await confirmed("Delete this post for good?", "Delete"))) return;
  let back;
  await attempt({
    key: `post ${post.id}`,
    apply: () => (back = drop(post.id)),
    send: () => session.kith.deletePost(post.id),
    undo: () => back(),
    what: "The post is still there.",
  });
}

async function hide(post) {
  let back;
  const held = await attempt({
    key: `hide ${post.id}`,
    apply: () => (back = drop(post.id)),
    send: () => session.kith.hidePost(post.id),
    undo: () => back(),
    what: "The post is not hidden.",
  });
  if (held) toast("Hidden: you will not see this post again.", ["Undo", () => attempt({ key: `hide ${post.id}`, apply: back, send: () => session.kith.unhidePost(post.id), undo: () => drop(post.id), what: "It stays hidden." })]);
}

async function fewer(author, name) {
  const held = await attempt({
    key: `fewer ${author.id}`,
    apply: () => toast(`You will see fewer posts of ${name}.`, ["Undo", () => session.kith.seeAsBefore(author.id).then(() => toast("As before."), () => toast("That did not work; try again."))]),
    send: () => session.kith.seeFewer(author.id),
    undo: () => {},
    what: "Nothing was changed.",
  });
  return held;
}

/** Mute a user; their posts disappear at once. Resolves to whether the server took it. */
export function mute(author, name) {
  return away(author, () => session.kith.mute(author.id), `${name} is muted: they are not told.`, `${name} is not muted.`);
}

/** Block a user, after confirmation. Resolves to whether the server took it. */
export async function block(author, name) {
  if (!(await confirmed(`Block ${name}? Neither of you will see the other, and follows end.`, "Block"))) return false;
  return away(author, () => session.kith.block(author.id), `${name} is blocked.`, `${name} is not blocked.`);
}

async function away(author, send, done, what) {
  let back = [];
  const held = await attempt({
    key: `away ${author.id}`,
    apply: () => (back = idsOf(author.id).map(drop)),
    send,
    undo: () => back.forEach((one) => one()),
    what,
  });
  if (held) toast(done);
  return held;
}
