"""HTTP/1.1 as a process of the API serves it, over uvloop and httptools (docs/decisions/0043-http-server.md).

`listener` has all connections of a process: it accepts, ends those that rest too long, and drains · `connection` reads
the requests of one client and has each answered in turn · `exchange` is one request and its answer · `headers` ·
`heads`: of requests that came before · `serving_state`: what connections share · `sockets`: which listen, here and at
FlockDB's interface.
TLS and HTTP/2 are a proxy's.
"""
