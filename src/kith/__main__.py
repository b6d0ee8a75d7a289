"""`python -m kith` is the `kith` command."""

from kith.commands.cli import main

main()
