"""Tells the app what changes: every change of chosen graphs, nodes and kinds, in order, each once if the watcher
resumes from its last token. Users are told what they may see of it.

Files: `told` (each kind of change as it is told) · `wanted` (which changes somebody asked for) · `seeing` (what a user
may see of them) · `tokens` (places in the log that watchers keep) · `watch` (the watchers of a process: each reads its
past by itself, all share the end of the log)
"""
