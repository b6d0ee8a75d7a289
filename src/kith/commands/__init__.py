"""The `kith` command: `cli` assembles it from the other files, one per command or family of commands.

`console` holds what all commands share. Larger commands have helpers: `transfer` (files of edges), `communities`
(generated graphs), `capacity` (the arithmetic of `kith plan`), `demo`.
"""
