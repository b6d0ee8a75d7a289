"""Files of edges: `lines` and `formats` (CSV, TSV, NDJSON, Parquet, compressed or not, as arrays and back),
`loading` (resumable import: sorted bulk load of an empty graph, merge into one in use), `unloading`.
"""
