"""`python -m kith` is the `kith` command."""

from kith.cli import main

main()
