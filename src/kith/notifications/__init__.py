"""Notifications: who is told of what others did.

A *notice* is one stored event; a row of an *inbox* says that a user is told of it. On the way in: `intake` (what the
log tells whom: begin here), `outside` (mentions that other systems report), `recipients` (who may hear of it), `notice`
and `notices` (what is stored, once) · `inbox` (the port of rows) · on the way out: `notifications` (pages, the unread
number), `rules` (what is hidden now), `grouping`, `marks` (what was read and seen), `recent` (mentions of accounts with
many followers, found by who looks) · `preferences` (what a user wants to be told of) · `activity` (the port that knows
who is here), `presence` (tells it) · `spread` (followers who asked hear of mentions), by `router`, `tiers`,
`walks`, `coordinator`, `pools`, `backpressure`; `outcomes` says what became of each, `rings` tells the log that rows
were given · `refilling` writes rows again that are in no backup · `audit` (rows that are missing), `untold`
(notices that are) · `push/` (what
rings on devices).
"""
