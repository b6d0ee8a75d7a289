/** The inbox of notifications. A shown notification counts as seen, an opened one as read. */

import { attempt } from "../acting.js";
import { button, h } from "../dom.js";
import { EndlessList } from "../list.js";
import { live } from "../live.js";
import { noticeText } from "../notice-text.js";
import { avatar, nameLink, nameOf } from "../people.js";
import { session } from "../session.js";
import { setUnread } from "../unread.js";
import { ago, exactly } from "../time.js";

export function inbox() {
  const over = new AbortController();
  let newest = null;
  const rows = new Map(); // each loaded item: its row; null before it is drawn
  const list = new EndlessList({ load, draw, empty: "Nothing yet: likes, comments and follows come here." });
  const pill = button("New", () => ((pill.hidden = true), scrollTo({ top: 0 }), rows.clear(), list.reload()), { class: "pill main", hidden: true });
  const view = h("div", { class: "view" }, h("div", { class: "row" }, h("h1", { class: "grow" }, "Inbox"), button("Mark all as read", readAll)), h("div", { class: "pill-place", role: "status" }, pill), list);
  view.title = "Inbox";
  view.end = () => over.abort();
  live.addEventListener("notification", () => (pill.hidden = false), { signal: over.signal });

  async function load(cursor) {
    const page = await session.kith.notificationsPage({ limit: 30, cursor });
    setUnread(page.unread);
    for (const item of page.items) rows.set(item, null);
    if (cursor === undefined && page.items.length > 0) {
      newest = page.items[0].id;
      session.kith.markSeen({ upTo: newest }).catch(() => {}); // retried the next time
    }
    return page;
  }

  function draw(item) {
    const [first] = item.actors;
    const said = noticeText(item, nameOf);
    const about = item.comment?.preview ?? item.post?.preview ?? item.board?.name;
    const row = h(
      "article",
      { class: "notification", "aria-label": `${first ? nameOf(first) : ""}${said}`.trim(), onclick: () => read(item, row) },
      first && avatar(first),
      h("div", { class: "grow" }, h("p", {}, first && nameLink(first), said), about && h("p", { class: "note", dir: "auto" }, about), h("time", { class: "time", dateTime: item.at, title: exactly(item.at) }, ago(item.at))),
      target(item),
    );
    row.classList.toggle("unread", !item.read);
    rows.set(item, row);
    return row;
  }

  function read(item, row) {
    if (item.read) return;
    attempt({
      key: `read ${item.id}`,
      apply: () => mark(item, row, true),
      send: async () => setUnread((await session.kith.markRead({ ids: item.ids })).unread),
      undo: () => mark(item, row, false),
      what: "It is still unread.",
    });
  }

  function readAll() {
    if (newest === null) return;
    const unread = [...rows].filter(([item]) => !item.read);
    attempt({
      key: "read all",
      apply: () => unread.forEach(([item, row]) => mark(item, row, true)),
      send: async () => setUnread((await session.kith.markRead({ upTo: newest })).unread),
      undo: () => unread.forEach(([item, row]) => mark(item, row, false)),
      what: "They are still unread.",
    });
  }
  return view;
}

function mark(item, row, is) {
  item.read = is;
  row?.classList.toggle("unread", !is);
}

/** The link of a notification. */
function target({ type, post, board, actors }) {
  if (post) return h("a", { href: `#/post/${post.id}`, class: "button" }, "Open");
  if (board) return h("a", { href: `#/board/${board.id}`, class: "button" }, "Open");
  if (type === "follow_request") return h("a", { href: "#/requests", class: "button main" }, "Answer");
  return actors[0] ? h("a", { href: `#/user/${actors[0].id}`, class: "button" }, "Open") : null;
}
