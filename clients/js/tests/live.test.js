/**
 * Every operation against a real server, which pytest starts (tests/e2e/test_js_client.py). Without one it is skipped.
 *
 * KITH_URL, KITH_KEY: the server. KITH_TOKENS: two user tokens of user 1, the first of them expired. KITH_PICTURE: a file.
 */

import assert from "node:assert/strict";
import { openAsBlob } from "node:fs";
import { after, before, test } from "node:test";

import { Kith, difference, in_, intersect, out, union } from "../index.js";
import { OPERATIONS } from "../src/operations.js";

const { KITH_URL: url, KITH_KEY: key, KITH_TOKENS: tokens, KITH_PICTURE: picture } = process.env;
const skip = url ? false : "no server: KITH_URL is not set; pytest sets it";
/** Users that the examples of README.md, which run concurrently, do not use. */
const [ALICE, BOB, CAROL, DANA] = ["101", "102", "103", "104"];

const asked = new Set();
const noting = (address, request = {}) => {
  asked.add(`${request.method ?? "GET"} ${new URL(address).pathname}`);
  return fetch(address, request);
};
let kith, alice, bob, carol;

before(() => {
  if (skip) return;
  kith = new Kith(url, { key, fetch: noting });
  [alice, bob, carol] = [ALICE, BOB, CAROL].map((user) => kith.asUser(user));
});

async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

const idsOf = (items) => items.map((item) => item.id);
const live = (name, run) => test(name, { skip }, run);

live("health", async () => {
  assert.deepEqual([await kith.isAlive(), await kith.isReady()], [true, true]);
});

live("profiles", async () => {
  const ann = await kith.putUser(ALICE, { username: "ann", displayName: "Ann", attributes: { city: "Paris" } });
  assert.equal(ann.displayName, "Ann");
  assert.equal((await alice.patchUser(ALICE, { bio: "I paint" })).bio, "I paint");
  assert.equal((await bob.userByUsername("ANN")).id, ALICE);
  assert.equal((await bob.user(ALICE)).attributes.city, "Paris");
  assert.deepEqual(
    (await bob.lookupUsers([ALICE, "999"])).map((user) => user?.username),
    ["ann", null],
  );
  await assert.rejects(kith.putUser(BOB, { username: "Ann" }), { code: "USERNAME_TAKEN", status: 409 });
});

live("follows, and their lists and counts", async () => {
  for (const user of [bob, carol]) assert.equal((await user.follow(ALICE)).following, true);
  await alice.follow(BOB);
  assert.equal((await bob.follow(ALICE)).changed, false);
  assert.deepEqual(idsOf(await all(kith.followers(ALICE, { limit: 1 }))), [CAROL, BOB]);
  assert.deepEqual(idsOf((await kith.followersPage(ALICE, { limit: 1 })).items), [CAROL]);
  assert.deepEqual(idsOf(await all(kith.following(ALICE))), [BOB]);
  assert.deepEqual(idsOf(await all(kith.friends(ALICE))), [BOB]);
  assert.deepEqual(idsOf(await all(kith.followers(ALICE, { sort: "name", limit: 1 }))), [BOB, CAROL]);
  assert.ok(idsOf(await all(kith.searchUsers({ q: "ann" }))).includes(ALICE));
  const nextYear = new Date(Date.now() + 365 * 86_400_000).toISOString();
  assert.equal((await bob.follow(ALICE, { expiresAt: nextYear })).changed, true);
  assert.equal(Date.parse((await kith.edge("follows", BOB, ALICE)).expiresAt), Date.parse(nextYear));
  assert.deepEqual(idsOf(await all(kith.mutuals(BOB, CAROL))), [ALICE]);
  assert.deepEqual(idsOf(await all(bob.followersYouKnow(CAROL))), []);
  const [relation] = await bob.relationships([ALICE]);
  assert.deepEqual([relation.following, relation.followedBy], [true, true]);
  assert.equal((await alice.removeFollower(CAROL)).changed, true);
  assert.equal((await carol.unfollow(ALICE)).changed, false);
});

