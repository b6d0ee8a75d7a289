"""Files in and out, as arrays and back.

Files: `lines` and `formats` (edges as CSV, TSV, NDJSON, Parquet, compressed or not) · `pins` (who pinned what) ·
`loading` (resumable import: sorted bulk load of an empty graph, merge into one in use) · `unloading`.
"""
