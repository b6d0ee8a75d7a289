"""Records of any kind, kept by kind and id beside the graph.

Files: `store` (the port that engines implement) · `rewriting` (change a record unless somebody else did, and retry) ·
`claims` (Idempotency-Keys) · `fields` (checks of fields that several kinds have) ·
`memory` (what a process keeps of what it read, until the log tells that it changed), in `tables`; `endings` (edges
that change without an event).
"""
