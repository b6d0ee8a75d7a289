"""HTTP: every request goes through `door`, by the table of operations, to a method of a resource in `resources/`.

The table: `operations` (a row each, made of a method) · `routing` (finds the row of a path) · `parameters` (types of
what requests say) · `bodies` (decoded, or refused) · `openapi` and `docs` (the table as a document). What a handler
gets: `call`, with `consistency` (sees the caller's own writes); `forms` (uploads). What is answered: `answers` and
`presenter` (shapes) · `post_encoder` (posts, encoded once) · `errors` (ours as statuses) · `behind` (how old a standby
is). Bounds: `sink` (what a slow reader of a stream may cost). Before the door: `cors` (pages of other origins).
"""
