"""The first step of a page of home: finds post ids, newest first, before any record is read.

`skeleton` merges a reader's timeline with the outboxes of authors that it may lack, or reads all outboxes if the
timeline cannot be used. `sources` reads followed authors and outboxes, `unhandled` the events that fan-out has not
handled yet, `pinned` the pins on boards that the reader follows.
"""
