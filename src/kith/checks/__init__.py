"""Three layers that answer edge checks (`exists_many`), so that remote engines are rarely queried.

`layers` combines them: a `filter` in the process, which rules out most edges that do not exist; cached `sets` of a
source's destinations, in memory that all processes share (a port); and the store. `live_filter` keeps a process's
filter up to date from the log, starting from a snapshot (`snapshots`). `worker` is the single worker that makes
snapshots and drops sets that changed. `audit` compares sets with the store. A data folder uses none of this: there a
check costs less than a lookup in any of these layers.
"""
