/** Creating a board, and pinning a post to one. */

import { attempt } from "./acting.js";
import { button, dialog, h, inline } from "./dom.js";
import { EndlessList } from "./list.js";
import { noteRefusal, session } from "./session.js";
import { errorText, toast } from "./messages.js";

/** A form for a new board; `made(board)` is called once it is created. */
export function newBoard(made) {
  const name = h("input", { required: true, maxLength: 100, "aria-label": "Name", placeholder: "Name of the board", dir: "auto" });
  const secret = h("input", { type: "checkbox" });
  const failure = h("p", { class: "failure", role: "alert" });
  const submit = h("button", { class: "main" }, "Make it");
  dialog("New board", (close) => {
    const send = async (event) => {
      event.preventDefault();
      submit.disabled = true;
      try {
        made(await session.kith.createBoard(name.value.trim(), { secret: secret.checked }));
        close();
      } catch (error) {
        noteRefusal(error);
        failure.textContent = errorText(error);
      } finally {
        submit.disabled = false;
      }
    };
    return h("form", { onsubmit: send }, name, h("label", { class: "check" }, secret, "Secret: for you and who you invite"), failure, h("div", { class: "row end" }, submit));
  });
}

/** Choose a board for a post: the user's own boards, then boards of others that they were invited to. */
export function pin(post) {
  dialog("Pin to a board", (close) => {
    const put = (to) => {
      close();
      attempt({ key: `pin ${to.id} ${post.id}`, apply: () => {}, send: () => session.kith.pinPost(to.id, post.id), undo: () => {}, what: "It is not pinned." }).then((held) => held && toast(`Pinned to ${inline(to.name)}.`));
    };
    const choices = new EndlessList({
      load: page,
      draw: (one) => h("article", { "aria-label": one.name }, button(h("bdi", {}, one.name), () => put(one))),
      empty: "No boards yet.",
    });
    return h("div", { class: "stack" }, button("New board", () => newBoard(put), { class: "main" }), choices);
  });
}

async function page({ own, cursor } = { own: true }) {
  const read = own ? session.kith.userBoardsPage : session.kith.collaborationsPage;
  const { items, pagination } = await read.call(session.kith, session.user, { limit: 50, cursor });
  const next = pagination.hasMore ? { own, cursor: pagination.nextCursor } : { own: false };
  return { items, pagination: { nextCursor: next, hasMore: own || pagination.hasMore } };
}