live("follow requests to a private account", async () => {
  await kith.putUser(DANA, { private: true });
  const dana = kith.asUser(DANA);
  for (const user of [bob, carol]) assert.equal((await user.follow(DANA)).requested, true);
  assert.deepEqual(idsOf(await all(dana.followRequests())), [CAROL, BOB]);
  await dana.acceptFollowRequest(BOB);
  await dana.declineFollowRequest(CAROL);
  assert.deepEqual(idsOf(await all(dana.followers(DANA))), [BOB]);
  assert.equal((await kith.asSystem().user(DANA)).private, true);
});

live("blocks and mutes", async () => {
  await carol.block(BOB);
  await carol.mute(DANA);
  assert.deepEqual([idsOf(await all(carol.blocked(CAROL))), idsOf(await all(carol.muted(CAROL)))], [[BOB], [DANA]]);
  await assert.rejects(bob.follow(CAROL), { code: "FORBIDDEN" });
  assert.deepEqual([(await carol.unblock(BOB)).blocking, (await carol.unmute(DANA)).muting], [false, false]);
});

live("suggestions", async () => {
  await carol.follow(BOB);
  assert.ok(idsOf(await all(carol.suggestions(CAROL))).includes(ALICE));
  assert.equal((await carol.hideSuggestion(ALICE)).hidden, true);
  assert.equal((await carol.unhideSuggestion(ALICE)).hidden, false);
});

live("graphs of any name, and set programs", async () => {
  const edges = [BOB, CAROL, DANA].map((destination) => ({
    op: "add",
    source: ALICE,
    destination,
    position: 2n ** 60n,
  }));
  assert.equal((await kith.writeEdges("badges", edges)).applied, 3);
  assert.equal((await kith.edge("badges", ALICE, BOB)).position, String(2n ** 60n));
  assert.deepEqual([await kith.exists("badges", ALICE, BOB), await kith.exists("badges", BOB, ALICE)], [true, false]);
  assert.deepEqual(
    await kith.existsMany("badges", [
      [ALICE, DANA],
      [DANA, ALICE],
    ]),
    [true, false],
  );
  assert.deepEqual(idsOf(await all(kith.edgesOut("badges", ALICE, { limit: 2 }))), [DANA, CAROL, BOB]);
  assert.deepEqual(idsOf(await all(kith.edgesIn("badges", DANA))), [ALICE]);
  assert.deepEqual([await kith.countOut("badges", ALICE), await kith.countIn("badges", DANA)], [3, 1]);
  const ours = out("badges", ALICE);
  const program = union(intersect(ours, in_("follows", ALICE)), difference(ours, out("follows", ALICE)));
  assert.deepEqual(idsOf(await all(kith.select(program, { limit: 1 }))), [DANA, CAROL, BOB]);
  assert.equal(await kith.selectCount(program), 3);
});

