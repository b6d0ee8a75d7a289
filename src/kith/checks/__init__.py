"""Three layers in front of `exists_many`, so that distant engines are rarely asked whether an edge is there.

`layers` puts them together: a `filter` in the process, which knows most edges that are not there; `sets` of whom a
source leads to, in memory that all processes share (a port); and the store. `following` keeps a process's filter up to
date from the log, `snapshots` are what it begins with, and `keeper` is the one worker that makes these and drops sets
that changed; `audit` compares sets with the store. A data folder needs none of it: there a check costs less than a look
into any of these.
"""
