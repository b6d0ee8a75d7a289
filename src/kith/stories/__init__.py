"""Stories: posts that expire after some hours.

Files: `stories` (create, delete, read, view) · `strip` (whose stories a reader has, and in which order) · `reclaiming`
(deletes expired stories from the store).
"""
