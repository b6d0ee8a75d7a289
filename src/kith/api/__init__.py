"""HTTP. `door` (every request) over `operations` (the table), `routing`, `exchange` and `deadline`; one file per
resource in `resources/`; `call` and `parameters` (what they are given), `answers` and `presenter` (what they answer
with), `errors` (ours as status numbers); `openapi` and `docs` (the table as a document); `cors` (pages of other
origins) before the door; `sockets` (what clients have not taken) and `paced` (what is costly) for streams and metrics.
"""
