"""Imports and exports files of edges and pins.

Files: `lines` and `formats` (edges as CSV, TSV, NDJSON, Parquet, compressed or not) · `pins` (files of pins) ·
`loading` (resumable import: a sorted bulk load of an empty graph, or a merge into a graph in use) · `exporting`
(export).
"""
