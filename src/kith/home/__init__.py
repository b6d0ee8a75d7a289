"""The home feed, streams of it, and the strip of stories.

Rooms: who gets a post pushed, `plan` or `rates`, `withheld` (whose posts are not pushed to all), `deliveries` (pushes
under way) · a page: `sources` (whose posts, from where), `skeleton` (their ids), `ranker` with `facts`, `affinity` and
`rank/`, `dealer` and `slate` (ranked paging), `rules` (what never shows), `service` (all of it), `served` (what was
shown) · streams: `live` with `changes`, `missed`, `readers`, `telling` · `strip` (stories: whose, in which order).
"""
