"""Posts and comments: who may see them, and what others do with them.

Files: `posts` (create, edit, delete, and read what a viewer may see) · `cached` (those read lately) · `post` (what a
post is and may hold; pure) · `mentions` (whom a text mentions; pure) · `visibility` (who may see what; pure) ·
`comments` (and replies) · `comment_reader` (what a viewer sees of them) · `comment` (what a comment is; pure) ·
`threads` (the lists of comments) · `top_comments` (the most liked first) · `engagement` (likes, saves, shares, views,
hides) · `labels` (the app's moderation).
"""
