/** A store of the posts on the screen. A post is held once, however many lists and dialogs show it; all see its changes. */

const posts = new Map();
/** Dispatches `change` with the post's id as `detail`; `postOf` is null if the user may no longer see the post. */
export const postEvents = new EventTarget();

/** Store a post as the server sent it. */
export function keep(post) {
  const known = posts.has(post.id);
  posts.set(post.id, post);
  if (known) tell(post.id);
  return post;
}

/** The current post; null if it is gone, undefined if it was never loaded. */
export function postOf(id) {
  return posts.get(id);
}

/** Change some fields of a post; fields of `engagement` are merged. */
export function change(id, { engagement, ...fields }) {
  const post = posts.get(id);
  if (!post) return;
  posts.set(id, { ...post, ...fields, engagement: { ...post.engagement, ...engagement } });
  tell(id);
}

/** Mark a post as gone for the user: deleted, hidden, or its author may not be seen. `back` brings it back. */
export function drop(id) {
  const post = posts.get(id);
  if (!post) return () => {};
  posts.set(id, null);
  tell(id);
  return () => keep(post);
}

/** Ids of this author's posts that are shown. */
export function idsOf(author) {
  return [...posts.values()].filter((post) => post?.author.id === author).map((post) => post.id);
}

function tell(id) {
  postEvents.dispatchEvent(new CustomEvent("change", { detail: id }));
}