live("posts, likes, saves and shares", async () => {
  const made = await alice.createPost(
    { text: "the sea" },
    { mentions: [BOB], location: { latitude: 48.86, longitude: 2.35 } },
  );
  const { id } = made;
  assert.equal((await bob.post(id)).content.text, "the sea");
  assert.equal((await alice.editPost(id, { content: { text: "the sea, again" }, location: null })).location, null);
  assert.deepEqual(
    (await bob.lookupPosts([id, "5"])).map((post) => post?.id),
    [id, undefined],
  );
  assert.deepEqual(idsOf(await all(bob.userPosts(ALICE))), [id]);
  assert.deepEqual(idsOf(await all(bob.mentions(BOB))), [id]);
  assert.equal((await bob.likePost(id)).likeCount, 1);
  assert.deepEqual(idsOf(await all(bob.postLikes(id))), [BOB]);
  assert.equal((await bob.savePost(id)).saved, true);
  assert.deepEqual(idsOf(await all(bob.savedPosts(BOB))), [id]);
  assert.equal((await bob.sharePost(id)).shareCount, 1);
  assert.equal((await bob.viewPost(id)).viewCount, 1);
  assert.equal((await bob.viewPosts([id]))[0].viewCount, 1);
  assert.equal((await bob.hidePost(id)).hidden, true);
  assert.equal((await bob.unhidePost(id)).hidden, false);
  assert.equal((await bob.unlikePost(id)).liked, false);
  assert.equal((await bob.unsavePost(id)).saved, false);
  assert.equal((await bob.unsharePost(id)).shared, false);
  assert.equal(await alice.deletePost(id), undefined);
  await assert.rejects(bob.post(id), { code: "POST_NOT_FOUND", status: 404 });
});

live("one idempotency key makes one post", async () => {
  const posts = [
    await alice.createPost({ text: "once" }, { key: "k1" }),
    await alice.createPost({ text: "once" }, { key: "k1" }),
  ];
  assert.equal(posts[0].id, posts[1].id);
  await assert.rejects(alice.createPost({ text: "twice" }, { key: "k1" }), { code: "IDEMPOTENCY_KEY_REUSED" });
});

live("comments", async () => {
  const { id: post } = await alice.createPost({ text: "where?" });
  const comment = await bob.createComment(post, "in Brittany");
  const reply = await alice.createComment(post, "so it is", { replyTo: comment.id });
  assert.equal((await alice.likeComment(comment.id)).likeCount, 1);
  assert.deepEqual(idsOf(await all(bob.postComments(post, { sort: "top" }))), [comment.id]);
  assert.deepEqual(idsOf(await all(bob.commentReplies(comment.id))), [reply.id]);
  assert.equal((await alice.unlikeComment(comment.id)).likeCount, 0);
  assert.equal(await bob.deleteComment(comment.id), undefined);
});

live("home, and the explanation of a rank", async () => {
  const { id } = await alice.createPost({ text: "a quiet river" });
  const home = await all(bob.feed({ type: "latest", limit: 1 }));
  assert.equal(home[0].id, id);
  assert.equal((await bob.feedPage({ requestId: "of-the-test" })).meta.requestId, "of-the-test");
  assert.ok((await bob.whyPost(id)).parts.length > 0);
  assert.deepEqual([(await bob.seeFewer(ALICE)).fewer, (await bob.seeAsBefore(ALICE)).fewer], [true, false]);
});

live("stories", async () => {
  const { id } = await alice.createStory({ text: "look" }, { visibility: "public" });
  assert.deepEqual(idsOf(await all(bob.storyStrip())), [ALICE]);
  assert.deepEqual(idsOf(await all(bob.userStories(ALICE))), [id]);
  assert.equal((await bob.viewStory(id)).viewed, true);
  assert.equal((await bob.story(id)).seen, true);
  assert.deepEqual(idsOf(await all(alice.storyViewers(id))), [BOB]);
  assert.equal(await alice.deleteStory(id), undefined);
});

