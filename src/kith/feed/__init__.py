"""The home feed: `plan` (push, hybrid or pull) · `sources` (whose posts, from where) · `service` (a page of home)."""
