/** How many notifications are unread, as the badge in the bar shows it. */

import { h } from "./dom.js";
import { live } from "./live.js";
import { session } from "./session.js";

const SHOWN_MAX = 99;
const badge = h("span", { class: "badge", hidden: true });
let count = 0;

live.addEventListener("unread", ({ detail }) => setUnread(detail.count));

/** The badge; it counts from now on. */
export function unreadBadge() {
  session.kith.unreadNotifications().then(
    (unread) => setUnread(unread.count),
    () => {}, // the stream tells it with the next change
  );
  return badge;
}

/** As the server counted it just now. */
export function setUnread(number) {
  count = number;
  badge.hidden = count === 0;
  badge.textContent = count > SHOWN_MAX ? `${SHOWN_MAX}+` : String(count);
  badge.ariaLabel = `${count} unread`;
  badge.role = "img";
}
