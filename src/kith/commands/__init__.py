"""The `kith` command: `cli` parses and prints; beside it what the commands do."""
