"""Notifications: who is told of what others did.

A *notice* is one stored event; a row of an *inbox* says that a user is told of it. On the way in: `intake` (makes
notices of events: begin here), `outside` (mentions that other systems report), `recipients` (who may be told),
`notice` and `notices` (what is stored, once) · `inbox` (the port of rows) · on the way out: `notifications` (pages,
the unread number), `kept` (answers, until something that they rest on changes), `rules` (what is hidden now),
`grouping`, `marks` (what was read and seen), `recent` (mentions of accounts with many followers, merged when a
follower opens the inbox) · `preferences` (what a user wants to be told of) · `activity` (the port that knows who is
online), `presence` (reports it) · `spread` (tells followers of mentions), by `router`, `tiers`, `walks`,
`coordinator`, `pools`, `backpressure`; `outcomes` keeps the result of each, `tracing` tells how far one has come,
`rings` logs that rows were written · `refilling` writes the rows again after a restore, as no backup has them ·
`audit` (finds missing rows), `untold` (finds missing notices) · `push/` (sends to devices).
"""
