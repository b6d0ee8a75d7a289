"""`python -m kith`, and the `kith` command."""

import os
import signal
import sys

_INTERRUPTED = 130
"""The exit status that shells know of a command that was ended by Ctrl-C."""
_TERMINATED = 143
"""The same of SIGTERM."""


def main() -> None:
    """Run a command. Ctrl-C ends it without a traceback, also while it is being imported.

    In a container it is the first process, which the kernel sends no signal that it has no handler for.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        from kith.commands.cli import main as run  # noqa: PLC0415 - it takes as long as half a second

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
