"""Moves a store into another one on any engine, while the first is written to: `kith move`.

`contents` is the port of all data of a store. `copying` copies it, and can be resumed; `replaying` replays the log from
then on; both write through `writing`; `comparing` proves that the two stores hold the same. `run/moves` opens the two
stores, fences the old one, and knows the way back.
"""
