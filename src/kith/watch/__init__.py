"""Streams changes to the app: every change of chosen graphs, nodes and kinds, in order, and each once if the watcher
resumes from its last token. Users get only changes that they may see.

Files: `changes` (the shape of each kind of change) · `change_filter` (which changes a watcher asked for) · `visibility`
(which of them a user may see) · `tokens` (positions in the log that watchers resume from) · `watch` (the watchers of a
process: each reads past events by itself, and all share one reading of new ones)
"""
