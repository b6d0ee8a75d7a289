"""Who calls, what they may read and do, and how often: all of that policy, which every door asks.

`guard` (credentials, requests a second) · `credentials` (the port of keys and secrets) · `policy` (whose lists and
edges) · `quotas` (how often a user may post, comment, upload, load a feed), over `sliding_window` (rule and port). Who
may see whom is decided in `people.privacy`, which post in `posts.visibility`.
"""
