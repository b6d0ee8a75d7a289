"""The one way in which Kith calls addresses that users gave it: webhooks and push services.

Files: `urls` and `addresses` (which may be called) · `pinned` (resolves a host once, checks, connects to what was
checked) · `stream`, `http2` (connections, and HTTP/2 over them) · `circuits` (a host that fails is left alone for a
while) · `outbound` (one request: deadlines, bounds, no redirects) · `errors` (why there is no answer)
"""
