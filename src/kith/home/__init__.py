"""The home feed: posts of the accounts that a reader follows, and the reader's own, ranked or newest first.

A page is made in four steps. `home` calls them in this order and hands each result to the next:

1. `skeleton/` finds ids, from the reader's timeline and the outboxes it may lack, or from all outboxes.
2. `rank/` scores the posts and decides how a page mixes authors, types and new posts.
3. `rules` drops posts that the reader may not see or does not want to see.
4. `slate` holds the ranked posts that are left for later pages; the cursor carries it. `orders` caches the order of a
   first page for 30 s.

`visit` is one request: it reads, ranks and checks each post once. When a part is down, the visit continues without it
and `degraded` records the part. `served` logs which posts were shown. `timelines` is the port of the timeline cache;
`audit` compares timelines with the outboxes.

`fanout/` writes the timelines: it decides which followers get a post pushed, and drops and rebuilds timelines. A full
store evicts the least recently read timeline (`TimelineStore.put`); the worker evicts timelines not read for
`timeline_days`.
"""
