"""People: whom they follow, block and mute, who may see whom, and their profiles.

Files: `relations` (follow, block, mute, requests, lists of people) · `relationships` (how two users are related) ·
`barring` (no follow beside a block) · `privacy` (blocks, private and hidden accounts) · `unrestricted` (cache of
accounts that need no check) · `accounts` (active, deactivated, removed) · `removal` (the jobs that change this) ·
`going_public` (a private account becomes public) · `profiles` · `usernames` · `names` (the index of names) · `search`
(people by a typed prefix) · `by_name` (lists sorted by name).
"""
