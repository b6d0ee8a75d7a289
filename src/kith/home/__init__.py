"""The home feed: the posts of those whom a reader follows, and their own, ranked or newest first.

A page goes one way, a folder or file each, and `home` hands each step's answer to the next:

1. `skeleton/` finds ids: from the reader's timeline and the outboxes that it may lack, or from all outboxes.
2. `rank/` scores them, and decides how a page mixes authors, types and new posts.
3. `rules` drops what the reader may not or does not want to see.
4. `slate` is what is left for later pages, in the cursor; `orders` keeps that of a first page for one who comes again.

`visit` is one request: it reads, ranks and checks posts, each once, and goes on without what is down; `degraded`
collects which parts that were. `served` logs what was shown. `timelines` is the port of the cache that `skeleton/`
reads, and `audit` compares it with the outboxes.

`fanout/` writes the timelines: who gets a post pushed, when a timeline is dropped and built again. A full store evicts
the timeline not read for longest (`TimelineStore.put`); the worker evicts those not read for `timeline_days`.
"""
