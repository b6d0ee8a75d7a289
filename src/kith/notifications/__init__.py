"""Notifications: which users are notified of what others did.

A *notice* is one stored event. A row of an *inbox* says that a user is notified by a notice.

- on the way in: `intake` (makes notices from events; start here), `external_mentions` (mentions that other systems
  report), `recipients` (who may be notified), `notice` and `notices` (what is stored, once)
- `inbox`: the port of rows
- on the way out: `notifications` (pages, the unread number), `answer_cache` (cached answers), `rules` (what is hidden
  now), `grouping`, `marks` (what was read and seen), `recent` (mentions of accounts with many followers, merged when a
  follower opens the inbox)
- `preferences`: what a user wants to be notified of
- `activity`: the port that knows who is online; `presence` reports it
- mentions, to followers: `mention_consumer` begins walks over the followers, by `router`, `tiers`, `walks`,
  `coordinator`, `pools` and `backpressure`; `outcomes` stores how each ended, `tracing` shows how far one is, `rings`
  logs that rows were written
- `refilling`: rewrites the rows after a restore, because no backup has them
- `audit` finds missing rows, `missing_notices` finds missing notices
- `push/`: sends notices to devices
"""
