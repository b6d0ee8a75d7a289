// Made by generate.py from the OpenAPI document; change that, not this.

import type { CallOptions, Int64, Listing, Many, Program, UploadFile, UploadOptions } from "../index.js";

/** A method for every operation of the API. */
export interface Operations {
  /**
   * Is there an edge?
   *
   * The follow check. A missing or removed edge answers false, never an error; to a user token also one whose
   * other end is an account that the app hides.
   */
  exists(graph: string, source: Int64, destination: Int64, options?: CallOptions): Promise<Exists["exists"]>;
  /**
   * Check up to 1,000 pairs.
   *
   * One answer a pair, in their order.
   */
  existsMany(graph: string, pairs: Many<[Int64, Int64]>, options?: CallOptions): Promise<ExistMany["exists"]>;
  /**
   * Write up to 1,000 edges.
   *
   * Idempotent and commutative where `updatedAt` is given: any order, any repetition. Server keys only.
   *
   * For graphs of users (follows, blocks, mutes...) and your own; those of posts, comments and stories are written
   * by their routes. One edge that is refused refuses all, and the message says which: `$.edges[2]`. An edge from a
   * node to itself (SELF_EDGE) is for your own graphs alone.
   */
  writeEdges(graph: string, edges: Many<EdgeRequest>, options?: CallOptions): Promise<EdgesWritten>;
  /**
   * The stored edge, in any state.
   *
   * 404 where there never was one; to user tokens also where it does not hold.
   */
  edge(graph: string, source: Int64, destination: Int64, options?: CallOptions): Promise<EdgeAnswer>;
  /**
   * Destinations, newest first.
   *
   * The nodes that this node's edges go to. A range of time costs the same wherever in the list it lies. For user
   * tokens, pages leave out accounts that the app hides.
   */
  edgesOut(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Destinations, newest first.
   *
   * The nodes that this node's edges go to. A range of time costs the same wherever in the list it lies. For user
   * tokens, pages leave out accounts that the app hides.
   */
  edgesOutPage(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Promise<ListAnswer>;
  /**
   * Sources, newest first.
   *
   * The nodes whose edges come to this node. A range of time costs the same wherever in the list it lies. For
   * user tokens, pages leave out accounts that the app hides.
   */
  edgesIn(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Sources, newest first.
   *
   * The nodes whose edges come to this node. A range of time costs the same wherever in the list it lies. For
   * user tokens, pages leave out accounts that the app hides.
   */
  edgesInPage(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed"; limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Promise<ListAnswer>;
  /**
   * How many destinations.
   *
   * Exact, in constant time. Accounts that the app hides count, also where the list leaves them out.
   */
  countOut(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed" } & CallOptions): Promise<CountAnswer["count"]>;
  /**
   * How many sources.
   *
   * Exact, in constant time. Accounts that the app hides count, also where the list leaves them out.
   */
  countIn(graph: string, node: Int64, options?: { state?: "archived" | "negative" | "normal" | "removed" } & CallOptions): Promise<CountAnswer["count"]>;
  /**
   * A page of a set program.
   *
   * Ids in descending order. A program is `{"union": [P, ...]}`, `{"intersect": [P, ...]}` or
   * `{"difference": [P, ...]}` of programs, or a list: `{"graph", "node", "direction": "out" or "in", "states"?}`.
   *
   * `partial`: few of many are members, so this page has fewer than asked, or none; go on with `nextCursor`.
   */
  select(program: Program, options?: Omit<SelectRequest, "program"> & CallOptions): Listing<IdItem, SetAnswer>;
  /**
   * A page of a set program.
   *
   * Ids in descending order. A program is `{"union": [P, ...]}`, `{"intersect": [P, ...]}` or
   * `{"difference": [P, ...]}` of programs, or a list: `{"graph", "node", "direction": "out" or "in", "states"?}`.
   *
   * `partial`: few of many are members, so this page has fewer than asked, or none; go on with `nextCursor`.
   */
  selectPage(program: Program, options?: Omit<SelectRequest, "program"> & CallOptions): Promise<SetAnswer>;
  /**
   * How many members a set program has.
   *
   * Exact. A single list costs nothing; a set costs what its smallest parts cost. Accounts that the app hides
   * count, also where a page leaves them out.
   */
  selectCount(program: Program, options?: CallOptions): Promise<CountAnswer["count"]>;
  /**
   * Follow a user.
   *
   * Repeating it changes nothing. A private account is asked first (`requested`). With `expiresAt` it ends by
   * itself, in every list and count at that moment; the last request holds, so a follow without it lasts.
   */
  follow(user: Int64, options?: FollowRequest & CallOptions): Promise<Followed>;
  /**
   * Unfollow a user.
   *
   * Also takes back a request to follow.
   */
  unfollow(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * Remove a follower.
   *
   * The user no longer follows the acting user; they may follow again.
   */
  removeFollower(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * Block a user.
   *
   * Drops follows both ways and forbids new ones.
   */
  block(user: Int64, options?: CallOptions): Promise<Blocked>;
  /**
   * Unblock a user.
   *
   * Follows dropped by the block stay dropped.
   */
  unblock(user: Int64, options?: CallOptions): Promise<Blocked>;
  /**
   * Mute a user.
   *
   * Hides them from the acting user only.
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
   * Their posts rank lower from now on, which fades over the months. Saying it again begins anew.
   */
  seeFewer(user: Int64, options?: CallOptions): Promise<FewerAnswer>;
  /**
   * See a user's posts as before.
   *
   * Repeating it changes nothing.
   */
  seeAsBefore(user: Int64, options?: CallOptions): Promise<FewerAnswer>;
  /**
   * Who asks to follow me.
   *
   * Newest first. Accounts that the app hides do not show; their requests wait until they do.
   */
  followRequests(options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who asks to follow me.
   *
   * Newest first. Accounts that the app hides do not show; their requests wait until they do.
   */
  followRequestsPage(options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Accept a request.
   *
   * The user follows the acting user from now on. `REQUESTER_LIMIT_REACHED`: they follow as many as one may, and
   * their request stays.
   */
  acceptFollowRequest(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * Decline a request.
   *
   * They may ask again.
   */
  declineFollowRequest(user: Int64, options?: CallOptions): Promise<Followed>;
  /**
   * One user and many targets.
   *
   * Everything a list of profiles needs for its buttons, in one call.
   */
  relationships(targets: Many<Int64>, options?: CallOptions): Promise<RelationshipsAnswer["relationships"]>;
  /**
   * Whom a user follows.
   *
   * Newest first; by name with `sort` or `q`.
   */
  following(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Whom a user follows.
   *
   * Newest first; by name with `sort` or `q`.
   */
  followingPage(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Who follows a user.
   *
   * Newest first, at the same cost at any depth; by name with `sort` or `q`.
   */
  followers(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows a user.
   *
   * Newest first, at the same cost at any depth; by name with `sort` or `q`.
   */
  followersPage(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Whom a user blocks.
   *
   * The user's own. The newest block first; deactivated accounts show again when they are back.
   */
  blocked(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Whom a user blocks.
   *
   * The user's own. The newest block first; deactivated accounts show again when they are back.
   */
  blockedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Whom a user mutes.
   *
   * The user's own. The newest mute first; deactivated accounts show again when they are back.
   */
  muted(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Whom a user mutes.
   *
   * The user's own. The newest mute first; deactivated accounts show again when they are back.
   */
  mutedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Who follows and is followed back.
   *
   * In the order in which the user followed them, newest first; by name with `sort` or `q`.
   */
  friends(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows and is followed back.
   *
   * In the order in which the user followed them, newest first; by name with `sort` or `q`.
   */
  friendsPage(user: Int64, options?: { limit?: number; cursor?: string; sort?: "name"; q?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Whom both follow.
   *
   * In the order in which the first followed them, newest first.
   */
  mutuals(user: Int64, other: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Whom both follow.
   *
   * In the order in which the first followed them, newest first.
   */
  mutualsPage(user: Int64, other: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Their followers whom I follow.
   *
   * In the order in which the acting user followed them, newest first.
   */
  followersYouKnow(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Their followers whom I follow.
   *
   * In the order in which the acting user followed them, newest first.
   */
  followersYouKnowPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * People by the beginning of a name.
   *
   * Of all people whom the caller may see: those whose username, display name or its second or third word begins
   * with `q`, in any case, in the order of names. A page may be short and still have more.
   */
  searchUsers(options?: { q?: string; limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * People by the beginning of a name.
   *
   * Of all people whom the caller may see: those whose username, display name or its second or third word begins
   * with `q`, in any case, in the order of names. A page may be short and still have more.
   */
  searchUsersPage(options?: { q?: string; limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Archive all edges of a user.
   *
   * Their lists empty in the background; an edge comes back when both ends are active again.
   */
  deactivateUser(user: Int64, options?: CallOptions): Promise<JobStarted["job"]>;
  /**
   * Restore all edges of a user.
   *
   * Undo deactivate, each edge at its old place.
   */
  reactivateUser(user: Int64, options?: CallOptions): Promise<JobStarted["job"]>;
  /**
   * Remove all edges of a user.
   *
   * For good; the user no longer exists, and what they said of themselves is forgotten.
   */
  deleteUser(user: Int64, options?: CallOptions): Promise<JobStarted["job"]>;
  /**
   * A user.
   *
   * Profile, state and exact counts. Ids come from the app, so a user nobody has met yet is simply empty.
   */
  user(user: Int64, options?: CallOptions): Promise<ProfileAnswer>;
  /**
   * Create or set a user.
   *
   * Sets what is named and nothing else, so it may be sent at every login. A user token may set only its own
   * user.
   */
  putUser(user: Int64, options?: ProfileRequest & CallOptions): Promise<ProfileAnswer>;
  /**
   * Change a user.
   *
   * Like PUT. A user token may change only its own user.
   */
  patchUser(user: Int64, options?: ProfileRequest & CallOptions): Promise<ProfileAnswer>;
  /**
   * How far a job has come.
   *
   * Kept for a day after it is done. Server keys, or the user it is about.
   */
  job(job: string, options?: CallOptions): Promise<JobAnswer>;
  /**
   * The user of this name.
   *
   * In any spelling: `Ann` and `ann` are one name. 404 also for a user whom the acting user may not see.
   */
  userByUsername(username: string, options?: CallOptions): Promise<ProfileAnswer>;
  /**
   * Many users by id.
   *
   * One answer an id, in their order: null where GET would refuse. 100 ids at most.
   */
  lookupUsers(ids: Many<Int64>, options?: CallOptions): Promise<UsersLookedUp["users"]>;
  /**
   * People a user may know.
   *
   * The user themself, or `X-Kith-User: system`.
   *
   * Of the 500 newest followees and the 500 newest of each; up to 1,000 people.
   *
   * Most mutual followees first. Kept for a while (`suggestions_minutes`); whom the user followed, blocked, muted or
   * hid meanwhile, and who blocked them, left, or was labelled away by the app, is never in it. The user's own
   * follows make it anew.
   */
  suggestions(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<SuggestionItem, SuggestionsAnswer>;
  /**
   * People a user may know.
   *
   * The user themself, or `X-Kith-User: system`.
   *
   * Of the 500 newest followees and the 500 newest of each; up to 1,000 people.
   *
   * Most mutual followees first. Kept for a while (`suggestions_minutes`); whom the user followed, blocked, muted or
   * hid meanwhile, and who blocked them, left, or was labelled away by the app, is never in it. The user's own
   * follows make it anew.
   */
  suggestionsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<SuggestionsAnswer>;
  /**
   * Do not suggest a user.
   *
   * From now on, to the acting user only. Repeating it changes nothing.
   */
  hideSuggestion(user: Int64, options?: CallOptions): Promise<SuggestionHidden>;
  /**
   * Suggest a user again.
   *
   * Takes `hide-suggestion` back. Repeating it changes nothing.
   */
  unhideSuggestion(user: Int64, options?: CallOptions): Promise<SuggestionHidden>;
  /**
   * Make a post.
   *
   * Stored when answered; feeds follow (`fanoutStatus`).
   */
  createPost(content: ContentRequest, options?: Omit<PostRequest, "content"> & { key?: string } & CallOptions): Promise<PostCreated>;
  /**
   * A post.
   *
   * 404 for what does not exist, is deleted, or is not there for the acting user.
   */
  post(post: Int64, options?: CallOptions): Promise<PostAnswer>;
  /**
   * Change a post.
   *
   * Its author only.
   */
  editPost(post: Int64, options?: PostChange & CallOptions): Promise<PostAnswer>;
  /**
   * Delete a post.
   *
   * For good, what it said included. Its author only.
   */
  deletePost(post: Int64, options?: CallOptions): Promise<void>;
  /**
   * Many posts by id.
   *
   * One answer an id, in their order: null where GET would answer 404. 100 ids at most.
   */
  lookupPosts(ids: Many<Int64>, options?: CallOptions): Promise<PostsLookedUp["posts"]>;
  /**
   * What a user posted.
   *
   * Newest first: what of it the acting user may see. Where that is very little of much a page may be short, even
   * empty, and still have more.
   */
  userPosts(user: Int64, options?: { limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * What a user posted.
   *
   * Newest first: what of it the acting user may see. Where that is very little of much a page may be short, even
   * empty, and still have more.
   */
  userPostsPage(user: Int64, options?: { limit?: number; cursor?: string; since?: Int64; until?: Int64 } & CallOptions): Promise<PostsAnswer>;
  /**
   * Posts that mention a user.
   *
   * The user's own: posts that they may see, newest first.
   */
  mentions(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * Posts that mention a user.
   *
   * The user's own: posts that they may see, newest first.
   */
  mentionsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<PostsAnswer>;
  /**
   * Like a post.
   *
   * Repeating it changes nothing.
   */
  likePost(post: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Take a like back.
   *
   * Repeating it changes nothing.
   */
  unlikePost(post: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Who likes a post.
   *
   * For all who may see the post: the newest like first, without users who have a block with the acting user.
   */
  postLikes(post: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Who likes a post.
   *
   * For all who may see the post: the newest like first, without users who have a block with the acting user.
   */
  postLikesPage(post: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * What a user saved.
   *
   * The user's own: posts that they may still see, the newest save first.
   */
  savedPosts(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * What a user saved.
   *
   * The user's own: posts that they may still see, the newest save first.
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
   * Take a share back.
   *
   * Repeating it changes nothing.
   */
  unsharePost(post: Int64, options?: CallOptions): Promise<Shared>;
  /**
   * Tell that a post was seen.
   *
   * A user counts once, however often they look.
   */
  viewPost(post: Int64, options?: CallOptions): Promise<Viewed>;
  /**
   * Tell that many posts were seen.
   *
   * All of a page in one write. One answer an id, in their order: null where the other route would answer 404.
   * 100 ids at most.
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
   * Or answer a comment on it. A reply has at most 100 comments above it.
   */
  createComment(post: Int64, text: string, options?: Omit<CommentRequest, "text"> & { key?: string } & CallOptions): Promise<CommentAnswer>;
  /**
   * The comments on a post.
   *
   * With the first replies to each. `totalCount` counts all that are not `deleted`, also those that the reader
   * may not see. A page may be short, even empty, and still have more.
   */
  postComments(post: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Listing<CommentAnswer, CommentsAnswer>;
  /**
   * The comments on a post.
   *
   * With the first replies to each. `totalCount` counts all that are not `deleted`, also those that the reader
   * may not see. A page may be short, even empty, and still have more.
   */
  postCommentsPage(post: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Promise<CommentsAnswer>;
  /**
   * The replies to a comment.
   *
   * In the same orders as comments.
   */
  commentReplies(comment: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Listing<CommentAnswer, CommentsAnswer>;
  /**
   * The replies to a comment.
   *
   * In the same orders as comments.
   */
  commentRepliesPage(comment: Int64, options?: { sort?: "newest" | "oldest" | "top"; limit?: number; cursor?: string } & CallOptions): Promise<CommentsAnswer>;
  /**
   * Delete a comment.
   *
   * For good. Its author, and the author of the post. Where it has replies it stays as a stub (`deleted`).
   */
  deleteComment(comment: Int64, options?: CallOptions): Promise<void>;
  /**
   * Like a comment.
   *
   * Repeating it changes nothing.
   */
  likeComment(comment: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Take a like back.
   *
   * Repeating it changes nothing.
   */
  unlikeComment(comment: Int64, options?: CallOptions): Promise<Liked>;
  /**
   * Upload a picture or video.
   *
   * JPEG, PNG, GIF, WebP, MP4 or WebM, told by its bytes. Images are decoded and written anew, without EXIF and
   * place; videos lose their notes. Pictures larger than `media_side_max` are scaled down.
   */
  uploadMedia(file: UploadFile, options?: { altText?: string } & UploadOptions): Promise<MediaAnswer>;
  /**
   * A picture or video of mine.
   *
   * For its owner; others see it in posts and profiles.
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
   * For good, its files included; posts show the rest of what they have. Its owner only. Repeating it is fine.
   */
  deleteMedia(media: Int64, options?: CallOptions): Promise<void>;
  /**
   * The acting user's home.
   *
   * Posts of those whom the acting user follows, what is pinned on boards that they follow, and their own, each
   * once, however far one scrolls.
   *
   * Ranked: unseen posts, then those that were seen before, marked `seen`; 2 an author on a page while others have
   * any; copies once, named in `copies`; new posts do not move what was paged.
   */
  feed(options?: { type?: "latest" | "ranked"; limit?: number; cursor?: string; refresh?: boolean; requestId?: string } & CallOptions): Listing<PostAnswer, FeedAnswer>;
  /**
   * The acting user's home.
   *
   * Posts of those whom the acting user follows, what is pinned on boards that they follow, and their own, each
   * once, however far one scrolls.
   *
   * Ranked: unseen posts, then those that were seen before, marked `seen`; 2 an author on a page while others have
   * any; copies once, named in `copies`; new posts do not move what was paged.
   */
  feedPage(options?: { type?: "latest" | "ranked"; limit?: number; cursor?: string; refresh?: boolean; requestId?: string } & CallOptions): Promise<FeedAnswer>;
  /**
   * Why a post stands where it does in my home.
   *
   * 404 for what is not there for the acting user.
   */
  whyPost(post: Int64, options?: CallOptions): Promise<WhyAnswer>;
  /**
   * Tell a story.
   *
   * Like a post, and gone after `story_hours`. It is in no feed and in no list of posts.
   */
  createStory(content: ContentRequest, options?: Omit<StoryRequest, "content"> & { key?: string } & CallOptions): Promise<StoryAnswer>;
  /**
   * Whose stories there are for me.
   *
   * One entry an author: the user's own first, then authors with unseen stories, then the others; the closest
   * first.
   */
  storyStrip(options?: { limit?: number; cursor?: string } & CallOptions): Listing<StripEntryAnswer, StripAnswer>;
  /**
   * Whose stories there are for me.
   *
   * One entry an author: the user's own first, then authors with unseen stories, then the others; the closest
   * first.
   */
  storyStripPage(options?: { limit?: number; cursor?: string } & CallOptions): Promise<StripAnswer>;
  /**
   * A story.
   *
   * 404 for what does not exist, is deleted or over, or is not there for the acting user.
   */
  story(story: Int64, options?: CallOptions): Promise<StoryAnswer>;
  /**
   * Delete a story.
   *
   * For good, what it said included. Its author only.
   */
  deleteStory(story: Int64, options?: CallOptions): Promise<void>;
  /**
   * Tell that a story was seen.
   *
   * Repeating it changes nothing. Authors are not among the viewers of their own.
   */
  viewStory(story: Int64, options?: CallOptions): Promise<StoryViewed>;
  /**
   * Who has seen a story.
   *
   * Its author only. Latest first.
   */
  storyViewers(story: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<ViewerAnswer, ViewersAnswer>;
  /**
   * Who has seen a story.
   *
   * Its author only. Latest first.
   */
  storyViewersPage(story: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ViewersAnswer>;
  /**
   * The stories of a user.
   *
   * Oldest first, as they are played: those that are not over and that the acting user may see.
   */
  userStories(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<StoryAnswer, StoriesAnswer>;
  /**
   * The stories of a user.
   *
   * Oldest first, as they are played: those that are not over and that the acting user may see.
   */
  userStoriesPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<StoriesAnswer>;
  /**
   * Make a board.
   *
   * Followers of its owner follow it from now on, unless it is secret.
   */
  createBoard(name: string, options?: Omit<BoardRequest, "name"> & { key?: string } & CallOptions): Promise<BoardAnswer>;
  /**
   * A board.
   *
   * 404 for what does not exist, is deleted, or is not there for the acting user.
   */
  board(board: Int64, options?: CallOptions): Promise<BoardAnswer>;
  /**
   * Change a board.
   *
   * Its owner only. A board that becomes secret loses its followers.
   */
  editBoard(board: Int64, options?: BoardChange & CallOptions): Promise<BoardAnswer>;
  /**
   * Delete a board.
   *
   * For good, with its pins; the posts stay. Its owner only.
   */
  deleteBoard(board: Int64, options?: CallOptions): Promise<void>;
  /**
   * Give a board to a collaborator.
   *
   * Users who follow the board itself go on following it; those who followed it through the old owner do not. Its
   * owner only.
   */
  moveBoard(board: Int64, owner: Int64, options?: CallOptions): Promise<BoardAnswer>;
  /**
   * Merge a board into another.
   *
   * Moves pins and followers to another board of the same owner, and deletes this one. Where they are very many,
   * some move later.
   */
  mergeBoard(board: Int64, into: Int64, options?: CallOptions): Promise<BoardAnswer>;
  /**
   * The boards of a user.
   *
   * Newest first; secret ones for their members only.
   */
  userBoards(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * The boards of a user.
   *
   * Newest first; secret ones for their members only.
   */
  userBoardsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * Invite a collaborator.
   *
   * They see the board, also if it is secret, and may pin on it. Its owner only.
   */
  inviteCollaborator(board: Int64, user: Int64, options?: CallOptions): Promise<InvitedAnswer>;
  /**
   * Dismiss a collaborator.
   *
   * For its owner, and for collaborators who leave. Their pins stay.
   */
  dismissCollaborator(board: Int64, user: Int64, options?: CallOptions): Promise<InvitedAnswer>;
  /**
   * Who pins on a board.
   *
   * Newest first; for its owner and collaborators.
   */
  boardCollaborators(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<UserItem, UsersAnswer>;
  /**
   * Who pins on a board.
   *
   * Newest first; for its owner and collaborators.
   */
  boardCollaboratorsPage(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<UsersAnswer>;
  /**
   * Boards of others on which a user pins.
   *
   * The user's own; the newest invitation first.
   */
  collaborations(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * Boards of others on which a user pins.
   *
   * The user's own; the newest invitation first.
   */
  collaborationsPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * Follow a board.
   *
   * For a board of a user whom one follows, this takes an unfollow back. Repeating it changes nothing.
   */
  followBoard(board: Int64, options?: CallOptions): Promise<BoardFollowedAnswer>;
  /**
   * Unfollow a board.
   *
   * Also one that is followed through its owner. 409 `NOT_FOLLOWING` for one that never was.
   */
  unfollowBoard(board: Int64, options?: CallOptions): Promise<BoardFollowedAnswer>;
  /**
   * Whether I follow a board.
   *
   * How the acting user follows it; `none` also for what is not there for them.
   */
  followsBoard(board: Int64, options?: CallOptions): Promise<FollowedKind>;
  /**
   * Which users and boards I follow.
   *
   * 25 at most in all; `none` also for what is not there for the acting user.
   */
  checkBoards(options?: BoardsCheckRequest & CallOptions): Promise<BoardsChecked>;
  /**
   * Who follows a board.
   *
   * Those who follow it through its owner or directly, newest follow first, at the same cost at any depth.
   */
  boardFollowers(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows a board.
   *
   * Those who follow it through its owner or directly, newest follow first, at the same cost at any depth.
   */
  boardFollowersPage(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * How many follow a board.
   *
   * Exact.
   */
  countBoardFollowers(board: Int64, options?: CallOptions): Promise<CountAnswer["count"]>;
  /**
   * The boards that a user follows by themselves.
   *
   * Newest follow first. The boards of users whom they follow are not among them.
   */
  boardsFollowed(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * The boards that a user follows by themselves.
   *
   * Newest follow first. The boards of users whom they follow are not among them.
   */
  boardsFollowedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * The boards that a user unfollowed.
   *
   * The user's own: boards of users whom they follow. Newest first.
   */
  boardsUnfollowed(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<BoardAnswer, BoardsAnswer>;
  /**
   * The boards that a user unfollowed.
   *
   * The user's own: boards of users whom they follow. Newest first.
   */
  boardsUnfollowedPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<BoardsAnswer>;
  /**
   * Users of whom a user follows single boards.
   *
   * Newest first; without those whom they follow as users.
   */
  implicitFollowing(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Users of whom a user follows single boards.
   *
   * Newest first; without those whom they follow as users.
   */
  implicitFollowingPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * Who follows single boards of a user.
   *
   * Newest first; without those who follow the user.
   */
  implicitFollowers(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<Item, ListAnswer>;
  /**
   * Who follows single boards of a user.
   *
   * Newest first; without those who follow the user.
   */
  implicitFollowersPage(user: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<ListAnswer>;
  /**
   * How much a user follows of boards.
   *
   * Exact counts.
   */
  interests(user: Int64, options?: CallOptions): Promise<InterestsAnswer>;
  /**
   * Pin a post.
   *
   * Its owner and collaborators, who must see the post. Repeating it changes nothing.
   */
  pinPost(board: Int64, post: Int64, options?: CallOptions): Promise<PinnedAnswer>;
  /**
   * What is on a board.
   *
   * The newest pin first: what of it the acting user may see.
   */
  boardPins(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Listing<PostAnswer, PostsAnswer>;
  /**
   * What is on a board.
   *
   * The newest pin first: what of it the acting user may see.
   */
  boardPinsPage(board: Int64, options?: { limit?: number; cursor?: string } & CallOptions): Promise<PostsAnswer>;
  /**
   * Unpin a post.
   *
   * Its owner and collaborators. Repeating it changes nothing.
   */
  unpinPost(board: Int64, post: Int64, options?: CallOptions): Promise<PinnedAnswer>;
  /**
   * What others did that concerns the acting user.
   *
   * Newest first, kept for 90 days. It leaves out what the user must not see, muted or does not want, and what
   * was taken back: the same rules as everywhere, asked at this moment.
   *
   * Likes, shares and follows of one post or person are one item, dated and placed by the newest.
   */
  notifications(options?: { limit?: number; cursor?: string; grouped?: boolean } & CallOptions): Listing<NotificationAnswer, NotificationsAnswer>;
  /**
   * What others did that concerns the acting user.
   *
   * Newest first, kept for 90 days. It leaves out what the user must not see, muted or does not want, and what
   * was taken back: the same rules as everywhere, asked at this moment.
   *
   * Likes, shares and follows of one post or person are one item, dated and placed by the newest.
   */
  notificationsPage(options?: { limit?: number; cursor?: string; grouped?: boolean } & CallOptions): Promise<NotificationsAnswer>;
  /**
   * How many notifications are unread.
   *
   * Exactly those that the list shows as unread, one by one.
   */
  unreadNotifications(options?: CallOptions): Promise<UnreadAnswer>;
  /**
   * Mark notifications as read.
   *
   * Repeating it changes nothing. `upTo`: all that are as old as this one or older.
   */
  markRead(options?: MarkRequest & CallOptions): Promise<MarkedAnswer>;
  /**
   * Mark notifications as seen.
   *
   * Marks them as seen, which a badge counts, not as read. With `ids`: all up to the newest of them.
   */
  markSeen(options?: MarkRequest & CallOptions): Promise<MarkedAnswer>;
  /**
   * Report a mention from another system.
   *
   * Stored when it is answered. The same `eventId` within 24 hours tells nothing more, and is answered alike.
   */
  reportMention(eventId: string, actor: Int64, mentioned: Int64, options?: Omit<MentionRequest, "eventId" | "actor" | "mentioned"> & CallOptions): Promise<MentionAnswer>;
  /**
   * What the acting user wants to be told of.
   *
   * Those of a new user, where none were set.
   */
  preferences(options?: CallOptions): Promise<PreferencesAnswer>;
  /**
   * Set what the acting user wants to be told of.
   *
   * Lists follow them at once. What happens within the next minute may still be stored by the old preferences,
   * and is then not shown.
   */
  putPreferences(options?: PreferencesRequest & CallOptions): Promise<PreferencesAnswer>;
  /**
   * Have notifications ring on a device.
   *
   * Send it each time the app starts: the same device keeps its id. A device that another user registered before
   * belongs to this user from now on. A user has 20 at most.
   */
  addDevice(kind: "apns" | "fcm" | "webpush", options?: Omit<DeviceRequest, "kind"> & CallOptions): Promise<DeviceAnswer>;
  /**
   * Where notifications ring.
   *
   * Oldest registration first, without devices that their provider does not know any more.
   */
  devices(options?: CallOptions): Promise<DevicesAnswer>;
  /**
   * A device.
   *
   * When the app last said that it is there.
   */
  device(device: Int64, options?: CallOptions): Promise<DeviceAnswer>;
  /**
   * Have nothing ring on a device any more.
   *
   * For users who log out. What is on its way may still ring.
   */
  deleteDevice(device: Int64, options?: CallOptions): Promise<void>;
  /**
   * The labels of a post or a user.
   *
   * Its own: a post of a labelled user may have none and be hidden all the same.
   */
  labels(kind: "post" | "user", id: Int64, options?: CallOptions): Promise<LabelsAnswer>;
  /**
   * Label a post or a user.
   *
   * In effect at once. `hide`: only you and its author see it. `limit`: the author's followers see it too.
   * `sensitive`: shown, and marked. A user's labels hold for all their posts and comments. Repeating it changes
   * nothing.
   */
  putLabels(kind: "post" | "user", id: Int64, labels: Array<"hide" | "limit" | "sensitive">, options?: Omit<LabelsRequest, "labels"> & CallOptions): Promise<LabelsAnswer>;
  /**
   * Take all labels off.
   *
   * In effect at once. Repeating it changes nothing.
   */
  deleteLabels(kind: "post" | "user", id: Int64, options?: CallOptions): Promise<LabelsAnswer>;
  /**
   * Have changes sent to a URL.
   *
   * From now on, what /watch would tell is POSTed there: signed with the secret, at least once, in order for a
   * key, and tried again for hours where it is not taken. Answer 2xx within 15 seconds. The URL must be public;
   * redirects are not followed. docs/webhooks.md shows how to check the signature.
   */
  createWebhook(url: string, options?: Omit<WebhookRequest, "url"> & { key?: string } & CallOptions): Promise<WebhookMade>;
  /**
   * All webhooks.
   *
   * Oldest first.
   */
  webhooks(options?: CallOptions): Promise<WebhooksAnswer["webhooks"]>;
  /**
   * A webhook, and how its deliveries stand.
   *
   * Its secret is not told again.
   */
  webhook(webhook: Int64, options?: CallOptions): Promise<WebhookAnswer>;
  /**
   * End a webhook.
   *
   * A delivery that is on its way may still arrive. Its dead letters are forgotten.
   */
  deleteWebhook(webhook: Int64, options?: CallOptions): Promise<void>;
  /**
   * Changes that a webhook did not take.
   *
   * Those that were tried for `webhook_retry_hours` and given up, so that others could follow.
   */
  webhookDeadLetters(webhook: Int64, options?: { limit?: number } & CallOptions): Promise<DeadLetters>;
  /**
   * Send dead letters again.
   *
   * Sends all of them once, beside new changes, marked `replayed`; those not taken become dead letters again.
   * Answers how many.
   */
  replayWebhook(webhook: Int64, options?: CallOptions): Promise<CountAnswer["count"]>;
  /**
   * Is the process alive?
   *
   * Answers as long as the process can answer.
   */
  isAlive(options?: CallOptions): Promise<boolean>;
  /**
   * Can the process serve?
   *
   * 503 with what is wrong when it cannot.
   */
  isReady(options?: CallOptions): Promise<boolean>;
}

/** The body of every error. */
export interface ErrorAnswer {
  error: ErrorPart;
}

/** What went wrong: a code for programs, a message for people, fields for both. */
export interface ErrorPart {
  code: string;
  message: string;
  details: Record<string, unknown>;
}

/** Whether there is an edge. */
export interface Exists {
  exists: boolean;
}

/** Pairs of (source, destination). */
export interface CheckRequest {
  pairs: Array<[Int64, Int64]>;
}

/** One answer a pair, in their order. */
export interface ExistMany {
  exists: boolean[];
}

/** Edges to write, in any order. */
export interface EdgesRequest {
  edges: EdgeRequest[];
}

/**
 * One edge to write. Without `position` a live edge keeps its place; without `updatedAt` it happens now.
 *
 * `move`: gives a live edge another `position`, so that it moves in its lists; where there is none it does nothing.
 * `expiresAt`: an edge that is added is removed at that moment; the last write holds, so one without it makes the edge
 * last.
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

/** How many edges changed, and the token of the write; null if none did. */
export interface EdgesWritten {
  applied: number;
  token: string | null;
}

/** A stored edge. `expiresAt`: where it is removed by itself, when. */
export interface EdgeAnswer {
  source: string;
  destination: string;
  state: string;
  position: string;
  updatedAt: string;
  expiresAt?: string | null;
}

/** A page of a list, newest first. `partial`: of a list by name that is too long, this is about its newest. */
export interface ListAnswer {
  items: Item[];
  pagination: Pagination;
  partial?: boolean;
}

/** One entry of a list: the other end, and its position. */
export interface Item {
  id: string;
  position: string;
}

/** Where to go on. `hasMore` is about older items; `prevCursor` is there when newer ones exist. */
export interface Pagination {
  nextCursor: string | null;
  prevCursor: string | null;
  hasMore: boolean;
}

/** An exact count. */
export interface CountAnswer {
  count: number;
}

/** A set program and the part of its answer that is wanted. */
export interface SelectRequest {
  program: Program;
  limit?: number;
  cursor?: string | null;
}

/** A page of a set program, by id, greatest first. `partial`: it is short, as few of many ids are members. */
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

/** `expiresAt`: until when; without it, until they are unfollowed. */
export interface FollowRequest {
  expiresAt?: string | null;
}

/** Whether the acting user now follows the target, and whether that is new. */
export interface Followed {
  following: boolean;
  changed: boolean;
  token: string | null;
  requested?: boolean;
}

/** Whether the acting user now blocks the target, and whether that is new. */
export interface Blocked {
  blocking: boolean;
  changed: boolean;
  token: string | null;
}

/** Whether the acting user now mutes the target, and whether that is new. */
export interface Muted {
  muting: boolean;
  changed: boolean;
  token: string | null;
}

/** Whether the acting user sees fewer posts of an author for a time. Nobody else learns of it. */
export interface FewerAnswer {
  fewer: boolean;
}

/** Users to compare the acting user with. */
export interface RelationshipsRequest {
  targets: Int64[];
}

/** One row a target, in their order. */
export interface RelationshipsAnswer {
  relationships: RelationshipAnswer[];
}

/** How the acting user and a target stand to each other. */
export interface RelationshipAnswer {
  id: string;
  following: boolean;
  followedBy: boolean;
  requested: boolean;
  blocking: boolean;
  blockedBy: boolean;
  muting: boolean;
}

/** A page of users, newest first; it may be short and still have more. */
export interface UsersAnswer {
  items: UserItem[];
  pagination: Pagination;
}

/** A user in a list, and their position in it. */
export interface UserItem {
  id: string;
  position: string;
  user: AuthorAnswer;
}

/** Who made it. */
export interface AuthorAnswer {
  id: string;
  username: string | null;
  displayName: string;
  avatarUrl: string | null;
  isVerified: boolean;
}

/** The job that does it; see /jobs/{id}. */
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
 * A user. The counts are exact; `postCount` is of all their posts, whoever may see them. `avatar` is the id of an
 * image of theirs, `attributes` are the app's own. `labels`: of the app's moderation, `sensitive` for everybody,
 * `hide` and `limit` for the user.
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

/** Ids of objects of one kind, 100 at most. */
export interface LookupRequest {
  ids: Int64[];
}

/** One answer an id. */
export interface UsersLookedUp {
  users: Array<ProfileAnswer | null>;
}

/**
 * What to set on a user; what is left out stays as it is, null clears it. `private`: follows need their consent;
 * where it ends, those who asked follow.
 *
 * `username`: nobody else has it, in any spelling; null or "" gives it up. `isVerified`: takes a server key.
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

/** Someone to follow. `mutualCount`: how many of the user's followees follow them; `mutuals`: up to 3 of these. */
export interface SuggestionItem {
  id: string;
  mutualCount: number;
  mutuals: string[];
}

/**
 * What the list was made of, and when.
 *
 * network: the followees' followees. popular: nobody was found there, so the most followed accounts, as counted by
 * the last `kith suggest`. none: nobody was found, and that job never ran.
 */
export interface SuggestionsMeta {
  source: "network" | "none" | "popular";
  computedAt: string | null;
}

/** Whether the acting user no longer wants them suggested, and whether that is new. Nobody else learns of it. */
export interface SuggestionHidden {
  hidden: boolean;
  changed: boolean;
  token: string | null;
}

/** A new post. `audience`: users who may see it, where `visibility` is custom. `attributes`: your app's own. */
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

/** What a post says. `mediaIds`: uploads of the author. `type` follows from the rest; given, it must fit. */
export interface ContentRequest {
  text?: string;
  type?: "image" | "link" | "text" | "video" | null;
  link?: string | null;
  mediaIds?: Int64[];
}

/** Where a post is from: degrees north and east, and what people call the place. */
export interface LocationRequest {
  latitude: number;
  longitude: number;
  name?: string;
}

/** A post that is stored; its way into the followers' feeds has begun. */
export interface PostCreated {
  id: string;
  author: AuthorAnswer;
  content: ContentAnswer;
  createdAt: string;
  visibility: "custom" | "friends" | "private" | "public";
  fanoutStatus?: string;
}

/** What a post says. */
export interface ContentAnswer {
  type: "image" | "link" | "text" | "video";
  text: string;
  link: string | null;
  media: MediaAnswer[];
}

/** A picture or video. Whoever knows the addresses sees it; videos have no thumbnail. */
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
 * A post. `audience` is there for its author only, where the visibility is custom.
 * `labels`: of the app's moderation, `sensitive` for everybody, `hide` and `limit` for the author.
 *
 * In a ranked feed: `ranking`; `seen`: true, where the acting user saw it before; `copies`: where there are any, the
 * posts that are not shown beside this one because they are copies of it.
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

/** What a post has got, exactly; `commentCount`: comments and replies. `isLiked`, `isSaved`: by the acting user. */
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
 * A post's score, 0 to 1, and what gave most of it: friend_interaction, recent, popular, content_type, own_post; or
 * followed_board, where a board brought it.
 */
export interface RankingAnswer {
  score: number;
  reason: string;
}

/** One answer an id. */
export interface PostsLookedUp {
  posts: Array<PostAnswer | null>;
}

/** What to change of a post; what is left out stays. A `location` of null takes it away. */
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

/** What to change of what a post says; what is left out stays, null takes link and media away. */
export interface ContentChange {
  text?: string;
  link?: string | null;
  mediaIds?: Int64[] | null;
}

/** A page of posts, newest first; of very many it may be short and still have more. */
export interface PostsAnswer {
  items: PostAnswer[];
  pagination: Pagination;
}

/** Whether the acting user likes it, how many do, and when that changed. */
export interface Liked {
  liked: boolean;
  likeCount: number;
  timestamp: string;
}

/** Whether the acting user has saved it, how many have, and when that changed. */
export interface Saved {
  saved: boolean;
  saveCount: number;
  timestamp: string;
}

/** Whether the acting user has shared it, how many have, and when that changed. */
export interface Shared {
  shared: boolean;
  shareCount: number;
  timestamp: string;
}

/** That the acting user has seen it, how many have, and when they first did. */
export interface Viewed {
  viewed: boolean;
  viewCount: number;
  timestamp: string;
}

/** One answer an id. */
export interface PostsViewed {
  posts: Array<Viewed | null>;
}

/** Whether the acting user no longer wants to see it, and when that changed. Nobody else learns of it. */
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
 * A comment. `replyTo`: the comment it answers. `replies`: the oldest of them, where it is an entry of a page;
 * `replyCount` counts all. `labels`: those of its author, as on posts. `deleted`: it was deleted, or its author left;
 * it has neither text nor author, and is there for its replies.
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

/** A page of comments. `partial`: the order `top` ranked the newest only, and there are more. */
export interface CommentsAnswer {
  items: CommentAnswer[];
  pagination: Pagination;
  totalCount: number;
  partial: boolean;
}

/** The text that stands for it. */
export interface MediaChange {
  altText: string;
}

/** A page of home. It may be short, even empty, and still have more. */
export interface FeedAnswer {
  posts: PostAnswer[];
  pagination: Pagination;
  meta: FeedMeta;
}

/**
 * How the page was made. `requestId`: what it is logged under, yours where that can be used.
 *
 * `degraded`: parts that were not available; what is there is right.
 */
export interface FeedMeta {
  feedType: "latest" | "ranked";
  generatedAt: string;
  requestId: string;
  degraded: string[];
}

/**
 * What decides the place of a post in the acting user's ranked home, as of now.
 *
 * `score` is the sum of what the `parts` add, times `damping` (below 1 after "see fewer", and where the app limits a
 * post of one's own). `excludedBy`: what keeps it out whatever its score (not_followed, muted, hidden, copy), or
 * behind what is unseen (seen). `copyOf`: the post that is shown in its place.
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

/** One feature of a post: its value (0 to 1), its weight, and what it adds to the score. */
export interface ScorePart {
  name: string;
  value: number;
  weight: number;
  adds: number;
}

/** A new story; fields as of a post. `audience`: users who may see it, where `visibility` is custom. */
export interface StoryRequest {
  content: ContentRequest;
  visibility?: "custom" | "friends" | "public";
  audience?: Int64[];
  mentions?: Int64[];
  attributes?: Record<string, unknown>;
}

/**
 * A story. `seen` by the acting user; `audience` and `viewCount` are there for its author only. `labels`: those of
 * its author, as on posts.
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

/** A page of the strip. `partial`: of very many authors with stories only the closest were looked at. */
export interface StripAnswer {
  items: StripEntryAnswer[];
  pagination: Pagination;
  partial: boolean;
}

/** One author's stories, as far as the acting user may see them; `more`: the counts stop at the newest 50. */
export interface StripEntryAnswer {
  id: string;
  author: AuthorAnswer;
  storyCount: number;
  unseenCount: number;
  latestAt: string;
  more: boolean;
}

/** That the acting user has seen it, and when they first did. */
export interface StoryViewed {
  viewed: boolean;
  timestamp: string;
}

/** A page of viewers, latest first; it may be short and still have more. */
export interface ViewersAnswer {
  items: ViewerAnswer[];
  pagination: Pagination;
}

/** Who has seen a story, and when they first did. */
export interface ViewerAnswer {
  id: string;
  user: AuthorAnswer;
  viewedAt: string;
}

/** A page of an author's stories, oldest first; of very many it may be short and still have more. */
export interface StoriesAnswer {
  items: StoryAnswer[];
  pagination: Pagination;
}

/** A new board. `secret`: it is there for its members only. */
export interface BoardRequest {
  name: string;
  secret?: boolean;
}

/** A board. The counts are exact; `pinCount` is of all pins, whoever may see them. */
export interface BoardAnswer {
  id: string;
  owner: AuthorAnswer;
  name: string;
  secret: boolean;
  followerCount: number;
  pinCount: number;
  createdAt: string;
}

/** What to change of a board; what is left out stays. */
export interface BoardChange {
  name?: string | null;
  secret?: boolean | null;
}

/** Who shall own the board: one of its collaborators. */
export interface BoardMove {
  owner: Int64;
}

/** Which board of the same owner takes the pins and followers. */
export interface BoardMerge {
  into: Int64;
}

/** A page of boards, newest first; of very many it may be short and still have more. */
export interface BoardsAnswer {
  items: BoardAnswer[];
  pagination: Pagination;
}

/** Whether the user is now a collaborator of the board. */
export interface InvitedAnswer {
  member: boolean;
  token: string | null;
}

/** Whether the acting user now follows the board, and whether that is new. */
export interface BoardFollowedAnswer {
  following: boolean;
  changed: boolean;
  token: string | null;
}

/**
 * How the acting user follows a user or board. A user: `explicit`, or `implicit` where only some of their boards
 * are followed. A board: `explicit` by itself, or `implicit` through its owner.
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

/** One row a user and one a board, in the order asked. */
export interface BoardsChecked {
  users: FollowedKind[];
  boards: FollowedKind[];
}

/**
 * Exact counts: public boards, boards followed by themselves, and users followed by single boards, both ways.
 * `boardsUnfollowed` is there for the user alone.
 */
export interface InterestsAnswer {
  boardCount: number;
  boardsFollowed: number;
  boardsUnfollowed: number | null;
  implicitFollowing: number;
  implicitFollowers: number;
}

/** The post to put on the board. */
export interface PinRequest {
  post: Int64;
}

/** Whether the post is now on the board, and whether that is new. */
export interface PinnedAnswer {
  pinned: boolean;
  changed: boolean;
  token: string | null;
}

/**
 * A page of notifications, newest first; it may be short and still have more. `unread`: as
 * /notifications/unread counts. `partial`: of the newest 1,000; or mentions of whom the user follows are left out,
 * because too many others were mentioned lately.
 */
export interface NotificationsAnswer {
  items: NotificationAnswer[];
  pagination: Pagination;
  unread: number;
  partial: boolean;
}

/**
 * Something that others did. `ids`: the notifications that stand here as one, the newest first; mark these as read.
 *
 * `actors`: up to 3 of those who did it, the latest first, of `actorCount` in all. `partial`: older ones of it may
 * stand on a later page. `mentioned`: whom a mention names, where it is somebody else.
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

/** The post that a notification is about, and the beginning of its text. GET /posts/{id} has the rest. */
export interface NoticePostAnswer {
  id: string;
  authorId: string;
  type: "image" | "link" | "text" | "video";
  preview: string;
}

/** The comment that a notification is about, and the beginning of its text. */
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

/** How many notifications are unread. `partial`: there are more, beyond the newest 1,000. */
export interface UnreadAnswer {
  count: number;
  partial: boolean;
}

/** Some notifications (1,000 at most), or all up to one. One of the two. */
export interface MarkRequest {
  ids?: Int64[] | null;
  upTo?: Int64 | null;
}

/** How many are unread now. */
export interface MarkedAnswer {
  unread: number;
}

/**
 * `actor` mentioned `mentioned`. `eventId`: your id of this, 1 to 200 characters. `post`: in which post; they are
 * told only where they may see it. `at`: when it was, within the last 90 days; now, if left out.
 */
export interface MentionRequest {
  eventId: string;
  actor: Int64;
  mentioned: Int64;
  post?: Int64 | null;
  at?: string | null;
}

/** `accepted`: the mentioned user is told; not so where a block, mute, privacy or their preferences forbid it. */
export interface MentionAnswer {
  eventId: string;
  accepted: boolean;
}

/** What the user wants to be told of. */
export interface PreferencesAnswer {
  off: Array<"board_follow" | "board_invite" | "comment" | "follow" | "follow_accepted" | "follow_request" | "like" | "mention" | "reply" | "share">;
  mentions: "followed" | "me" | "none" | "these";
  accounts: string[];
  accountsOff: string[];
  quietHours: QuietHoursPart | null;
}

/** From one time of day to another, `22:00` to `07:00`, by the clocks of a time zone (`Europe/Berlin`). */
export interface QuietHoursPart {
  from: string;
  to: string;
  timeZone: string;
}

/**
 * All preferences; what is left out is as it is for a new user. `off`: types that the user is not told of.
 *
 * `mentions`: besides those of the user, of all whom they follow (`followed`), of `accounts` (1,000 at most) among
 * these only (`these`), of nobody else (`me`), or none at all. `accountsOff`: whose doings the user is not told of.
 * In `quietHours` nothing rings; it is listed all the same.
 */
export interface PreferencesRequest {
  off?: Array<"board_follow" | "board_invite" | "comment" | "follow" | "follow_accepted" | "follow_request" | "like" | "mention" | "reply" | "share">;
  mentions?: "followed" | "me" | "none" | "these";
  accounts?: Int64[];
  accountsOff?: Int64[];
  quietHours?: QuietHoursPart | null;
}

/**
 * Where a device is reached, as its provider names that. `webpush`: what the browser's `PushSubscription.toJSON()`
 * says, `endpoint` and `keys`. `apns`: `token`, the device token in hexadecimal digits; `sandbox`, if the app was
 * built for development. `fcm`: `token`, the registration token.
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

/** A device. Where it is reached is a secret, and not told. */
export interface DeviceAnswer {
  id: string;
  kind: "apns" | "fcm" | "webpush";
  registeredAt: string;
}

/**
 * The devices of a user. `kinds`: those that this server can send to. `applicationServerKey`: what a browser asks
 * for before it subscribes; null without `webpush`.
 */
export interface DevicesAnswer {
  devices: DeviceAnswer[];
  kinds: Array<"apns" | "fcm" | "webpush">;
  applicationServerKey: string | null;
}

/** The labels of an object, why, and since when. */
export interface LabelsAnswer {
  id: string;
  type: "post" | "user";
  labels: string[];
  reason: string;
  changedAt: string | null;
}

/** All labels that the object has from now on. `reason`: for yourself; no user is told. */
export interface LabelsRequest {
  labels: Array<"hide" | "limit" | "sensitive">;
  reason?: string;
}

/** Where to send what. `graphs` and `kinds` as for /watch; `secret`: to sign with, made where it is left out. */
export interface WebhookRequest {
  url: string;
  graphs?: string[];
  kinds?: string[];
  secret?: string | null;
}

/** A webhook that was made, and its secret, which is told this once. */
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
 * How its deliveries stand. `place`: up to where it is told, a token of /watch; null: lost, and a gap is told.
 *
 * `eventsBehind`: events of the log that follow, wanted or not; `gap`: some were forgotten before they were told.
 * `failures`: tries in a row that failed; `lastStatus`, `lastError`: of the last try; `resting`: its host failed so
 * often that it is not tried until `nextTryAt`.
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

/** All of them, oldest first. */
export interface WebhooksAnswer {
  webhooks: WebhookAnswer[];
}

/** A webhook; its secret is not told. */
export interface WebhookAnswer {
  id: string;
  url: string;
  graphs: string[];
  kinds: string[];
  createdAt: string;
  state: WebhookState;
}

/** Some of them, oldest first, and how many there are. */
export interface DeadLetters {
  letters: DeadLetter[];
  count: number;
}

/** A change that was given up, as /watch tells it. */
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
 * Whether the process can serve, and what is wrong where it cannot. `standby`: of whom, and how far behind.
 *
 * `rival`: of a primary, that another machine is the primary, too, and what to do.
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
