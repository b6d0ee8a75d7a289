"""From one store into another, on whatever engines, while the first is being written to: `kith move`.

`contents` is the port of all that a store holds. `copying` copies it, and may be cut short; `replaying` does what the
log tells from there on; `writing` is how both write; `comparing` proves that the two hold the same. What they are
opened on, the fence between them and the way back are in `run/moves`.
"""
