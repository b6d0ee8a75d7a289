/** The navigation bar above the page; on a phone it is below. */

import { button, h, icon } from "./dom.js";
import { compose } from "./compose.js";
import { menu } from "./menu.js";
import { go } from "./router.js";
import { session, signOut } from "./session.js";
import { unreadBadge } from "./unread.js";

/** The parts of the bar. */
export function bar() {
  const links = [
    ["home", "Home", "#/"],
    ["people", "People", "#/people"],
    ["bell", "Inbox", "#/inbox"],
    ["user", "You", `#/user/${session.user}`],
  ].map(([drawing, name, href]) => h("a", { href }, icon(drawing), h("span", {}, name), name === "Inbox" && unreadBadge()));
  const mark = () => {
    for (const link of links) link.ariaCurrent = link.hash === (location.hash || "#/") ? "page" : null;
  };
  addEventListener("viewchange", mark);
  const more = menu("More", () => [
    ["Saved", () => go("#/saved")],
    ["Your boards", () => go(`#/user/${session.user}/boards`)],
    ["Mentions of you", () => go("#/mentions")],
    ["Requests to follow you", () => go("#/requests")],
    ["Muted", () => go("#/muted")],
    ["Blocked", () => go("#/blocked")],
    ["Sign out", signOut],
  ]);
  const write = button([icon("write"), "Write"], compose, { class: "write-button main" });
  return [h("a", { href: "#/", class: "brand", "aria-label": "Kith, home" }, "Kith"), h("nav", { "aria-label": "Main" }, links), write, more];
}
