/** The comments on a post, and the replies to them. */

import { attempt } from "./acting.js";
import { button, confirmed, h, icon, words } from "./dom.js";
import { dropDraft, dropKey, keepDraft, sendKey } from "./drafts.js";
import { avatar, nameLink, nameOf } from "./people.js";
import { change, postOf } from "./posts.js";
import { noteRefusal, session } from "./session.js";
import { errorText } from "./messages.js";
import { ago, exactly } from "./time.js";

const TEXT_MAX = 2_000;

/** A comment with its replies. `post`: the id of the post. */
export function commentThread(comment, post) {
  const replies = h("div", { class: "replies" }, comment.replies.map((reply) => commentBox(reply, post, () => answer())));
  const shown = new Set(comment.replies.map(({ id }) => id));
  const isFresh = ({ id }) => !shown.has(id) && shown.add(id);
  const left = comment.replyCount - comment.replies.length;
  if (left > 0) replies.append(moreReplies(comment, post, left, isFresh, () => answer()));
  const place = h("div");
  const show = (element) => replies.append(element);
  const made = (reply) => (place.replaceChildren(), isFresh(reply) && show(commentBox(reply, post, answer)));
  const answer = () => place.replaceChildren(writeComment(post, comment.id, { show, made }));
  return h("article", { class: "thread", "aria-label": comment.author ? `Comment of ${nameOf(comment.author)}` : "Deleted comment" }, commentBox(comment, post, answer), replies, place);
}

/** A button that loads more replies. `isFresh(reply)`: whether it is not shown yet; marks it as shown. `answer`: replies. */
function moreReplies(comment, post, left, isFresh, answer) {
  let cursor;
  const more = button(`${left} more ${left === 1 ? "reply" : "replies"}`, load, { class: "plain link" });
  async function load() {
    try {
      const page = await session.kith.commentRepliesPage(comment.id, { sort: "oldest", limit: 20, cursor });
      more.before(...page.items.filter(isFresh).map((reply) => commentBox(reply, post, answer)));
      cursor = page.pagination.nextCursor;
      if (!page.pagination.hasMore) more.remove();
    } catch (error) {
      more.textContent = `${errorText(error)} Try again`;
    }
  }
  return more;
}

/** One comment. `answer`: opens the field for a reply. */
function commentBox(comment, post, answer) {
  const box = h("div", { class: "comment" });
  const draw = () => box.replaceChildren(...(comment.deleted ? [h("p", { class: "quiet" }, "This comment was deleted.")] : parts()));
  const parts = () => [
    avatar(comment.author, "small"),
    h(
      "div",
      { class: "grow" },
      h("div", { class: "row" }, nameLink(comment.author), h("time", { class: "time", dateTime: comment.createdAt, title: exactly(comment.createdAt) }, ago(comment.createdAt))),
      words(comment.text),
      h("div", { class: "acts" }, likeButton(comment), button("Reply", answer, { class: "act" }), mayDelete() && button("Delete", remove, { class: "act" })),
    ),
  ];
  const mayDelete = () => [comment.author.id, postOf(post)?.author.id].includes(session.user);
  draw();

  async function remove() {
    if (!(await confirmed("Delete this comment for good?", "Delete"))) return;
    await attempt({
      key: `comment ${comment.id}`,
      apply: () => ((comment.deleted = true), count(post, -1), draw()),
      send: () => session.kith.deleteComment(comment.id),
      undo: () => ((comment.deleted = false), count(post, 1), draw()),
      what: "The comment is still there.",
    });
  }
  return box;
}

function likeButton(comment) {
  const one = h("button", { type: "button", class: "act like", onclick: toggle }, icon("like"), h("span"));
  const show = () => {
    one.lastChild.textContent = comment.likeCount || "";
    one.ariaPressed = String(comment.isLiked);
    one.ariaLabel = `Like this comment, ${comment.likeCount}`;
  };
  const set = (is) => {
    if (comment.isLiked === is) return;
    comment.isLiked = is;
    comment.likeCount += is ? 1 : -1;
    show();
  };
  show();
  function toggle() {
    const next = !comment.isLiked;
    attempt({
      key: `like comment ${comment.id}`,
      apply: () => set(next),
      send: () => (next ? session.kith.likeComment(comment.id) : session.kith.unlikeComment(comment.id)),
      undo: () => set(!next),
      what: "That was taken back.",
    });
  }
  return one;
}

/**
 * The field for a comment. A sent comment shows at once: `show(element)` places it. `made(comment)` is called once it is
 * stored. A refused comment is removed, and its text returns to the field.
 */
export function writeComment(post, replyTo, { show, made }) {
  const draft = `comment ${post} ${replyTo ?? ""}`;
  const label = replyTo ? "Write a reply" : "Write a comment";
  const text = keepDraft(h("textarea", { rows: 2, maxLength: TEXT_MAX, dir: "auto", placeholder: label, "aria-label": label }), draft);
  const failure = h("p", { class: "failure", role: "alert" });
  const submit = h("button", { class: "main" }, "Send");
  async function send(event) {
    event.preventDefault();
    const said = text.value;
    if (!said.trim()) return;
    submit.disabled = true;
    failure.textContent = text.value = "";
    const shown = onItsWay(said);
    show(shown);
    count(post, 1);
    try {
      const key = sendKey(draft, said);
      const comment = await session.kith.createComment(post, said, { ...(replyTo && { replyTo }), key });
      dropKey(draft, key);
      if (!text.value) dropDraft(draft);
      made(comment);
      requestAnimationFrame(() => shown.remove()); // in the frame that draws the stored comment
    } catch (error) {
      shown.remove();
      count(post, -1);
      noteRefusal(error);
      failure.textContent = `Not sent. ${errorText(error)}`;
      text.value = [said, text.value].filter(Boolean).join("\n");
      text.dispatchEvent(new Event("input")); // saves the draft
    } finally {
      submit.disabled = false;
    }
  }
  const box = h("form", { class: "write", onsubmit: send }, text, failure, h("div", { class: "row end" }, submit));
  if (replyTo) queueMicrotask(() => text.focus());
  return box;
}

/** The user's own comment while it is being sent. */
function onItsWay(said) {
  const reader = { id: session.user, displayName: "You" };
  const what = h("div", { class: "grow" }, h("div", { class: "row" }, nameLink(reader), h("span", { class: "time" }, "on its way")), words(said));
  return h("div", { class: "comment" }, avatar(reader, "small"), what);
}

function count(post, by) {
  const known = postOf(post);
  if (known) change(post, { engagement: { commentCount: Math.max(0, known.engagement.commentCount + by) } });
}
