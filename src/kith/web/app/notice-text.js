/** What a notification says after the name of the user who did it. Pure. */

const SAYS = {
  mention: "mentioned you",
  comment: "commented on your post",
  reply: "replied to your comment",
  like: "liked your post",
  share: "shared your post",
  follow: "follows you",
  follow_request: "asks to follow you",
  follow_accepted: "accepted your request to follow",
  board_follow: "follows your board",
  board_invite: "invited you to a board",
};

/** The text of an item of the inbox. `nameOf(user)`: a user's name. */
export function noticeText(item, nameOf) {
  const others = item.actorCount - 1;
  const did = deed(item, nameOf);
  if (others < 1) return ` ${did}`;
  return ` and ${others} ${others === 1 ? "other" : "others"} ${did.replace("follows", "follow").replace("asks", "ask")}`;
}

function deed({ type, comment, mentioned }, nameOf) {
  if (type === "mention" && mentioned) return `mentioned ${nameOf(mentioned)}`; // somebody whom the reader follows
  if (type === "like" && comment) return "liked your comment";
  return SAYS[type];
}
