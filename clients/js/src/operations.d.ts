// Made by generate.py from the OpenAPI document; change that, not this.

import type { CallOptions, Int64, Listing, Many, Program, UploadFile, UploadOptions } from "../index.js";

/** A method for every operation of the API. */
export interface Operations {
  /**
   * Whether an edge exists.
   *
   * The follow check. A missing or removed edge answers false, never an error. A user token also gets false if
   * the app hides the account at the other end.
   */
  exists(graph: string, source: Int64, destination: Int64, options?: CallOptions): Promise<Exists["exists"]>;
  /**
   * Check up to 1,000 pairs.
   *
   * One answer per pair, in the order of the request.
   */
  existsMany(graph: string, pairs: Many<[Int64, Int64]>, options?: CallOptions): Promise<ExistMany["exists"]>;
  /**
   * Write up to 1,000 edges.
   *
   * For server keys only. With `updatedAt` the write is idempotent and commutative: any order and any repetition
   * give the same result.
   *
   * Use it for graphs of users (follows, blocks, mutes...) and for your own graphs. Graphs of posts, comments and
   * stories are written by their own routes. If one edge is refused, none is written, and the message names the
   * refused edge: `$.edges[2]`. Only your own graphs may have an edge from a node to itself; others answer
   * SELF_EDGE.
   */
  writeEdges(graph: string, edges: Many<EdgeRequest>, options?: CallOptions): Promise<EdgesWritten>;
  /**
   * The stored edge, in any state.
   *
   * 404 if the edge never existed. User tokens also get 404 for an edge that is not live.
   */
  edge(graph: string, source: Int64, destination: Int64, options?: CallOptions): Promise<EdgeAnswer>;
  /**
   * Destinations, newest first.
   *
   * The nodes that this node's edges point to. A range of positions costs the same anywhere in the list. For user
   * tokens a page leaves out accounts that the app hides.
   */
  edgesOut(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Destinations, newest first.
   *
   * The nodes that this node's edges point to. A range of positions costs the same anywhere in the list. For user
   * tokens a page leaves out accounts that the app hides.
   */
  edgesOutPage(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Promise<ListAnswer>;
  /**
   * Sources, newest first.
   *
   * The nodes whose edges point to this node. A range of positions costs the same anywhere in the list. For user
   * tokens a page leaves out accounts that the app hides.
   */
  edgesIn(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Sources, newest first.
   *
   * The nodes whose edges point to this node. A range of positions costs the same anywhere in the list. For user
   * tokens a page leaves out accounts that the app hides.
   */
  edgesInPage(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Promise<ListAnswer>;
  /**
   * How many destinations.
   *
   * Exact, in constant time. Counts accounts that the app hides too, although the list leaves them out.
   */
  countOut(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed" } & CallOptions): Promise<CountAnswer["count"]>;
  /**
   * How many sources.
   *
   * Exact, in constant time. Counts accounts that the app hides too, although the list leaves them out.
   */
  countIn(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed" } & CallOptions): Promise<CountAnswer["count"]>;
  /**
   * A page of a set program.
   *
   * Ids in descending order. A program is an operator over other programs, or a list. The operators:
   * `{"union": [P, ...]}`, `{"intersect": [P, ...]}` and `{"difference": [P, ...]}`. A list:
   * `{"graph", "node", "direction": "out" or "in", "states"?}`.
   *
   * `partial`: few of the many ids that were checked are members, so this page has fewer than `limit` ids or none.
   * Continue with `nextCursor`.
   */
  select(program: Program, options?: Omit<SelectRequest, "program"> & CallOptions): Listing<IdItem, SetAnswer>;
  /**
   * A page of a set program.
   *
   * Ids in descending order. A program is an operator over other programs, or a list. The operators:
   * `{"union": [P, ...]}`, `{"intersect": [P, ...]}` and `{"difference": [P, ...]}`. A list:
   * `{"graph", "node", "direction": "out" or "in", "states"?}`.
   *
   * `partial`: few of the many ids that were checked are members, so this page has fewer than `limit` ids or none.
   * Continue with `nextCursor`.
   */
  selectPage(program: Program, options?: Omit<SelectRequest, "program"> & CallOptions): Promise<SetAnswer>;
  /**
   * How many members a set program has.
   *
   * Exact. Counting a single list is free; a set costs as much as its smallest parts. The count includes accounts
   * that the app hides, although a page leaves them out.
   */
  selectCount(program: Program, options?: CallOptions): Promise<CountAnswer["count"]>;
  /**
   * Follow a user.
   *
   * A private account gets a request instead, and the answer says `requested`. `expiresAt` ends the follow at
   * that time, in every list and count. The last request wins: following again without `expiresAt` makes the follow
   * permanent. Otherwise repeating it changes nothing.
   */
  follow(user: Int64, options?: FollowRequest & CallOptions): Promise<Followed>;
  /**
   * Unfollow a user.
   *
   * Also withdraws a follow request.
   */
  unfollow(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * Remove a follower.
   *
   * The user stops following the acting user. They may follow again.
   */
  removeFollower(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * Block a user.
   *
   * Removes follows in both directions and prevents new ones.
   */
  block(user: Int64, options?: CallOptions): Promise<Blocked>;
  /**
   * Unblock a user.
   *
   * Does not restore the follows that the block removed.
   */
  unblock(user: Int64, options?: CallOptions): Promise<Blocked>;
  /**
   * Mute a user.
   *
   * Hides the user from the acting user only.
   */
  mute(user: Int64, options?: CallOptions): Promise<Muted>;
  /**
   * Unmute a user.
   *
   * Undo mute.
   */
  unmute(user: Int64, options?: CallOptions): Promise<Muted>;
  /**
   * See fewer posts of a user.
   *
   * Ranks their posts lower in the acting user's feed. The effect fades over some months; repeating it starts it
   * again at full strength.
   */
  seeFewer(user: Int64, options?: CallOptions): Promise<FewerAnswer>;
  /**
   * Undo seeing fewer posts of a user.
   *
   * Repeating it changes nothing.
   */
  seeAsBefore(user: Int64, options?: CallOptions): Promise<FewerAnswer>;
  /**
   * Follow requests to the acting user.
   *
   * Newest first. Accounts that the app hides are left out; their requests wait until the app shows them
   * again.
   */
  followRequests(options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Follow requests to the acting user.
   *
   * Newest first. Accounts that the app hides are left out; their requests wait until the app shows them
   * again.
   */
  followRequestsPage(options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Accept a request.
   *
   * The user follows the acting user from now on. 409 `REQUESTER_LIMIT_REACHED` if they already follow the
   * maximum; their request is kept.
   */
  acceptFollowRequest(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * Decline a request.
   *
   * The user may ask again.
   */
  declineFollowRequest(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * The acting user's relationship to many targets.
   *
   * One call returns all that the buttons in a list of profiles need.
   */
  relationships(targets: Many<Int64>, options?: CallOptions): Promise<RelationshipsAnswer["relationships"]>;
  /**
   * Whom a user follows.
   *
   * Newest first, or sorted by name with `sort` or `q`.
   */
  following(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Whom a user follows.
   *
   * Newest first, or sorted by name with `sort` or `q`.
   */
  followingPage(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Who follows a user.
   *
   * Newest first, or sorted by name with `sort` or `q`. A page costs the same at any depth.
   */
  followers(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows a user.
   *
   * Newest first, or sorted by name with `sort` or `q`. A page costs the same at any depth.
   */
  followersPage(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Whom a user blocks.
   *
   * Only the user may read this list. Newest block first. Deactivated accounts are left out until they are
   * reactivated.
   */
  blocked(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Whom a user blocks.
   *
   * Only the user may read this list. Newest block first. Deactivated accounts are left out until they are
   * reactivated.
   */
  blockedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Whom a user mutes.
   *
   * Only the user may read this list. Newest mute first. Deactivated accounts are left out until they are
   * reactivated.
   */
  muted(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Whom a user mutes.
   *
   * Only the user may read this list. Newest mute first. Deactivated accounts are left out until they are
   * reactivated.
   */
  mutedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Who follows and is followed back.
   *
   * Sorted by when the user followed them, newest first, or by name with `sort` or `q`.
   */
  friends(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows and is followed back.
   *
   * Sorted by when the user followed them, newest first, or by name with `sort` or `q`.
   */
  friendsPage(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Whom both follow.
   *
   * Sorted by when the first user followed them, newest first.
   */
  mutuals(user: Int64, other: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Whom both follow.
   *
   * Sorted by when the first user followed them, newest first.
   */
  mutualsPage(user: Int64, other: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Followers of a user whom I follow.
   *
   * Sorted by when the acting user followed them, newest first.
   */
  followersYouKnow(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Followers of a user whom I follow.
   *
   * Sorted by when the acting user followed them, newest first.
   */
  followersYouKnowPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Search people by the beginning of a name.
   *
   * Searches all people whom the caller may see. `q` matches the beginning of the username, of the display name,
   * or of its second or third word, ignoring case. Sorted by name. A page may be short although more follow.
   */
  searchUsers(options?: { q?: string; limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Search people by the beginning of a name.
   *
   * Searches all people whom the caller may see. `q` matches the beginning of the username, of the display name,
   * or of its second or third word, ignoring case. Sorted by name. A page may be short although more follow.
   */
  searchUsersPage(options?: { q?: string; limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Archive all edges of a user.
   *
   * Runs in the background: the user's own lists empty, and the user disappears from the lists of others. An edge
   * is restored once the accounts at both ends are active again.
   */
  deactivateUser(user: Int64, options?: CallOptions): Promise<JobStarted["job"]>;
  /**
   * Restore all edges of a user.
   *
   * Undoes deactivate. Each edge returns to its old position.
   */
  reactivateUser(user: Int64, options?: CallOptions): Promise<JobStarted["job"]>;
  /**
   * Remove all edges of a user.
   *
   * Permanent. The user no longer exists, and their profile is deleted.
   */
  deleteUser(user: Int64, options?: CallOptions): Promise<JobStarted["job"]>;
  /**
   * A user.
   *
   * Profile, state and exact counts. Ids come from your app, so an id that Kith has never seen is an empty user,
   * not an error.
   */
  user(user: Int64, options?: CallOptions): Promise<ProfileAnswer>;
  /**
   * Create or set a user.
   *
   * Sets only the fields that are sent, so it may be called at every login. A user token may set only its own
   * user.
   */
  putUser(user: Int64, options?: ProfileRequest & CallOptions): Promise<ProfileAnswer>;
  /**
   * Change a user.
   *
   * The same as PUT. A user token may change only its own user.
   */
  patchUser(user: Int64, options?: ProfileRequest & CallOptions): Promise<ProfileAnswer>;
  /**
   * The progress of a job.
   *
   * For a server key, or for the user whose edges the job changes. A job is kept for a day after it is done.
   */
  job(job: string, options?: CallOptions): Promise<JobAnswer>;
  /**
   * The user of this name.
   *
   * Spelling does not matter: `Ann` and `ann` are one name. 404 too if the acting user may not see that user.
   */
  userByUsername(username: string, options?: CallOptions): Promise<ProfileAnswer>;
  /**
   * Many users by id.
   *
   * One answer per id, in the order of the request: null where GET would answer an error. At most 100 ids.
   */
  lookupUsers(ids: Many<Int64>, options?: CallOptions): Promise<UsersLookedUp["users"]>;
  /**
   * People a user may know.
   *
   * Only the user, or `X-Kith-User: system`, may read this list.
   *
   * Considers the 500 newest followees, and the 500 newest followees of each; returns up to 1,000 people.
   *
   * Most mutual followees first. The ranking is cached for `suggestions_minutes`; the user's own follows refresh it.
   * Every page leaves out users whom the user follows, blocks, mutes or hides by now, and users who have blocked the
   * user, left, or been hidden by the app's labels.
   */
  suggestions(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<SuggestionItem, SuggestionsAnswer>;
  /**
   * People a user may know.
   *
   * Only the user, or `X-Kith-User: system`, may read this list.
   *
   * Considers the 500 newest followees, and the 500 newest followees of each; returns up to 1,000 people.
   *
   * Most mutual followees first. The ranking is cached for `suggestions_minutes`; the user's own follows refresh it.
   * Every page leaves out users whom the user follows, blocks, mutes or hides by now, and users who have blocked the
   * user, left, or been hidden by the app's labels.
   */
  suggestionsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<SuggestionsAnswer>;
  /**
   * Do not suggest a user.
   *
   * Takes effect at once, for the acting user only. Repeating it changes nothing.
   */
  hideSuggestion(user: Int64, options?: CallOptions): Promise<SuggestionHidden>;
  /**
   * Suggest a user again.
   *
   * Undoes `hide-suggestion`. Repeating it changes nothing.
   */
  unhideSuggestion(user: Int64, options?: CallOptions): Promise<SuggestionHidden>;
  /**
   * Create a post.
   *
   * The post is stored before the answer; it reaches feeds afterwards (`fanoutStatus`).
   */
  createPost(content: ContentRequest, options?: Omit<PostRequest, "content"> & { key?: string } & CallOptions): Promise<PostCreated>;
  /**
   * A post.
   *
   * 404 if the post does not exist, is deleted, or is hidden from the acting user.
   */
  post(post: Int64, options?: CallOptions): Promise<PostAnswer>;
  /**
   * Change a post.
   *
   * Only the author may change a post.
   */
  editPost(post: Int64, options?: PostChange & CallOptions): Promise<PostAnswer>;
  /**
   * Delete a post.
   *
   * Permanent, content included. Only the author may delete a post.
   */
  deletePost(post: Int64, options?: CallOptions): Promise<void>;
  /**
   * Many posts by id.
   *
   * One answer per id, in the order of the request: null where GET would answer 404. At most 100 ids.
   */
  lookupPosts(ids: Many<Int64>, options?: CallOptions): Promise<PostsLookedUp["posts"]>;
  /**
   * The posts of a user.
   *
   * Newest first, without posts that the acting user may not see. If they may see few of very many posts, a page
   * may be short or empty although more follow.
   */
  userPosts(user: Int64, options?: { limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * The posts of a user.
   *
   * Newest first, without posts that the acting user may not see. If they may see few of very many posts, a page
   * may be short or empty although more follow.
   */
  userPostsPage(user: Int64, options?: { limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Promise<PostsAnswer>;
  /**
   * Posts that mention a user.
   *
   * Only the user may read this list. Newest first, without posts that they may not see.
   */
  mentions(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * Posts that mention a user.
   *
   * Only the user may read this list. Newest first, without posts that they may not see.
   */
  mentionsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<PostsAnswer>;
  /**
   * Like a post.
   *
   * Repeating it changes nothing.
   */
  likePost(post: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Remove a like.
   *
   * Repeating it changes nothing.
   */
  unlikePost(post: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Who likes a post.
   *
   * Newest like first, for everyone who may see the post. Users with a block between them and the acting user are
   * left out.
   */
  postLikes(post: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Who likes a post.
   *
   * Newest like first, for everyone who may see the post. Users with a block between them and the acting user are
   * left out.
   */
  postLikesPage(post: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * The posts that a user saved.
   *
   * Only the user may read this list. Newest save first, without posts that they may no longer see.
   */
  savedPosts(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * The posts that a user saved.
   *
   * Only the user may read this list. Newest save first, without posts that they may no longer see.
   */
  savedPostsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<PostsAnswer>;
  /**
   * Save a post.
   *
   * Repeating it changes nothing.
   */
  savePost(post: Int64, options?: CallOptions): Promise<Saved>;
  /**
   * Unsave a post.
   *
   * Repeating it changes nothing.
   */
  unsavePost(post: Int64, options?: CallOptions): Promise<Saved>;
  /**
   * Share a post.
   *
   * Repeating it changes nothing.
   */
  sharePost(post: Int64, options?: CallOptions): Promise<Shared>;
  /**
   * Remove a share.
   *
   * Repeating it changes nothing.
   */
  unsharePost(post: Int64, options?: CallOptions): Promise<Shared>;
  /**
   * Record a view of a post.
   *
   * A user counts once, however often they view the post.
   */
  viewPost(post: Int64, options?: CallOptions): Promise<Viewed>;
  /**
   * Record views of many posts.
   *
   * Marks up to 100 posts, such as a whole page, in one write. One answer per id, in the order of the request:
   * null where the single route would answer 404.
   */
  viewPosts(ids: Many<Int64>, options?: CallOptions): Promise<PostsViewed["posts"]>;
  /**
   * Hide a post from my feed.
   *
   * Repeating it changes nothing.
   */
  hidePost(post: Int64, options?: CallOptions): Promise<Hidden>;
  /**
   * Show a post again.
   *
   * Repeating it changes nothing.
   */
  unhidePost(post: Int64, options?: CallOptions): Promise<Hidden>;
  /**
   * Comment on a post.
   *
   * With `replyTo` it is a reply to another comment of the post. Replies nest at most 100 levels deep.
   */
  createComment(post: Int64, text: string, options?: Omit<CommentRequest, "text"> & { key?: string } & CallOptions): Promise<CommentAnswer>;
  /**
   * The comments on a post.
   *
   * Each comment comes with its first replies. `totalCount` counts every comment that is not `deleted`, also
   * those that the acting user may not see. A page may be short or empty although more follow.
   */
  postComments(post: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Listing<CommentAnswer, CommentsAnswer>;
  /**
   * The comments on a post.
   *
   * Each comment comes with its first replies. `totalCount` counts every comment that is not `deleted`, also
   * those that the acting user may not see. A page may be short or empty although more follow.
   */
  postCommentsPage(post: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Promise<CommentsAnswer>;
  /**
   * The replies to a comment.
   *
   * Sorted as the comments on a post can be.
   */
  commentReplies(comment: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Listing<CommentAnswer, CommentsAnswer>;
  /**
   * The replies to a comment.
   *
   * Sorted as the comments on a post can be.
   */
  commentRepliesPage(comment: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Promise<CommentsAnswer>;
  /**
   * Delete a comment.
   *
   * Permanent. The author of the comment and the author of the post may delete it. A comment with replies stays
   * as a stub, marked `deleted`.
   */
  deleteComment(comment: Int64, options?: CallOptions): Promise<void>;
  /**
   * Like a comment.
   *
   * Repeating it changes nothing.
   */
  likeComment(comment: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Remove a like.
   *
   * Repeating it changes nothing.
   */
  unlikeComment(comment: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Upload a picture or video.
   *
   * JPEG, PNG, GIF, WebP, MP4 or WebM; the type is detected from the bytes. Images are decoded and re-encoded,
   * which removes EXIF and location. Videos lose their metadata. Pictures larger than `media_side_max` are scaled
   * down.
   */
  uploadMedia(file: UploadFile, options?: { altText?: string } & UploadOptions): Promise<MediaAnswer>;
  /**
   * A picture or video of mine.
   *
   * For its owner. Other users see it through posts and profiles.
   */
  media(media: Int64, options?: CallOptions): Promise<MediaAnswer>;
  /**
   * Change the text of a picture or video.
   *
   * Its owner only.
   */
  editMedia(media: Int64, altText: string, options?: CallOptions): Promise<MediaAnswer>;
  /**
   * Delete a picture or video.
   *
   * Permanent, files included. A post keeps its other media. Only the owner may delete it. Repeating it changes
   * nothing.
   */
  deleteMedia(media: Int64, options?: CallOptions): Promise<void>;
  /**
   * The acting user's home.
   *
   * Posts of the users whom the acting user follows, posts pinned on boards that they follow, and their own
   * posts. Each post appears once, however far they scroll.
   *
   * The ranked feed shows unseen posts first, then posts that the user saw before, marked `seen`. A page has at most
   * 2 posts per author while other authors have posts left. Of several copies of a post one is shown; it names the
   * others in `copies`. New posts do not reorder pages that were already read.
   */
  feed(options?: { type?: "latest" | "ranked"; limit?: number; cursor?: string; refresh?: boolean; requestId?: string } & CallOptions): Listing<PostAnswer, FeedAnswer>;
  /**
   * The acting user's home.
   *
   * Posts of the users whom the acting user follows, posts pinned on boards that they follow, and their own
   * posts. Each post appears once, however far they scroll.
   *
   * The ranked feed shows unseen posts first, then posts that the user saw before, marked `seen`. A page has at most
   * 2 posts per author while other authors have posts left. Of several copies of a post one is shown; it names the
   * others in `copies`. New posts do not reorder pages that were already read.
   */
  feedPage(options?: { type?: "latest" | "ranked"; limit?: number; cursor?: string; refresh?: boolean; requestId?: string } & CallOptions): Promise<FeedAnswer>;
  /**
   * Why a post has its place in my home.
   *
   * 404 if the post is hidden from the acting user or does not exist.
   */
  whyPost(post: Int64, options?: CallOptions): Promise<WhyAnswer>;
  /**
   * Create a story.
   *
   * A story is a post that expires after `story_hours`. It appears in no feed and in no list of posts.
   */
  createStory(content: ContentRequest, options?: Omit<StoryRequest, "content"> & { key?: string } & CallOptions): Promise<StoryAnswer>;
  /**
   * The strip of stories for the acting user.
   *
   * One entry per author: the user's own first, then authors with unseen stories, then the rest. Within each part
   * the closest authors come first.
   */
  storyStrip(options?: { limit?: number; cursor?: string } & CallOptions): Listing<StripEntryAnswer, StripAnswer>;
  /**
   * The strip of stories for the acting user.
   *
   * One entry per author: the user's own first, then authors with unseen stories, then the rest. Within each part
   * the closest authors come first.
   */
  storyStripPage(options?: { limit?: number; cursor?: string } & CallOptions): Promise<StripAnswer>;
  /**
   * A story.
   *
   * 404 if the story does not exist, is deleted, has expired, or is hidden from the acting user.
   */
  story(story: Int64, options?: CallOptions): Promise<StoryAnswer>;
  /**
   * Delete a story.
   *
   * Permanent, content included. Only the author may delete a story.
   */
  deleteStory(story: Int64, options?: CallOptions): Promise<void>;
  /**
   * Record a view of a story.
   *
   * Repeating it changes nothing. Authors do not count as viewers of their own stories.
   */
  viewStory(story: Int64, options?: CallOptions): Promise<StoryViewed>;
  /**
   * Who has seen a story.
   *
   * Only the author may read this list. Latest viewer first.
   */
  storyViewers(story: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<ViewerAnswer, ViewersAnswer>;
  /**
   * Who has seen a story.
   *
   * Only the author may read this list. Latest viewer first.
   */
  storyViewersPage(story: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ViewersAnswer>;
  /**
   * The stories of a user.
   *
   * Oldest first, the order in which they are played. Expired stories and stories that the acting user may not
   * see are left out.
   */
  userStories(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<StoryAnswer, StoriesAnswer>;
  /**
   * The stories of a user.
   *
   * Oldest first, the order in which they are played. Expired stories and stories that the acting user may not
   * see are left out.
   */
  userStoriesPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<StoriesAnswer>;
  /**
   * Create a board.
   *
   * Users who follow the owner follow the new board at once, unless it is secret.
   */
  createBoard(name: string, options?: Omit<BoardRequest, "name"> & { key?: string } & CallOptions): Promise<BoardAnswer>;
  /**
   * A board.
   *
   * 404 if the board does not exist, is deleted, or is hidden from the acting user.
   */
  board(board: Int64, options?: CallOptions): Promise<BoardAnswer>;
  /**
   * Change a board.
   *
   * Only its owner may change a board. A board that becomes secret loses its followers.
   */
  editBoard(board: Int64, options?: BoardChange & CallOptions): Promise<BoardAnswer>;
  /**
   * Delete a board.
   *
   * Permanent. Its pins are deleted, the pinned posts are not. Only its owner may delete a board.
   */
  deleteBoard(board: Int64, options?: CallOptions): Promise<void>;
  /**
   * Give a board to a collaborator.
   *
   * Users who follow the board itself keep following it. Users who followed it through the old owner do not. Only
   * its owner may give it away.
   */
  moveBoard(board: Int64, owner: Int64, options?: CallOptions): Promise<BoardAnswer>;
  /**
   * Merge a board into another.
   *
   * Moves pins and followers to another board of the same owner, then deletes this board. When there are very
   * many, some are moved after the answer.
   */
  mergeBoard(board: Int64, into: Int64, options?: CallOptions): Promise<BoardAnswer>;
  /**
   * The boards of a user.
   *
   * Newest first. Secret boards are listed only for their owner and collaborators.
   */
  userBoards(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * The boards of a user.
   *
   * Newest first. Secret boards are listed only for their owner and collaborators.
   */
  userBoardsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * Invite a collaborator.
   *
   * The collaborator sees the board, even if it is secret, and may pin on it. Only the owner may invite.
   */
  inviteCollaborator(board: Int64, user: Int64, options?: CallOptions): Promise<InvitedAnswer>;
  /**
   * Dismiss a collaborator.
   *
   * The owner may dismiss any collaborator; a collaborator may leave. Their pins stay.
   */
  dismissCollaborator(board: Int64, user: Int64, options?: CallOptions): Promise<InvitedAnswer>;
  /**
   * The collaborators of a board.
   *
   * Newest first. Only the owner and the collaborators may read this list.
   */
  boardCollaborators(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * The collaborators of a board.
   *
   * Newest first. Only the owner and the collaborators may read this list.
   */
  boardCollaboratorsPage(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Boards that a user collaborates on.
   *
   * Only the user may read this list. The newest invitation comes first.
   */
  collaborations(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * Boards that a user collaborates on.
   *
   * Only the user may read this list. The newest invitation comes first.
   */
  collaborationsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * Follow a board.
   *
   * If the acting user follows the owner and has unfollowed this board, this undoes the unfollow. Repeating it
   * changes nothing.
   */
  followBoard(board: Int64, options?: CallOptions): Promise<BoardFollowedAnswer>;
  /**
   * Unfollow a board.
   *
   * Also works for a board that is followed through its owner. 409 `NOT_FOLLOWING` for a board that they never
   * followed.
   */
  unfollowBoard(board: Int64, options?: CallOptions): Promise<BoardFollowedAnswer>;
  /**
   * Whether I follow a board.
   *
   * `kind` says how the acting user follows the board. It is `none` too if the board is hidden from them.
   */
  followsBoard(board: Int64, options?: CallOptions): Promise<FollowedKind>;
  /**
   * Which users and boards I follow.
   *
   * At most 25 users and boards together. `kind` is `none` too for a user or board that is hidden from the acting
   * user.
   */
  checkBoards(options?: BoardsCheckRequest & CallOptions): Promise<BoardsChecked>;
  /**
   * Who follows a board.
   *
   * Users who follow the board itself or its owner, newest follow first. A page costs the same at any depth.
   */
  boardFollowers(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows a board.
   *
   * Users who follow the board itself or its owner, newest follow first. A page costs the same at any depth.
   */
  boardFollowersPage(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * How many follow a board.
   *
   * The count is exact.
   */
  countBoardFollowers(board: Int64, options?: CallOptions): Promise<CountAnswer["count"]>;
  /**
   * The boards that a user follows directly.
   *
   * Newest follow first. Boards that the user follows only through their owner are left out.
   */
  boardsFollowed(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * The boards that a user follows directly.
   *
   * Newest follow first. Boards that the user follows only through their owner are left out.
   */
  boardsFollowedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * The boards that a user unfollowed.
   *
   * Boards that the user unfollowed although they follow the owner, newest first. Only the user may read this
   * list.
   */
  boardsUnfollowed(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * The boards that a user unfollowed.
   *
   * Boards that the user unfollowed although they follow the owner, newest first. Only the user may read this
   * list.
   */
  boardsUnfollowedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * Users of whom a user follows only single boards.
   *
   * Newest first. Users whom the user follows as a whole are left out.
   */
  implicitFollowing(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Users of whom a user follows only single boards.
   *
   * Newest first. Users whom the user follows as a whole are left out.
   */
  implicitFollowingPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Users who follow only single boards of a user.
   *
   * Newest first. Users who follow this user as a whole are left out.
   */
  implicitFollowers(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Users who follow only single boards of a user.
   *
   * Newest first. Users who follow this user as a whole are left out.
   */
  implicitFollowersPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Counts of a user's boards and board follows.
   *
   * All counts are exact.
   */
  interests(user: Int64, options?: CallOptions): Promise<InterestsAnswer>;
  /**
   * Pin a post.
   *
   * The owner and collaborators may pin a post, if they may see it. Repeating it changes nothing.
   */
  pinPost(board: Int64, post: Int64, options?: CallOptions): Promise<PinnedAnswer>;
  /**
   * The pins of a board.
   *
   * Newest pin first. Posts that the acting user may not see are left out.
   */
  boardPins(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * The pins of a board.
   *
   * Newest pin first. Posts that the acting user may not see are left out.
   */
  boardPinsPage(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<PostsAnswer>;
  /**
   * Unpin a post.
   *
   * The owner and collaborators may unpin. Repeating it changes nothing.
   */
  unpinPost(board: Int64, post: Int64, options?: CallOptions): Promise<PinnedAnswer>;
  /**
   * The notifications of the acting user.
   *
   * Newest first, kept for 90 days. Leaves out what the user may not see, has muted or does not want, and what
   * was undone. These rules are applied at read time, as everywhere.
   *
   * Likes, shares and follows of one post or person are grouped into one item, with the date and position of the
   * newest.
   */
  notifications(options?: { limit?: number; cursor?: string; grouped?: boolean } & CallOptions): Listing<NotificationAnswer, NotificationsAnswer>;
  /**
   * The notifications of the acting user.
   *
   * Newest first, kept for 90 days. Leaves out what the user may not see, has muted or does not want, and what
   * was undone. These rules are applied at read time, as everywhere.
   *
   * Likes, shares and follows of one post or person are grouped into one item, with the date and position of the
   * newest.
   */
  notificationsPage(options?: { limit?: number; cursor?: string; grouped?: boolean } & CallOptions): Promise<NotificationsAnswer>;
  /**
   * How many notifications are unread.
   *
   * Exactly the notifications that the ungrouped list shows as unread.
   */
  unreadNotifications(options?: CallOptions): Promise<UnreadAnswer>;
  /**
   * Mark notifications as read.
   *
   * `upTo` marks this notification and all older ones. Repeating it changes nothing.
   */
  markRead(options?: MarkRequest & CallOptions): Promise<MarkedAnswer>;
  /**
   * Mark notifications as seen.
   *
   * "Seen" is what a badge counts; it does not mark anything as read. With `ids`, everything up to the newest of
   * them is marked.
   */
  markSeen(options?: MarkRequest & CallOptions): Promise<MarkedAnswer>;
  /**
   * Report a mention from another system.
   *
   * The mention is stored before the answer. Repeating an `eventId` within 24 hours notifies nobody again and
   * gets the same answer.
   */
  reportMention(eventId: string, actor: Int64, mentioned: Int64, options?: Omit<MentionRequest, "eventId" | "actor" | "mentioned"> & CallOptions): Promise<MentionAnswer>;
  /**
   * The notification preferences of the acting user.
   *
   * The defaults, if the user has set none.
   */
  preferences(options?: CallOptions): Promise<PreferencesAnswer>;
  /**
   * Set the notification preferences of the acting user.
   *
   * Lists apply new preferences at once. For up to a minute notifications may still be stored under the old
   * preferences; they are then not shown.
   */
  putPreferences(options?: PreferencesRequest & CallOptions): Promise<PreferencesAnswer>;
  /**
   * Register a device for push notifications.
   *
   * Send this each time the app starts: the same device keeps its id. A device that another user registered
   * before is moved to this user. A user can have at most 20 devices.
   */
  addDevice(kind: "apns" | "fcm" | "webpush", options?: Omit<DeviceRequest, "kind"> & CallOptions): Promise<DeviceAnswer>;
  /**
   * The devices of the acting user.
   *
   * Oldest registration first. Devices that their provider no longer knows are left out.
   */
  devices(options?: CallOptions): Promise<DevicesAnswer>;
  /**
   * A device.
   *
   * `registeredAt` is when the app last registered it.
   */
  device(device: Int64, options?: CallOptions): Promise<DeviceAnswer>;
  /**
   * Unregister a device.
   *
   * Call it when a user logs out. A push that is already on its way may still arrive.
   */
  deleteDevice(device: Int64, options?: CallOptions): Promise<void>;
  /**
   * The labels of a post or a user.
   *
   * Only the object's own labels: a post without labels is still hidden if its author is labelled `hide`.
   */
  labels(kind: "post" | "user", id: Int64, options?: CallOptions): Promise<LabelsAnswer>;
  /**
   * Label a post or a user.
   *
   * Takes effect at once. `hide`: only the app and the author see it. `limit`: the author's followers see it too.
   * `sensitive`: everyone sees it, marked as sensitive. A user's labels apply to all their posts and comments.
   * Repeating it changes nothing.
   */
  putLabels(kind: "post" | "user", id: Int64, labels: Array<"hide" | "limit" | "sensitive">, options?: Omit<LabelsRequest, "labels"> & CallOptions): Promise<LabelsAnswer>;
  /**
   * Remove all labels.
   *
   * Takes effect at once. Repeating it changes nothing.
   */
  deleteLabels(kind: "post" | "user", id: Int64, options?: CallOptions): Promise<LabelsAnswer>;
  /**
   * Have changes sent to a URL.
   *
   * From now on, changes that /watch would send are POSTed to the URL. Deliveries are signed with the secret,
   * arrive at least once and in order per key, and are retried for hours if they fail. Answer 2xx within 15 seconds.
   * The URL must be public; redirects are not followed. docs/webhooks.md shows how to check the signature.
   */
  createWebhook(url: string, options?: Omit<WebhookRequest, "url"> & { key?: string } & CallOptions): Promise<WebhookMade>;
  /**
   * All webhooks.
   *
   * Oldest first.
   */
  webhooks(options?: CallOptions): Promise<WebhooksAnswer["webhooks"]>;
  /**
   * A webhook, and the state of its deliveries.
   *
   * The secret is not returned.
   */
  webhook(webhook: Int64, options?: CallOptions): Promise<WebhookAnswer>;
  /**
   * Delete a webhook.
   *
   * A delivery that is already on its way may still arrive. The webhook's dead letters are deleted.
   */
  deleteWebhook(webhook: Int64, options?: CallOptions): Promise<void>;
  /**
   * Dead letters of a webhook.
   *
   * Deliveries that failed for `webhook_retry_hours` and were given up, so that later changes could be
   * delivered.
   */
  webhookDeadLetters(webhook: Int64, options?: { limit?: number } & CallOptions): Promise<DeadLetters>;
  /**
   * Replay dead letters.
   *
   * Sends every dead letter once, beside new changes, marked `replayed`. Deliveries that fail become dead letters
   * again. `count`: how many are sent.
   */
  replayWebhook(webhook: Int64, options?: CallOptions): Promise<CountAnswer["count"]>;
  /**
   * Is the process alive?
   *
   * Answers as long as the process can answer requests.
   */
  isAlive(options?: CallOptions): Promise<boolean>;
  /**
   * Can the process serve?
   *
   * 503 with the list of problems if it cannot.
   */
  isReady(options?: CallOptions): Promise<boolean>;
}

/** The body of every error. */
export interface ErrorAnswer {
  error: ErrorPart;
}

/** What went wrong: `code` for programs, `message` for people, `details` for both. */
export interface ErrorPart {
  code: string;
  message: string;
  details: Record<string, unknown>;
}

/** Whether the edge exists. */
export interface Exists {
  exists: boolean;
}

/** Pairs of (source, destination). */
export interface CheckRequest {
  pairs: Array<[Int64, Int64]>;
}

/** One answer per pair, in the order of the request. */
export interface ExistMany {
  exists: boolean[];
}

/** Edges to write, in any order. */
export interface EdgesRequest {
  edges: EdgeRequest[];
}

/**
 * One edge to write. Without `position` a live edge keeps its position. Without `updatedAt` the write is dated now.
 *
 * `move` gives a live edge another `position`, so that it moves within its lists; it does nothing if no live edge
 * exists. `expiresAt` removes an added edge at that time. The last write wins: adding the edge again without
 * `expiresAt` makes it permanent.
 */
export interface EdgeRequest {
  op: "add" | "archive" | "move" | "negate" | "remove";
  /** 64-bit id; a string or a number */
  source: Int64;
  /** 64-bit id; a string or a number */
  destination: Int64;
  position?: Int64 | null;
  updatedAt?: Int64 | null;
  expiresAt?: string | null;
}

/** How many edges changed, and the token of the write; the token is null if none changed. */
export interface EdgesWritten {
  applied: number;
  token: string | null;
}

/** A stored edge. `expiresAt`: when it expires, if it does. */
export interface EdgeAnswer {
  source: string;
  destination: string;
  state: string;
  position: string;
  updatedAt: string;
  expiresAt?: string | null;
}

/**
 * A page of a list, newest first. `partial`: the list was too long to sort by name, so only its newest entries
 * were.
 */
export interface ListAnswer {
  items: Item[];
  pagination: Pagination;
  partial?: boolean;
}

/** One entry of a list: the node at the other end of the edge, and its position. */
export interface Item {
  id: string;
  position: string;
}

/** Cursors of the neighbouring pages. `hasMore`: older items exist. `prevCursor`: null unless newer items exist. */
export interface Pagination {
  nextCursor: string | null;
  prevCursor: string | null;
  hasMore: boolean;
}

/** An exact count. */
export interface CountAnswer {
  count: number;
}

/** A set program, and which page of its result to return. */
export interface SelectRequest {
  program: Program;
  limit?: number;
  cursor?: string | null;
}

/**
 * A page of a set program, by id, greatest first. `partial`: the page is short because few of the many ids that
 * were checked are members.
 */
export interface SetAnswer {
  items: IdItem[];
  pagination: Pagination;
  partial?: boolean;
}

/** One member of a set. */
export interface IdItem {
  id: string;
}

/** A set program to count. */
export interface SelectCountRequest {
  program: Program;
}

/** `expiresAt`: when the follow ends; without it, when they are unfollowed. */
export interface FollowRequest {
  expiresAt?: string | null;
}

/** Whether the acting user now follows the target, and whether this request changed that. */
export interface Followed {
  following: boolean;
  changed: boolean;
  token: string | null;
  requested?: boolean;
}

/** Whether the acting user now blocks the target, and whether this request changed that. */
export interface Blocked {
  blocking: boolean;
  changed: boolean;
  token: string | null;
}

/** Whether the acting user now mutes the target, and whether this request changed that. */
export interface Muted {
  muting: boolean;
  changed: boolean;
  token: string | null;
}

/** Whether the acting user sees fewer posts of an author for some months. Nobody else can see it. */
export interface FewerAnswer {
  fewer: boolean;
}

/** The users whose relationship to the acting user is asked for. */
export interface RelationshipsRequest {
  targets: Int64[];
}

/** One row per target, in the order of the request. */
export interface RelationshipsAnswer {
  relationships: RelationshipAnswer[];
}

/** The relationship between the acting user and a target, in both directions. */
export interface RelationshipAnswer {
  id: string;
  following: boolean;
  followedBy: boolean;
  requested: boolean;
  blocking: boolean;
  blockedBy: boolean;
  muting: boolean;
}

/** A page of users, newest first. A page may be short although more follow. */
export interface UsersAnswer {
  items: UserItem[];
  pagination: Pagination;
}

/** A user in a list, with their position in it. */
export interface UserItem {
  id: string;
  position: string;
  user: AuthorAnswer;
}

/** The author of a post, comment or story, or another user. */
export interface AuthorAnswer {
  id: string;
  username: string | null;
  displayName: string;
  avatarUrl: string | null;
  isVerified: boolean;
}

/** The job that was started; poll it at /jobs/{id}. */
export interface JobStarted {
  job: JobAnswer;
}

/** A bulk operation on all edges of a user, running in the background. */
export interface JobAnswer {
  id: string;
  operation: string;
  user: string;
  edges: number;
  done: boolean;
}

/**
 * A user. The counts are exact; `postCount` counts all posts, whoever may see them. `avatar` is the id of an image
 * that the user uploaded. `attributes` are your app's own. `labels` come from the app's moderation: everyone sees
 * `sensitive`, only the user sees `hide` and `limit`.
 */
export interface ProfileAnswer {
  id: string;
  state: string;
  private: boolean;
  followingCount: number;
  followersCount: number;
  postCount: number;
  username: string | null;
  displayName: string;
  bio: string;
  avatar: string | null;
  avatarUrl: string | null;
  isVerified: boolean;
  attributes: Record<string, unknown>;
  labels: string[];
}

/** Ids of objects of one kind, at most 100. */
export interface LookupRequest {
  ids: Int64[];
}

/** One answer per id, in the order of the request. */
export interface UsersLookedUp {
  users: Array<ProfileAnswer | null>;
}

/**
 * The fields to set on a user. Fields that are left out keep their value; null clears a field. `private`: the user
 * must accept each follow request. When a private account becomes public, pending requests become follows.
 *
 * `username` is unique, whatever its spelling; null or "" releases it. `isVerified` needs a server key.
 */
export interface ProfileRequest {
  private?: boolean;
  username?: string | null;
  displayName?: string | null;
  bio?: string | null;
  avatar?: Int64 | null;
  attributes?: Record<string, unknown> | null;
  isVerified?: boolean;
}

/** A page of suggestions, best first. */
export interface SuggestionsAnswer {
  items: SuggestionItem[];
  pagination: Pagination;
  meta: SuggestionsMeta;
}

/**
 * A user to follow. `mutualCount`: how many of the acting user's followees follow them. `mutuals`: up to 3 of
 * these.
 */
export interface SuggestionItem {
  id: string;
  mutualCount: number;
  mutuals: string[];
}

/**
 * What the list was computed from, and when.
 *
 * network: the followees of the user's followees. popular: the network gave nobody, so these are the most followed
 * accounts as of the last `kith suggest`. none: the network gave nobody, and `kith suggest` has never run.
 */
export interface SuggestionsMeta {
  source: "network" | "none" | "popular";
  computedAt: string | null;
}

/**
 * Whether the user is hidden from the acting user's suggestions, and whether this request changed that. Nobody else
 * can see it.
 */
export interface SuggestionHidden {
  hidden: boolean;
  changed: boolean;
  token: string | null;
}

/**
 * A new post. `audience`: the users who may see it if `visibility` is `custom`. `attributes`: any data of
 * your app.
 */
export interface PostRequest {
  content: ContentRequest;
  visibility?: "custom" | "friends" | "private" | "public";
  audience?: Int64[];
  mentions?: Int64[];
  attributes?: Record<string, unknown>;
  allowComments?: boolean;
  allowSharing?: boolean;
  location?: LocationRequest | null;
}

/**
 * The content of a post. `mediaIds`: uploads of the author. `type` is derived from the other fields; if you send
 * it, it must match them.
 */
export interface ContentRequest {
  text?: string;
  type?: "image" | "link" | "text" | "video" | null;
  link?: string | null;
  mediaIds?: Int64[];
}

/** Where a post is from: degrees north and east, and the name of the place. */
export interface LocationRequest {
  latitude: number;
  longitude: number;
  name?: string;
}

/** A post that is stored. `fanoutStatus`: `pending` while it is being delivered to the followers' feeds. */
export interface PostCreated {
  id: string;
  author: AuthorAnswer;
  content: ContentAnswer;
  createdAt: string;
  visibility: "custom" | "friends" | "private" | "public";
  fanoutStatus?: string;
}

/** The content of a post. */
export interface ContentAnswer {
  type: "image" | "link" | "text" | "video";
  text: string;
  link: string | null;
  media: MediaAnswer[];
}

/** A picture or video. Everyone who knows its URL can see it. Videos have no thumbnail. */
export interface MediaAnswer {
  id: string;
  type: "image" | "video";
  url: string;
  thumbnailUrl: string | null;
  width: number;
  height: number;
  altText: string;
}

/**
 * A post. `audience`: for its author only, and only if the visibility is `custom`. `labels` come from
 * the app's moderation: everyone sees `sensitive`, only the author sees `hide` and `limit`.
 *
 * Only in a ranked feed: `ranking`; `seen`, true if the acting user saw the post before; `copies`, the copies of this
 * post that are left out.
 */
export interface PostAnswer {
  id: string;
  author: AuthorAnswer;
  content: ContentAnswer;
  engagement: EngagementAnswer;
  visibility: "custom" | "friends" | "private" | "public";
  audience: string[] | null;
  mentions: string[];
  attributes: Record<string, unknown>;
  allowComments: boolean;
  allowSharing: boolean;
  location: LocationAnswer | null;
  labels: string[];
  createdAt: string;
  editedAt: string | null;
  ranking?: RankingAnswer;
  seen?: boolean;
  copies?: string[];
}

/**
 * The exact counts of a post. `commentCount` counts comments and replies. `isLiked`, `isSaved`: by the
 * acting user.
 */
export interface EngagementAnswer {
  likeCount: number;
  commentCount: number;
  shareCount: number;
  viewCount: number;
  isLiked: boolean;
  isSaved: boolean;
}

/** Where a post is from, in degrees. */
export interface LocationAnswer {
  latitude: number;
  longitude: number;
  name: string;
}

/**
 * A post's score, 0 to 1, and the main reason for it: friend_interaction, recent, popular, content_type or
 * own_post; followed_board if a board brought the post.
 */
export interface RankingAnswer {
  score: number;
  reason: string;
}

/** One answer per id, in the order of the request. */
export interface PostsLookedUp {
  posts: Array<PostAnswer | null>;
}

/**
 * The fields of a post to change. Fields that are left out keep their value; a null `location` removes the
 * location.
 */
export interface PostChange {
  content?: ContentChange;
  visibility?: "custom" | "friends" | "private" | "public";
  audience?: Int64[];
  mentions?: Int64[];
  attributes?: Record<string, unknown>;
  allowComments?: boolean;
  allowSharing?: boolean;
  location?: LocationRequest | null;
}

/** The content to change. Fields that are left out keep their value; null removes the link or the media. */
export interface ContentChange {
  text?: string;
  link?: string | null;
  mediaIds?: Int64[] | null;
}

/** A page of posts, newest first. If there are very many, a page may be short although more follow. */
export interface PostsAnswer {
  items: PostAnswer[];
  pagination: Pagination;
}

/** Whether the acting user likes it, how many users do, and when the acting user's like last changed. */
export interface Liked {
  liked: boolean;
  likeCount: number;
  timestamp: string;
}

/** Whether the acting user has saved it, how many users have, and when the acting user's save last changed. */
export interface Saved {
  saved: boolean;
  saveCount: number;
  timestamp: string;
}

/** Whether the acting user has shared it, how many users have, and when the acting user's share last changed. */
export interface Shared {
  shared: boolean;
  shareCount: number;
  timestamp: string;
}

/** The acting user has seen it; how many users have; when the acting user first did. */
export interface Viewed {
  viewed: boolean;
  viewCount: number;
  timestamp: string;
}

/** One answer per id, in the order of the request. */
export interface PostsViewed {
  posts: Array<Viewed | null>;
}

/** Whether the post is hidden from the acting user's feed, and when that changed. Nobody else can see it. */
export interface Hidden {
  hidden: boolean;
  timestamp: string;
}

/** A new comment. `replyTo`: the comment on the same post that it answers. */
export interface CommentRequest {
  text: string;
  replyTo?: Int64 | null;
}

/**
 * A comment. `replyTo`: the comment that it answers. `replies`: its oldest replies, if it is an entry of a page;
 * `replyCount` counts all replies. `labels`: those of its author, shown as on posts. `deleted`: the comment was
 * deleted or its author left; only a stub without text and author remains, to hold its replies.
 */
export interface CommentAnswer {
  id: string;
  post: string;
  replyTo: string | null;
  author: AuthorAnswer | null;
  text: string;
  likeCount: number;
  replyCount: number;
  isLiked: boolean;
  labels: string[];
  createdAt: string;
  deleted: boolean;
  replies: CommentAnswer[];
}

/** A page of comments. `partial`: the order `top` ranked only the newest comments, and there are more. */
export interface CommentsAnswer {
  items: CommentAnswer[];
  pagination: Pagination;
  totalCount: number;
  partial: boolean;
}

/** The alt text of a picture or video. */
export interface MediaChange {
  altText: string;
}

/** A page of home. A page may be short or empty although more follow. */
export interface FeedAnswer {
  posts: PostAnswer[];
  pagination: Pagination;
  meta: FeedMeta;
}

/**
 * How the page was made. `requestId`: the name under which it is logged; yours if it is valid.
 *
 * `degraded`: parts that were unavailable. What the page does show is correct.
 */
export interface FeedMeta {
  feedType: "latest" | "ranked";
  generatedAt: string;
  requestId: string;
  degraded: string[];
}

/**
 * What decides the place of a post in the acting user's ranked home, at this moment.
 *
 * `score` is the sum of the contributions of all `parts`, times `damping`. `damping` is below 1 after "see fewer", and
 * for a user's own post that the app limits. `excludedBy`: why the post is not shown whatever its score (not_followed,
 * muted, hidden, copy), or is placed after unseen posts (seen). `copyOf`: the post that is shown instead of this copy.
 */
export interface WhyAnswer {
  id: string;
  score: number;
  reason: string;
  parts: ScorePart[];
  damping: number;
  excludedBy: string[];
  copyOf: string | null;
}

/** One feature of a post: its value (0 to 1), its weight, and what it contributes to the score. */
export interface ScorePart {
  name: string;
  value: number;
  weight: number;
  adds: number;
}

/** A new story, with the fields of a post. `audience`: the users who may see it if `visibility` is `custom`. */
export interface StoryRequest {
  content: ContentRequest;
  visibility?: "custom" | "friends" | "public";
  audience?: Int64[];
  mentions?: Int64[];
  attributes?: Record<string, unknown>;
}

/**
 * A story. `seen`: by the acting user. `audience` and `viewCount` are null for everyone but the author. `labels`:
 * those of its author, shown as on posts.
 */
export interface StoryAnswer {
  id: string;
  author: AuthorAnswer;
  content: ContentAnswer;
  visibility: "custom" | "friends" | "public";
  audience: string[] | null;
  mentions: string[];
  attributes: Record<string, unknown>;
  labels: string[];
  createdAt: string;
  expiresAt: string;
  seen: boolean;
  viewCount: number | null;
}

/** A page of the strip. `partial`: too many followed authors have stories, so only the closest were considered. */
export interface StripAnswer {
  items: StripEntryAnswer[];
  pagination: Pagination;
  partial: boolean;
}

/** The stories of one author that the acting user may see. `more`: the counts cover only the newest 50. */
export interface StripEntryAnswer {
  id: string;
  author: AuthorAnswer;
  storyCount: number;
  unseenCount: number;
  latestAt: string;
  more: boolean;
}

/** The acting user has seen the story, and when they first did. */
export interface StoryViewed {
  viewed: boolean;
  timestamp: string;
}

/** A page of viewers, latest first. A page may be short although more follow. */
export interface ViewersAnswer {
  items: ViewerAnswer[];
  pagination: Pagination;
}

/** A user who has seen a story, and when they first did. */
export interface ViewerAnswer {
  id: string;
  user: AuthorAnswer;
  viewedAt: string;
}

/** A page of an author's stories, oldest first. If there are very many, a page may be short although more follow. */
export interface StoriesAnswer {
  items: StoryAnswer[];
  pagination: Pagination;
}

/** A new board. `secret`: only its owner and collaborators can see it. */
export interface BoardRequest {
  name: string;
  secret?: boolean;
}

/** A board. Both counts are exact. `pinCount` counts every pin, also of posts that the acting user may not see. */
export interface BoardAnswer {
  id: string;
  owner: AuthorAnswer;
  name: string;
  secret: boolean;
  followerCount: number;
  pinCount: number;
  createdAt: string;
}

/** The fields of a board to change. Fields that are left out keep their value. */
export interface BoardChange {
  name?: string | null;
  secret?: boolean | null;
}

/** The new owner of the board: one of its collaborators. */
export interface BoardMove {
  owner: Int64;
}

/** The board of the same owner that receives the pins and followers. */
export interface BoardMerge {
  into: Int64;
}

/** A page of boards, newest first. A page of a very long list may be short although more follow. */
export interface BoardsAnswer {
  items: BoardAnswer[];
  pagination: Pagination;
}

/** Whether the user is now a collaborator of the board. */
export interface InvitedAnswer {
  member: boolean;
  token: string | null;
}

/** Whether the acting user now follows the board, and whether this request changed that. */
export interface BoardFollowedAnswer {
  following: boolean;
  changed: boolean;
  token: string | null;
}

/**
 * How the acting user follows a user or board. A user is followed `explicit`, or `implicit` if the acting user
 * follows only single boards of theirs. A board is followed `explicit` by a follow of its own, or `implicit` through
 * its owner.
 */
export interface FollowedKind {
  id: string;
  following: boolean;
  kind: "explicit" | "implicit" | "none";
}

/** Users and boards, 25 at most in all. */
export interface BoardsCheckRequest {
  users?: Int64[];
  boards?: Int64[];
}

/** One row per user and one per board, in the order of the request. */
export interface BoardsChecked {
  users: FollowedKind[];
  boards: FollowedKind[];
}

/**
 * Exact counts: the user's public boards; boards that the user follows with a follow of their own; users of whom
 * the user follows single boards; users who follow single boards of this user. `boardsUnfollowed` is null for everyone
 * but the user.
 */
export interface InterestsAnswer {
  boardCount: number;
  boardsFollowed: number;
  boardsUnfollowed: number | null;
  implicitFollowing: number;
  implicitFollowers: number;
}

/** The post to pin. */
export interface PinRequest {
  post: Int64;
}

/** Whether the post is now on the board, and whether this request changed that. */
export interface PinnedAnswer {
  pinned: boolean;
  changed: boolean;
  token: string | null;
}

/**
 * A page of notifications, newest first. A page may be short although more follow. `unread`: the count of
 * /notifications/unread. `partial`: `unread` counts only the newest 1,000 notifications, or mentions of accounts that
 * the user follows are missing, because too many other accounts were mentioned lately.
 */
export interface NotificationsAnswer {
  items: NotificationAnswer[];
  pagination: Pagination;
  unread: number;
  partial: boolean;
}

/**
 * What other users did. `ids`: the notifications grouped into this item, newest first; mark these as read.
 *
 * `actors`: up to 3 users who did it, latest first; `actorCount` counts all of them. `partial`: older notifications of
 * this group may follow on a later page. `mentioned`: the mentioned user, if that is not the acting user.
 */
export interface NotificationAnswer {
  id: string;
  ids: string[];
  type: "board_follow" | "board_invite" | "comment" | "follow" | "follow_accepted" | "follow_request" | "like" | "mention" | "reply" | "share";
  actors: AuthorAnswer[];
  actorCount: number;
  partial: boolean;
  post: NoticePostAnswer | null;
  comment: NoticeCommentAnswer | null;
  board: NoticeBoardAnswer | null;
  mentioned: AuthorAnswer | null;
  read: boolean;
  seen: boolean;
  at: string;
}

/** The post that a notification is about, with the beginning of its text. GET /posts/{id} returns the rest. */
export interface NoticePostAnswer {
  id: string;
  authorId: string;
  type: "image" | "link" | "text" | "video";
  preview: string;
}

/** The comment that a notification is about, with the beginning of its text. */
export interface NoticeCommentAnswer {
  id: string;
  authorId: string;
  preview: string;
}

/** The board that a notification is about. */
export interface NoticeBoardAnswer {
  id: string;
  ownerId: string;
  name: string;
}

/** How many notifications are unread. `partial`: only the newest 1,000 were counted, and more exist. */
export interface UnreadAnswer {
  count: number;
  partial: boolean;
}

/** Send one of the two: `ids`, at most 1,000; or `upTo`, for this notification and all older ones. */
export interface MarkRequest {
  ids?: Int64[] | null;
  upTo?: Int64 | null;
}

/** How many notifications are still unread. */
export interface MarkedAnswer {
  unread: number;
}

/**
 * `actor` mentioned `mentioned`. `eventId`: your id of this mention, 1 to 200 characters. `post`: the post with the
 * mention; the user is notified only if they may see it. `at`: when it happened, within the last 90 days; now if left
 * out.
 */
export interface MentionRequest {
  eventId: string;
  actor: Int64;
  mentioned: Int64;
  post?: Int64 | null;
  at?: string | null;
}

/**
 * `accepted`: the mentioned user is notified. It is false if a block, a mute, privacy or their preferences prevent
 * it.
 */
export interface MentionAnswer {
  eventId: string;
  accepted: boolean;
}

/** Which notifications the user wants. */
export interface PreferencesAnswer {
  off: Array<"board_follow" | "board_invite" | "comment" | "follow" | "follow_accepted" | "follow_request" | "like" | "mention" | "reply" | "share">;
  mentions: "followed" | "me" | "none" | "these";
  accounts: string[];
  accountsOff: string[];
  quietHours: QuietHoursPart | null;
}

/**
 * From one time of day to another, such as `22:00` to `07:00`, in the local time of a time zone
 * (`Europe/Berlin`).
 */
export interface QuietHoursPart {
  from: string;
  to: string;
  timeZone: string;
}

/**
 * The complete preferences; fields that are left out get the defaults of a new user. `off`: notification types that
 * the user does not want.
 *
 * `mentions`: whose mentions the user is notified of, besides their own: those of everyone they follow (`followed`),
 * those of `accounts` that they follow (`these`, at most 1,000), or nobody else's (`me`). `none` turns their own off
 * too. `accountsOff`: accounts whose actions the user is not notified of. In `quietHours` nothing is pushed to
 * devices; notifications are listed all the same.
 */
export interface PreferencesRequest {
  off?: Array<"board_follow" | "board_invite" | "comment" | "follow" | "follow_accepted" | "follow_request" | "like" | "mention" | "reply" | "share">;
  mentions?: "followed" | "me" | "none" | "these";
  accounts?: Int64[];
  accountsOff?: Int64[];
  quietHours?: QuietHoursPart | null;
}

/**
 * The address of a device, with the fields that its provider uses. `webpush`: `endpoint` and `keys`, as the
 * browser's `PushSubscription.toJSON()` returns them. `apns`: `token`, the device token in hexadecimal digits;
 * `sandbox`, if the app was built for development. `fcm`: `token`, the registration token.
 */
export interface DeviceRequest {
  kind: "apns" | "fcm" | "webpush";
  endpoint?: string | null;
  keys?: KeysPart | null;
  expirationTime?: unknown;
  token?: string | null;
  sandbox?: boolean;
}

/** The keys of a browser's subscription, as base64url. */
export interface KeysPart {
  p256dh: string;
  auth: string;
}

/** A device. Its address is a secret and is never returned. */
export interface DeviceAnswer {
  id: string;
  kind: "apns" | "fcm" | "webpush";
  registeredAt: string;
}

/**
 * The devices of a user. `kinds`: the kinds that this server can send to. `applicationServerKey`: the key that a
 * browser needs to subscribe; null if the server does not send `webpush`.
 */
export interface DevicesAnswer {
  devices: DeviceAnswer[];
  kinds: Array<"apns" | "fcm" | "webpush">;
  applicationServerKey: string | null;
}

/** The labels of an object, the reason, and when they last changed. */
export interface LabelsAnswer {
  id: string;
  type: "post" | "user";
  labels: string[];
  reason: string;
  changedAt: string | null;
}

/** The complete list of labels that the object has from now on. `reason`: for the app; no user sees it. */
export interface LabelsRequest {
  labels: Array<"hide" | "limit" | "sensitive">;
  reason?: string;
}

/**
 * A new webhook. `graphs` and `kinds` filter as for /watch. `secret` signs deliveries; Kith makes one if it is left
 * out.
 */
export interface WebhookRequest {
  url: string;
  graphs?: string[];
  kinds?: string[];
  secret?: string | null;
}

/** A new webhook with its secret, which is returned only here. */
export interface WebhookMade {
  id: string;
  url: string;
  graphs: string[];
  kinds: string[];
  createdAt: string;
  state: WebhookState;
  secret: string;
}

/**
 * The state of its deliveries. `place`: changes up to this token of /watch are delivered; null if the position was
 * lost, and the next delivery reports a gap.
 *
 * `eventsBehind`: events of the log after `place`, whether they match or not. `gap`: some events were deleted from the
 * log before they were delivered. `failures`: failed attempts in a row. `lastStatus`, `lastError`: of the last
 * attempt. `resting`: the host failed so often that it is not tried before `nextTryAt`.
 */
export interface WebhookState {
  place: string | null;
  eventsBehind: number;
  gap: boolean;
  failures: number;
  lastStatus: number | null;
  lastError: string;
  resting: boolean;
  nextTryAt: string | null;
  deadLetters: number;
}

/** All webhooks, oldest first. */
export interface WebhooksAnswer {
  webhooks: WebhookAnswer[];
}

/** A webhook. Its secret is not returned. */
export interface WebhookAnswer {
  id: string;
  url: string;
  graphs: string[];
  kinds: string[];
  createdAt: string;
  state: WebhookState;
}

/** Dead letters, oldest first. `count`: how many there are in all. */
export interface DeadLetters {
  letters: DeadLetter[];
  count: number;
}

/** A change whose delivery was given up. `change`: as /watch sends it. */
export interface DeadLetter {
  change: Record<string, unknown>;
  tries: number;
  error: string;
  failedAt: string;
}

/** The process is alive. */
export interface Health {
  status: string;
  version: string;
}

/**
 * Whether the process can serve, and its problems if it cannot. `standby`: on a standby, which primary it follows
 * and how far it lags.
 *
 * `rival`: on a primary, which other machine claims to be primary too, and what to do.
 */
export interface Readiness {
  ready: boolean;
  problems: Record<string, string>;
  standby?: string;
  rival?: string;
}

/** The reader, or somebody they follow, made a post. `labels`: as on posts. */
export interface NewPostEvent {
  type: "new_post";
  /** Where to resume after it. */
  eventId: string;
  postId: string;
  authorId: string;
  preview: string;
  labels: string[];
}

/**
 * A post that the reader may still see was edited or labelled, or its author was labelled.
 *
 * `preview`, `labels`: as they are now.
 */
export interface PostUpdatedEvent {
  type: "post_updated";
  /** Where to resume after it. */
  eventId: string;
  postId: string;
  authorId: string;
  preview: string;
  labels: string[];
}

/** The numbers of a post as they are now. */
export interface EngagementUpdateEvent {
  type: "engagement_update";
  /** Where to resume after it. */
  eventId: string;
  postId: string;
  likeCount: number;
  commentCount: number;
  shareCount: number;
  viewCount: number;
}

/**
 * A post is gone for this reader: its author deleted it, or the reader hid it, blocked or muted its author.
 *
 * `unavailable` gives no reason, as `POST_NOT_FOUND` gives none.
 */
export interface PostRemovedEvent {
  type: "post_removed";
  /** Where to resume after it. */
  eventId: string;
  postId: string;
  reason: "author_deleted" | "blocked" | "hidden" | "muted" | "unavailable";
}

/**
 * Others did something that concerns the reader; GET /notifications shows it.
 *
 * `mentionedId`: whom a mention names, where it is somebody else.
 */
export interface NotificationEvent {
  type: "notification";
  /** Where to resume after it. */
  eventId: string;
  notificationId: string;
  kind: "board_follow" | "board_invite" | "comment" | "follow" | "follow_accepted" | "follow_request" | "like" | "mention" | "reply" | "share";
  actorId: string;
  postId: string | null;
  commentId: string | null;
  boardId: string | null;
  mentionedId: string | null;
}

/** How many notifications the reader has not read, as GET /notifications/unread. */
export interface UnreadEvent {
  type: "unread";
  /** Where to resume after it. */
  eventId: string;
  count: number;
  partial: boolean;
}

/**
 * What was missed cannot be told one by one: load the feed anew. The stream ends; the next begins at this event.
 *
 * `expired`: the log no longer holds it; `too_far`: it is too much; `unknown`: the id is none of this store;
 * `changed`: which posts the reader may see changed; `loaded`: a whole graph was loaded.
 */
export interface ResetEvent {
  type: "reset";
  /** Where to resume after it. */
  eventId: string;
  reason: "expired" | "too_far" | "unknown" | "changed" | "loaded";
}

/** What a stream tells. */
export type FeedEvent = NewPostEvent | PostUpdatedEvent | EngagementUpdateEvent | PostRemovedEvent | NotificationEvent | UnreadEvent | ResetEvent;
