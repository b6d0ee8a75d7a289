"""Edges in named graphs: how writes merge, and which lists and set programs can be read. Knows nothing of people.

Files: `edge` (an edge, the merge law, conditions of a write) · `graphs` (names and numbers of graphs) · `store` (the
port that engines implement) · `shapes` (what it takes and answers) · `questions` (many questions, one call) ·
`graph` (writes and intersections over the port) · `walk` (pages of a filtered list) · `merged` (a page of several
lists) · `programs` (unions, intersections and differences of lists) · `ordered` (long lists by id, for them) ·
`nodes` (archive, restore, remove all edges of a node) · `audit` (compares both ends of every edge).
"""
