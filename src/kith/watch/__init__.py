"""What changes, told to the app: every change of chosen graphs, nodes and kinds, in order, each once for who keeps its
token.

Files: `told` (each kind of change as it is told) · `wanted` (which changes somebody asked for) · `tokens` (places in
the log that watchers keep) · `watch` (the watchers of a process: each reads its past by itself, all share the end of
the log)
"""
