/** Parts that show a user: picture, name, a row of a list, the follow button. */

import { attempt } from "./acting.js";
import { button, h, inline } from "./dom.js";
import { session } from "./session.js";

/** A user's picture, or without one the first letter of their name on a colour that their id gives. */
export function avatar(person, size = "") {
  const classes = `avatar ${size}`;
  const letter = [...nameOf(person)][0].toUpperCase();
  const drawn = h("span", { class: `${classes} hue${Number(BigInt(person.id) % 6n)}`, "aria-hidden": "true" }, letter);
  if (!person.avatarUrl) return drawn;
  const src = session.kith.fileUrl(person.avatarUrl);
  const onerror = () => picture.replaceWith(drawn);
  const picture = h("img", { src, onerror, alt: "", class: classes, loading: "lazy", decoding: "async", width: 44, height: 44 });
  return picture;
}

/** A user's name; an account without a name is shown by its id. */
export function nameOf(person) {
  return inline(person.displayName ?? "").trim() || person.username || `User ${person.id}`;
}

/** A user's name as a link to their profile. */
export function nameLink(person) {
  const verified = person.isVerified && h("span", { class: "verified", title: "Verified", role: "img", "aria-label": "Verified" }, "✓");
  return h("a", { href: `#/user/${person.id}`, class: "name" }, h("bdi", {}, nameOf(person)), verified);
}

/** `@name`, if the user has a username. */
export function handle(person) {
  return person.username ? h("span", { class: "handle" }, `@${person.username}`) : null;
}

/** A row of a list of users. `how`: the signed-in user's relation to them; `beside`: element at the end of the row. */
export function personRow(person, how, ...beside) {
  const follow = how && person.id !== session.user && !how.blocking ? followButton(person, how) : null;
  return h(
    "article",
    { class: "person", "aria-label": nameOf(person) },
    avatar(person),
    h("div", { class: "grow" }, h("div", { class: "row" }, nameLink(person), handle(person)), person.note && h("p", { class: "note" }, person.note)),
    ...beside,
    follow,
  );
}

/** A button that follows and unfollows; a private account gets a follow request. */
export function followButton(person, how) {
  const name = nameOf(person);
  let state = how.following ? "following" : how.requested ? "requested" : "none";
  const shown = { following: "Following", requested: "Requested", none: how.followedBy ? "Follow back" : "Follow" };
  const one = button("", toggle);
  const show = (next) => {
    state = next;
    one.textContent = shown[state];
    one.className = state === "none" ? "main" : "";
    one.ariaPressed = String(state !== "none");
    one.ariaLabel = `${shown[state]}: ${name}`;
  };
  show(state);

  async function toggle() {
    const [before, follows] = [state, state === "none"];
    let answer;
    const held = await attempt({
      key: `follow ${person.id}`,
      apply: () => show(!follows ? "none" : person.private ? "requested" : "following"),
      send: async () => (answer = await (follows ? session.kith.follow(person.id) : session.kith.unfollow(person.id))),
      undo: () => show(before),
      what: `${name} is as before.`,
    });
    if (held && follows && state !== "none") show(answer.following ? "following" : "requested");
  }
  return one;
}

/** Turn a page of ids into a page of rows: profiles, and the signed-in user's relations to them. */
export async function withPeople(page) {
  const ids = page.items.map(({ id }) => id);
  if (ids.length === 0) return page;
  const [users, ways] = await Promise.all([session.kith.lookupUsers(ids), session.kith.relationships(ids)]);
  const rows = page.items.map((item, at) => users[at] && { ...item, id: item.id, person: users[at], how: ways[at] });
  return { ...page, items: rows.filter(Boolean) };
}
