"""Edges in named graphs: how writes merge, and which lists and set programs can be read. Knows nothing of people.

`edge`: an edge, the merge law, the conditions of a write. `graphs`: names and numbers of graphs. `store`: the port that
engines implement. `shapes`: the types that the port takes and returns. `questions`: many reads in one call. `graph`:
writes and intersections over the port. `walk`: pages of a filtered list. `page_merge`: one page of several lists.
`programs`: unions, intersections and differences of lists. `ordered_lists`: long lists by id, for programs.
`node_jobs`: archives, restores or removes all edges of a node. `audit`: compares both ends of every edge.
"""
