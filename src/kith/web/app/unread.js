/** The number of unread notifications, for the badge in the bar. */

import { h } from "./dom.js";
import { live } from "./live.js";
import { session } from "./session.js";

const SHOWN_MAX = 99;
const badge = h("span", { class: "badge", hidden: true });
let count = 0;

live.addEventListener("unread", ({ detail }) => setUnread(detail.count));

/** The badge; it updates itself from now on. */
export function unreadBadge() {
  session.kith.unreadNotifications().then(
    (unread) => setUnread(unread.count),
    () => {}, // the stream sends the number with the next change
  );
  return badge;
}

/** Set the number that the server just counted. */
export function setUnread(number) {
  count = number;
  badge.hidden = count === 0;
  badge.textContent = count > SHOWN_MAX ? `${SHOWN_MAX}+` : String(count);
  badge.ariaLabel = `${count} unread`;
  badge.role = "img";
}