live("boards", async () => {
  const [OWNER, FAN] = ["111", "112"];
  const [owner, fan] = [OWNER, FAN].map((user) => kith.asUser(user));
  const { id } = await owner.createBoard("Recipes");
  assert.equal((await fan.followBoard(id)).following, true);
  assert.deepEqual(idsOf(await all(fan.boardFollowers(id))), [FAN]);
  assert.equal(await fan.countBoardFollowers(id), 1);
  assert.deepEqual(idsOf(await all(fan.boardsFollowed(FAN))), [id]);
  assert.deepEqual(idsOf(await all(fan.boardsUnfollowed(FAN))), []);
  assert.deepEqual(idsOf(await all(fan.implicitFollowing(FAN))), [OWNER]);
  assert.deepEqual(idsOf(await all(owner.implicitFollowers(OWNER))), [FAN]);
  assert.equal((await fan.interests(FAN)).boardsFollowed, 1);
  const checked = await fan.checkBoards({ users: [OWNER], boards: [id] });
  assert.deepEqual([checked.users[0].kind, checked.boards[0].kind], ["implicit", "explicit"]);
  assert.deepEqual(await fan.followsBoard(id), checked.boards[0]);
  assert.equal((await fan.unfollowBoard(id)).following, false);
  const post = await owner.createPost({ text: "soup" });
  assert.equal((await owner.pinPost(id, post.id)).pinned, true);
  assert.deepEqual(idsOf(await all(fan.boardPins(id))), [post.id]);
  assert.equal((await owner.unpinPost(id, post.id)).pinned, false);
  assert.equal((await owner.inviteCollaborator(id, FAN)).member, true);
  assert.deepEqual(idsOf(await all(owner.boardCollaborators(id))), [FAN]);
  assert.deepEqual(idsOf(await all(fan.collaborations(FAN))), [id]);
  assert.equal((await owner.editBoard(id, { name: "Soups" })).name, "Soups");
  const other = await owner.createBoard("Stews", { secret: false });
  assert.equal((await owner.mergeBoard(other.id, id)).id, id);
  assert.equal((await owner.moveBoard(id, FAN)).owner.id, FAN);
  assert.equal((await owner.board(id)).name, "Soups");
  assert.deepEqual(idsOf(await all(owner.userBoards(FAN))), [id]);
  await fan.inviteCollaborator(id, OWNER);
  assert.equal((await owner.dismissCollaborator(id, OWNER)).member, false);
  assert.equal(await fan.deleteBoard(id), undefined);
});

live("pictures", async () => {
  const sent = [];
  const media = await alice.uploadMedia(await openAsBlob(picture), {
    altText: "a fox",
    onProgress: (at) => sent.push(at),
  });
  assert.equal(media.altText, "a fox");
  assert.equal(sent.at(-1).loaded, sent.at(-1).total);
  assert.equal((await fetch(alice.fileUrl(media.url))).status, 200);
  assert.equal((await alice.editMedia(media.id, "a red fox")).altText, "a red fox");
  assert.equal((await alice.media(media.id)).altText, "a red fox");
  const post = await alice.createPost({ mediaIds: [media.id] });
  assert.equal(post.content.media[0].id, media.id);
  assert.equal(await alice.deleteMedia(media.id), undefined);
  await assert.rejects(alice.uploadMedia(new TextEncoder().encode("no picture")), { code: "INVALID_CONTENT" });
});

live("labels", async () => {
  const { id } = await alice.createPost({ text: "a fight" });
  await kith.putLabels("post", id, ["sensitive"], { reason: "blood" });
  assert.equal((await kith.labels("post", id)).reason, "blood");
  assert.deepEqual((await bob.post(id)).labels, ["sensitive"]);
  assert.deepEqual((await kith.deleteLabels("post", id)).labels, []);
});

live("webhooks", async () => {
  const made = await kith.createWebhook("https://app.example/hook", { kinds: ["edge"] });
  assert.match(made.secret, /^whsec_/);
  assert.deepEqual(idsOf(await kith.webhooks()), [made.id]);
  const { secret, ...shown } = made;
  assert.deepEqual(Object.keys(await kith.webhook(made.id)).sort(), Object.keys(shown).sort());
  assert.deepEqual(await kith.webhookDeadLetters(made.id), { letters: [], count: 0 });
  assert.equal(await kith.replayWebhook(made.id), 0);
  await kith.deleteWebhook(made.id);
  await assert.rejects(kith.webhook(made.id), { code: "WEBHOOK_NOT_FOUND" });
});

