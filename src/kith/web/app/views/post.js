/** One post with its comments. */

import { commentThread, writeComment } from "../comments.js";
import { h } from "../dom.js";
import { EndlessList } from "../list.js";
import { PostCard } from "../post-card.js";
import { drop, keep, postOf } from "../posts.js";
import { noteRefusal, session } from "../session.js";
import { retryNote } from "../messages.js";

const SORTS = { top: "Best first", newest: "Newest first", oldest: "Oldest first" };

export function post(id) {
  const view = h("div", { class: "view" }, h("h1", { class: "unseen-title" }, "Post"));
  view.title = "Post";
  if (postOf(id)) fill();
  load();

  async function load() {
    try {
      const found = await session.kith.post(id);
      keep({ ...postOf(id), ...found });
      if (view.childElementCount === 1) fill();
      session.kith.viewPost(id).catch(() => {});
    } catch (error) {
      if (error.code === "POST_NOT_FOUND") drop(id);
      if (view.childElementCount === 1) view.append(retryNote(error, load));
      else noteRefusal(error);
    }
  }

  function fill() {
    const sort = h("select", { "aria-label": "Order of comments", onchange: () => list.reload() }, Object.entries(SORTS).map(([value, name]) => h("option", { value }, name)));
    const list = new EndlessList({
      load: (cursor) => session.kith.postCommentsPage(id, { sort: sort.value, limit: 20, cursor }),
      draw: (comment) => commentThread(comment, id),
      empty: "No comments yet.",
    });
    const sending = h("div", { class: "thread" });
    const show = (element) => sending.append(element);
    const made = (comment) => list.prepend([comment]);
    const write = postOf(id).allowComments === false ? h("p", { class: "quiet" }, "Comments are closed.") : writeComment(id, null, { show, made });
    view.append(new PostCard(postOf(id), { whole: true }), h("div", { class: "row" }, h("h2", { class: "grow" }, "Comments"), sort), write, sending, list);
  }
  return view;
}
