"""Posts and comments: who may see them, and what people do with them.

Files: `posts` (create, edit, delete, and read what a viewer may see) · `post_cache` (a cache of posts) · `post` (the
fields of a post and their limits; pure) · `mentions` (`@username` in a text) · `visibility` (who may see what; pure) ·
`comments` (comments and replies) · `comment_reader` (reads what a viewer may see of them) · `comment` (the fields of a
comment; pure) · `threads` (the lists of comments) · `top_comments` (the most liked first) · `engagement` (likes, saves,
shares, views, hides) · `labels` (the app's moderation).
"""