live("accounts are deactivated, reactivated and removed", async () => {
  await kith.asUser(109).follow(ALICE);
  for (const change of ["deactivateUser", "reactivateUser", "deleteUser"]) {
    let job = await kith[change](109);
    while (!job.done) job = await kith.job(job.id);
    assert.equal(job.user, "109");
  }
});

live("a stream sends events, and resumes after the last one", async () => {
  let opened;
  const open = new Promise((resolve) => (opened = resolve));
  const stream = bob.feedStream({ onConnection: opened });
  const told = stream[Symbol.asyncIterator]().next();
  await open;
  const { id } = await alice.createPost({ text: "as it happens" });
  const { value } = await told;
  assert.deepEqual([value.type, value.postId, value.preview], ["new_post", id, "as it happens"]);
  stream.close();
  const { id: missed } = await alice.createPost({ text: "meanwhile" });
  for await (const event of bob.feedStream({ after: value.eventId })) {
    if (event.type !== "new_post") continue;
    assert.equal(event.postId, missed);
    break;
  }
});

live("notifications", async () => {
  const { eventId, accepted } = await kith.reportMention("js-1", CAROL, ALICE);
  assert.deepEqual([eventId, accepted], ["js-1", true]);
  const told = await all(alice.notifications({ grouped: false }));
  const mention = told.find((one) => one.type === "mention" && one.post === null);
  assert.deepEqual([mention.read, mention.actors.map((actor) => actor.id)], [false, [CAROL]]);
  const { count } = await alice.unreadNotifications();
  assert.equal((await alice.markRead({ ids: mention.ids })).unread, count - 1);
  assert.equal((await alice.markSeen({ upTo: told[0].id })).unread, count - 1);
  assert.equal((await alice.preferences()).mentions, "me");
  assert.deepEqual((await alice.putPreferences({ off: ["share"] })).off, ["share"]);
});

live("devices", async () => {
  const found = await alice.devices();
  assert.deepEqual([found.devices, found.kinds, found.applicationServerKey], [[], [], null]);
  await assert.rejects(alice.addDevice("fcm", { token: "x".repeat(30) }), { code: "INVALID_REQUEST" });
  await assert.rejects(alice.device("7"), { code: "DEVICE_NOT_FOUND" });
  await assert.rejects(alice.deleteDevice("7"), { code: "DEVICE_NOT_FOUND" });
});

live("watch sends every change, and resumes after the last one", async () => {
  const asked = { kinds: ["post"], nodes: [ALICE] };
  let opened;
  const open = new Promise((resolve) => (opened = resolve));
  const stream = kith.watch({ ...asked, onConnection: opened });
  const told = stream[Symbol.asyncIterator]().next();
  await open;
  const { id } = await alice.createPost({ text: "for those who watch" });
  const { value } = await told;
  assert.deepEqual([value.kind, value.id, value.text], ["post", id, "for those who watch"]);
  stream.close();
  const { id: missed } = await alice.createPost({ text: "meanwhile" });
  for await (const change of kith.watch({ ...asked, after: value.token })) {
    assert.equal(change.id, missed);
    break;
  }
});

live("an expired user token is renewed during a call", async () => {
  const [expired, good] = tokens.split(",");
  const keys = [expired, good];
  const own = new Kith(url, { key: () => keys.shift(), fetch: noting });
  assert.equal((await own.user(ALICE)).id, ALICE);
  await assert.rejects(new Kith(url, { key: expired }).user(ALICE), { code: "UNAUTHORIZED", status: 401 });
});

after(() => {
  if (skip) return;
  const missing = Object.entries(OPERATIONS).filter(([, { verb, path }]) => {
    const pattern = new RegExp(`^${verb} ${path.replace(/{\w+}/g, "\\d+").replace(/<\w+>/g, "[\\w-]+")}$`);
    return ![...asked].some((one) => pattern.test(one));
  });
  assert.deepEqual(
    missing.map(([name]) => name),
    [],
    "operations that no test called",
  );
});
