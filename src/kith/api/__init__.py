"""The HTTP API. `door` handles every request: it finds the operation in the table and calls a method of a resource in
`resources/`.

The table: `operations` (one row per operation, built from its method), `routing` (finds the row for a path),
`parameters` (types of path, query and header parameters), `bodies` (decodes request bodies), `openapi` and `docs` (the
table as a document). What a handler gets: `call`, with `consistency` (read your own writes), and `forms` (uploads).
Answers: `answers` and `presenter` (shapes), `post_encoder` (posts, encoded once), `errors` (errors as HTTP statuses),
`lag_header` (the lag of a standby). Bounds: `sink` (what a slow reader of a stream may cost). Before the door: `cors`
(pages of other origins).
"""
