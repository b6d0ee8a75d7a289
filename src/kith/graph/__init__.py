"""The social graph: what an edge is, how writes merge, which lists and set programs can be asked for.

Rooms: `edge` (merge law) · `select` (set programs) · `store` (the port engines implement) · `service`
(follow, block, mute, lists: the rules of the product) · `nodes` (bulk operations on all edges of a node)
· `audit` (compares both ends of every edge). Edges live in named graphs; see `graphs`.
"""
