"""HTTP/1.1 server of an API process, over uvloop and httptools (docs/decisions/0043-http-server.md).

`listener`: accepts the connections of a process, closes idle ones, and drains them at the end. `connection`: parses the
requests of one client and answers them in order. `exchange`: one request and its answer. `headers`: request headers.
`heads`: a cache of parsed request heads. `serving_state`: what the connections of a process share. `sockets`: listening
sockets, also for FlockDB's interface. TLS and HTTP/2 are left to a proxy.
"""
