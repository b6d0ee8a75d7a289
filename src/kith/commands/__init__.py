"""The `kith` command: `cli` assembles it from a file per command or family, each with what it does.

`console` is shared by all of them. Where a command has more to do than fits its file: `transfer` (files of edges),
`communities` (made-up graphs), `capacity` (the arithmetic of `kith plan`), `demo`.
"""
