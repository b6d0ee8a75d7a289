"""Moves a store into another one on any engine, while the first is written to: `kith move`.

`contents` is the port of all data of a store. `table_copy` copies it, and can be resumed; `log_replay` replays the log
from then on; both write through `store_writer`; `store_comparison` proves that the two stores hold the same.
`run/moves` opens the two stores, fences the old one, and knows the way back.
"""
