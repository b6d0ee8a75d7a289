"""People: whom they follow, block and mute, who may see whom, and their profiles.

Files: `relations` (follow, block, mute, requests, lists of people) · `relationships` (how two users are related) ·
`block_conflicts` (no follow beside a block) · `privacy` (blocks, private and hidden accounts) · `unrestricted` (cache
of accounts that need no check) · `accounts` (active, deactivated, removed) · `removal` (the jobs that change this) ·
`privacy_switch` (a private account becomes public) · `profiles` · `usernames` · `names` (the index of names) · `search`
(people by a typed prefix) · `name_sorter` (lists sorted by name).
"""
