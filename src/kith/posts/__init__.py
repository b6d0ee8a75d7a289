"""What people make: profiles, posts, comments, media; who may see them, and what others do with them.

Rooms: `store` (the port engines implement) · `posts` (what a post is and may hold) · `visibility` (who may see
it: the hard rules, decided purely) · `service` (making, editing, deleting, and the one door to read posts
through) · `comments` · `engagement` (likes, saves, shares, views, hides as edges) · `profiles` · `usernames` (one
user each) · `labels` (the app's moderation) · `uploads` (taking in pictures and videos) over `media` (their records),
`images`, `videos` and `endings` (what may be shown of a file) · `blobs` (the port that keeps the files) · `stories`
(posts that are over after a day) and `reclaiming` (their room given back).
"""
