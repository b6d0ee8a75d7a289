"""FlockDB's Thrift door: clients of FlockDB work unchanged on Kith's graphs. docs/flockdb.md lists what differs.

`interface.thrift` is the service and its shapes, which `interface` loads; `messages` finds and reads messages in what
a client sends; `door` holds the connections; `calls` does each method. `selects` compiles and pages queries,
`executes` does writes, `jobs` what is done later. Knows the graph only, and nothing of people: any client that can
connect may do everything.
"""
