/** The card of one post: content, counts and actions. It updates itself when the post changes. */

import { attempt } from "./acting.js";
import { postActions } from "./post-actions.js";
import { h, icon, words } from "./dom.js";
import { gallery } from "./media.js";
import { menu } from "./menu.js";
import { avatar, handle, nameLink, nameOf } from "./people.js";
import { change, postEvents, postOf } from "./posts.js";
import { session } from "./session.js";
import { ago, exactly } from "./time.js";

const REASONS = { friend_interaction: "You often meet them", recent: "New", popular: "Popular", content_type: "A kind you like", followed_board: "On a board you follow" };
const AUDIENCES = { friends: "Friends", private: "Only you", custom: "Some people" };
const LONG_CHARS = 700;

export class PostCard extends HTMLElement {
  #id;
  #whole;
  #counts;
  #listen = ({ detail }) => detail === this.#id && this.#refresh();

  /** `whole`: the post has its own page, so all of its text is shown. */
  constructor(post, { whole = false } = {}) {
    super();
    this.#id = post.id;
    this.#whole = whole;
  }

  connectedCallback() {
    this.role = "article";
    this.tabIndex = 0;
    postEvents.addEventListener("change", this.#listen);
    this.#refresh();
  }

  disconnectedCallback() {
    postEvents.removeEventListener("change", this.#listen);
  }

  /** Draw the card; if only counts changed, redraw only these, so that a focused button keeps the focus. */
  #refresh() {
    const post = postOf(this.#id);
    const said = post && JSON.stringify([post.content, post.author, post.labels, post.visibility, post.editedAt]);
    if (said === this.#said && this.childElementCount > 0) return this.#counts?.();
    this.#said = said;
    this.sayName();
    if (post) this.#draw(post);
    else this.#sayGone();
  }

  #said;

  /** Give the card its name for screen readers, which has the time in words. */
  sayName() {
    const post = postOf(this.#id);
    this.ariaLabel = post ? `${nameOf(post.author)}, ${ago(post.createdAt)}` : "A post that is gone";
  }

  #sayGone() {
    this.#counts = null;
    this.replaceChildren(h("p", { class: "quiet" }, "This post is no longer here."));
  }

  #draw(post) {
    const { author, content } = post;
    const time = h("a", { href: `#/post/${post.id}`, class: "time" }, h("time", { dateTime: post.createdAt, title: exactly(post.createdAt) }, ago(post.createdAt)));
    const about = [
      AUDIENCES[post.visibility],
      post.editedAt && "Edited",
      post.ranking && REASONS[post.ranking.reason],
      post.location?.name,
    ].filter(Boolean);
    this.replaceChildren(
      h(
        "header",
        {},
        avatar(author),
        h("div", { class: "grow" }, h("div", { class: "row" }, nameLink(author), handle(author), time), about.length > 0 && h("p", { class: "note" }, about.join(" · "))),
        menu(`More about the post of ${nameOf(author)}`, () => postActions(postOf(this.#id))),
      ),
      ...this.#text(content.text),
      ...[link(content.link), gallery(content.media, post.labels.includes("sensitive"))].filter(Boolean),
      this.#buttons(),
    );
  }

  #text(text) {
    if (!text) return [];
    if (this.#whole || text.length <= LONG_CHARS) return [words(text)];
    const shown = words(text, { class: "words long" });
    const more = h("button", { type: "button", class: "plain link", onclick: () => (shown.classList.remove("long"), more.remove(), this.focus({ preventScroll: true })) }, "Show all of it");
    return [shown, more];
  }

  #buttons() {
    const id = this.#id;
    const like = counter("like", "Like", () => toggle(id, "isLiked", "likeCount", "likePost", "unlikePost"));
    const comment = h("a", { href: `#/post/${id}`, class: "act" }, icon("comment"), h("span"));
    const share = counter("share", "Share", () => toggle(id, "isShared", "shareCount", "sharePost", "unsharePost"));
    const save = counter("save", "Save", () => toggle(id, "isSaved", null, "savePost", "unsavePost"));
    const likes = h("a", { href: `#/likes/${id}`, class: "note" });
    this.#counts = () => {
      const { engagement, allowSharing } = postOf(id);
      set(like, engagement.likeCount, engagement.isLiked);
      set(share, engagement.shareCount, engagement.isShared);
      set(save, 0, engagement.isSaved);
      share.hidden = !allowSharing;
      comment.lastChild.textContent = engagement.commentCount || "";
      comment.ariaLabel = `Comments, ${engagement.commentCount}`;
      likes.hidden = engagement.likeCount === 0;
      likes.textContent = `Liked by ${engagement.likeCount} · seen by ${engagement.viewCount}`;
    };
    this.#counts();
    return h("footer", {}, h("div", { class: "acts" }, like, comment, share, save), this.#whole ? likes : null);
  }
}
customElements.define("kith-post", PostCard);

function counter(drawing, label, onclick) {
  return h("button", { type: "button", class: `act ${drawing}`, onclick, "data-label": label }, icon(drawing), h("span"));
}

function set(one, count, pressed = false) {
  one.lastChild.textContent = count || "";
  one.ariaPressed = String(pressed);
  one.ariaLabel = count ? `${one.dataset.label}, ${count}` : one.dataset.label;
}

/** Like, save or share, or take it back, with an optimistic update. The answer has the exact count. */
async function toggle(id, flag, count, on, off) {
  const { engagement } = postOf(id);
  const next = !engagement[flag];
  const changed = (is) => {
    const before = postOf(id)?.engagement;
    if (!before || Boolean(before[flag]) === is) return;
    change(id, { engagement: { [flag]: is, ...(count && { [count]: Math.max(0, before[count] + (is ? 1 : -1)) }) } });
  };
  let answer;
  const held = await attempt({
    key: `${flag} ${id}`,
    apply: () => changed(next),
    send: async () => (answer = await session.kith[next ? on : off](id)),
    undo: () => changed(!next),
    what: "That was taken back.",
  });
  if (held && count && Boolean(postOf(id)?.engagement[flag]) === next) change(id, { engagement: { [count]: answer[count] } });
}

function link(href) {
  if (!href || !/^https?:\/\//.test(href)) return null;
  return h("a", { href, class: "outside", target: "_blank", rel: "noopener noreferrer nofollow", dir: "auto" }, href.replace(/^https?:\/\//, ""));
}
