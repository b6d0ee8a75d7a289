"""The home feed: `plan` (push, hybrid or pull) · `sources` (whose posts, from where) · `service` (a page of home).

Over it the strip of stories: `strip` (whose, in which order; `affinity` says who is close).
"""
