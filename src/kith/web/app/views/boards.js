/** The views of a user's boards, and of one board. */

import { attempt, failed } from "../acting.js";
import { button, confirmed, counted, h, inline } from "../dom.js";
import { EndlessList } from "../list.js";
import { fetchAhead } from "../media.js";
import { nameLink } from "../people.js";
import { newBoard } from "../pinning.js";
import { PostCard } from "../post-card.js";
import { keep } from "../posts.js";
import { go } from "../router.js";
import { session } from "../session.js";
import { retryNote } from "../messages.js";

/** The boards of a user. */
export function boards(user) {
  const list = new EndlessList({
    load: (cursor) => session.kith.userBoardsPage(user, { limit: 50, cursor }),
    draw: (item) => h("article", { class: "board", "aria-label": item.name }, h("a", { href: `#/board/${item.id}`, class: "name", dir: "auto" }, item.name), about(item)),
    empty: "No boards yet.",
  });
  const own = user === session.user;
  const view = h("div", { class: "view" }, h("div", { class: "row" }, h("h1", { class: "grow" }, own ? "Your boards" : "Boards"), own && button("New board", () => newBoard((made) => list.prepend([made])), { class: "main" })), list);
  view.title = "Boards";
  return view;
}

function about({ pinCount, followerCount, secret }) {
  return h("p", { class: "note" }, [counted(pinCount, "pin"), counted(followerCount, "follower"), secret && "Secret"].filter(Boolean).join(" · "));
}

/** One board. */
export function board(id) {
  const head = h("section", { class: "profile", "aria-label": "Board" }, h("div", { class: "placeholder", "aria-hidden": "true" }));
  const view = h("div", { class: "view" }, head);
  view.title = "Board";
  load();

  async function load() {
    try {
      const [found, checked, pins] = await Promise.all([session.kith.board(id), session.kith.checkBoards({ boards: [id] }), mayPin(id)]);
      draw(found, checked.boards[0].following, pins);
    } catch (error) {
      head.replaceChildren(retryNote(error, load));
    }
  }

  function draw(found, follows, pins) {
    view.title = inline(found.name);
    if (view.isConnected) document.title = `${view.title} · Kith`;
    const own = found.owner.id === session.user;
    const act = own ? button("Delete", remove, { class: "danger" }) : !found.secret && followBoard(id, follows); // a secret board has no followers
    head.replaceChildren(h("div", { class: "row" }, h("h1", { class: "grow", dir: "auto" }, found.name), act), h("p", { class: "note" }, "By ", nameLink(found.owner)), about(found));
    view.append(
      new EndlessList({
        load: async (cursor) => {
          const page = await session.kith.boardPinsPage(id, { limit: 20, cursor });
          return { ...page, items: page.items.map(keep) };
        },
        draw: (post) => (pins ? h("div", { class: "stack" }, new PostCard(post), unpin(id, post)) : new PostCard(post)),
        ahead: fetchAhead,
        empty: "Nothing is pinned here yet.",
      }),
    );
  }

  async function remove() {
    if (!(await confirmed("Delete this board for good? The posts stay where they are.", "Delete"))) return;
    try {
      await session.kith.deleteBoard(id);
      go(`#/user/${session.user}/boards`);
    } catch (error) {
      failed(error, "The board is still there.");
    }
  }
  return view;
}

/** Whether the user may pin and unpin; the server sends the list of collaborators only to them. */
async function mayPin(id) {
  try {
    await session.kith.boardCollaboratorsPage(id, { limit: 1 });
    return true;
  } catch (error) {
    if (error.code === "FORBIDDEN") return false;
    throw error;
  }
}

function followBoard(id, follows) {
  const one = button("", toggle);
  const show = (is) => {
    follows = is;
    one.textContent = is ? "Following" : "Follow";
    one.className = is ? "" : "main";
    one.ariaPressed = String(is);
  };
  show(follows);
  function toggle() {
    const next = !follows;
    attempt({
      key: `board ${id}`,
      apply: () => show(next),
      send: () => (next ? session.kith.followBoard(id) : session.kith.unfollowBoard(id)),
      undo: () => show(!next),
      what: "Nothing was changed.",
    });
  }
  return one;
}

function unpin(board, post) {
  const row = h("div", { class: "row end" }, button("Unpin", take, { class: "plain link" }));
  function take() {
    attempt({
      key: `pin ${board} ${post.id}`,
      apply: () => (row.parentElement.hidden = true),
      send: () => session.kith.unpinPost(board, post.id),
      undo: () => (row.parentElement.hidden = false),
      what: "It is still pinned.",
    });
  }
  return row;
}
