"""`python -m kith`, and the `kith` command."""

import sys

_INTERRUPTED = 130
"""The exit status that shells know of a command that was ended by Ctrl-C."""


def main() -> None:
    """Run a command. Ctrl-C ends it without a traceback, also while it is being imported."""
    try:
        from kith.commands.cli import main as run  # noqa: PLC0415 - it takes as long as half a second

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
