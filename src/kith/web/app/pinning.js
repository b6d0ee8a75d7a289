/** Making a board, and putting a post on one. */

import { attempt, failed } from "./acting.js";
import { button, dialog, h } from "./dom.js";
import { heed, session } from "./session.js";
import { explained, say } from "./telling.js";

/** A form for a board; `made(board)` gets it. */
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
        heed(error);
        failure.textContent = explained(error);
      } finally {
        submit.disabled = false;
      }
    };
    return h("form", { onsubmit: send }, name, h("label", { class: "check" }, secret, "Secret: for you and who you invite"), failure, h("div", { class: "row end" }, submit));
  });
}

/** Choose a board for a post. */
export async function pin(post) {
  try {
    const { items } = await session.kith.userBoardsPage(session.user, { limit: 100 });
    dialog("Pin to a board", (close) => {
      const put = (to) => {
        close();
        attempt({ key: `pin ${to.id} ${post.id}`, apply: () => {}, send: () => session.kith.pinPost(to.id, post.id), undo: () => {}, what: "It is not pinned." }).then((held) => held && say(`Pinned to ${to.name}.`));
      };
      const choices = items.map((one) => button(h("bdi", {}, one.name), () => put(one)));
      return h("div", { class: "stack" }, choices, button("New board", () => newBoard(put), { class: "main" }));
    });
  } catch (error) {
    failed(error);
  }
}
