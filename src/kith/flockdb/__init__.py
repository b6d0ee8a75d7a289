"""FlockDB's Thrift interface: clients of FlockDB work unchanged on Kith's graphs. docs/flockdb.md lists the
differences.

`interface.thrift` is the service and its types, which `interface` loads. `messages` finds whole messages in a client's
bytes. `door` holds the connections. `calls` implements the methods. `selects` compiles and pages queries, `executes`
writes edges, `jobs` runs deferred writes. This room knows only the graph and nothing of people, and it checks no
credentials: every client that can connect may do everything.
"""
