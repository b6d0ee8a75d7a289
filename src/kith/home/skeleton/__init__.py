"""The first step to a page of home: which ids there are, newest first, before anything is known of them.

`skeleton` (a reader's timeline, merged with the outboxes that it may lack, or all outboxes where it cannot be used) ·
`sources` (whose posts, and their outboxes) · `unhandled` (what fan-out has not handled yet) · `pinned` (pins on boards
that the reader follows).
"""
