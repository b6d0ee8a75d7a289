/** The posts on the screen, each once, however many lists and windows show it: a change is told to all of them. */

const posts = new Map();
/** `change` with the post's id as `detail`; the post is null where it is gone for the reader. */
export const postEvents = new EventTarget();

/** Take what the server answered. */
export function keep(post) {
  const known = posts.has(post.id);
  posts.set(post.id, post);
  if (known) tell(post.id);
  return post;
}

/** The post as it is now; null where it is gone, undefined where it was never seen. */
export function postOf(id) {
  return posts.get(id);
}

/** Change some fields of a post; those of `engagement` are merged. */
export function change(id, { engagement, ...fields }) {
  const post = posts.get(id);
  if (!post) return;
  posts.set(id, { ...post, ...fields, engagement: { ...post.engagement, ...engagement } });
  tell(id);
}

/** It is gone for the reader: deleted, hidden, or its author may not be seen. `back` brings it back. */
export function drop(id) {
  const post = posts.get(id);
  if (!post) return () => {};
  posts.set(id, null);
  tell(id);
  return () => keep(post);
}

/** Posts of this author that are shown. */
export function idsOf(author) {
  return [...posts.values()].filter((post) => post?.author.id === author).map((post) => post.id);
}

function tell(id) {
  postEvents.dispatchEvent(new CustomEvent("change", { detail: id }));
}
