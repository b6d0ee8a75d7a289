"""People: whom they follow, block and mute, who may see whom, and what they say of themselves.

Files: `relations` (follow, block, mute, requests, lists of people) · `relationships` (how two stand to each other) ·
`barring` (no follow beside a block) · `privacy` (blocks, private and hidden accounts) · `unrestricted` (those of whom
nothing has to be asked) · `accounts` (active, deactivated, removed) · `removal` (the jobs that change this) ·
`going_public` (a private account becomes public) · `profiles` · `usernames` · `names` (the index of names) · `search`
(people by a typed prefix) · `by_name` (lists sorted by name).
"""
