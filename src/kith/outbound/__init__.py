"""The only way in which Kith calls addresses that users gave it: webhooks and push services.

Files: `urls` and `addresses` (which may be called) · `pinned` (resolves a host once, checks every address, connects to
a checked one) · `stream`, `http2` (connections, and HTTP/2 over them) · `circuits` (circuit breakers per host) ·
`outbound` (one request: deadlines, bounds, no redirects) · `errors` (why there is no answer)
"""
