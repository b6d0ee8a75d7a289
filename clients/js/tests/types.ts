// Checked by the TypeScript compiler, never run: calls that the types must accept, and calls that they must refuse.

import { type FeedEvent, Kith, KithError, type PostAnswer, intersect, out } from "../index.js";

const kith = new Kith("https://kith.example", { key: async () => "a-token", retry: { tries: 2 } });

export async function rightCalls(): Promise<void> {
  const post = await kith.createPost({ text: "the sea" }, { visibility: "friends", mentions: ["1", 2n], key: "mine" });
  const id: string = post.id;
  for await (const one of kith.asUser(1).followers(id, { limit: 5 })) one.position.length;
  for await (const page of kith.feed({ type: "latest" }).pages()) page.posts satisfies PostAnswer[];
  (await kith.exists("follows", 1, 2)) satisfies boolean;
  (await kith.existsMany("follows", [["1", 2n]])) satisfies boolean[];
  (await kith.lookupPosts(["1"])) satisfies (PostAnswer | null)[];
  (await kith.selectCount(intersect(out("follows", 1)))) satisfies number;
  (await kith.deletePost(1)) satisfies void;
  await kith.putUser(1, { bio: null, private: true });
  await kith.editPost("1", { content: { text: "x" }, location: null, signal: AbortSignal.timeout(5) });
  await kith.uploadMedia(new Blob([]), { altText: "x", onProgress: ({ loaded, total }) => loaded / total });
  await kith.putLabels("post", "1", ["hide"], { reason: "x" });
}

export async function wrongCalls(): Promise<void> {
  // @ts-expect-error: a misspelt option
  await kith.createPost({ text: "the sea" }, { visiblity: "friends" });
  // @ts-expect-error: no such label
  await kith.putLabels("post", "1", ["nothing"]);
  // @ts-expect-error: an argument is missing
  await kith.createComment("1");
}

export function preview(event: FeedEvent): string {
  switch (event.type) {
    case "new_post":
    case "post_updated":
      return event.preview;
    case "notification":
      return event.postId ?? event.notificationId;
    case "unread":
      return event.count.toLocaleString();
    case "reset":
      return event.reason;
    default:
      return event.postId;
  }
}

export function isTaken(error: unknown): boolean {
  return error instanceof KithError && error.code === "USERNAME_TAKEN" && error.status === 409;
}
