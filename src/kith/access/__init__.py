"""Authenticates callers, decides what they may read and do, and limits how often. Every door uses this policy.

`guard`: credentials and requests per second. `credentials`: the port of keys and secrets. `policy`: who may read which
lists and edges. `quotas`: how often a user may post, comment, upload or load a feed, over `sliding_window` (rule and
port). `people.privacy` decides who may see whom, and `posts.visibility` which posts.
"""
