"""The home feed: the posts of those whom a reader follows, and their own, ranked or newest first.

A page goes one way, and `home` hands each step's answer to the next. `skeleton` finds ids: from the reader's timeline
and the outboxes that it may lack, or from all outboxes where it cannot be used (`sources` says whose posts;
`unhandled` what fan-out has not come to; `timelines` is the port of this cache). `ranker` scores them by what `facts`
knows of posts, `affinity` of the reader, and the pure functions of `rank/`; `rank/page` decides how a page mixes
authors, types and new posts. `rules` comes last and drops what the reader may not or does not want to see. `slate` is
what is left, in the cursor; `orders` keeps that of a first page for one who comes again; `served` logs what was shown;
`degraded` collects which parts were away.

`fanout/` writes the timelines: who gets a post pushed, when a timeline is dropped and built again. A full store evicts
the timeline not read for longest (`TimelineStore.put`); the worker evicts those not read for `timeline_days`.
"""
