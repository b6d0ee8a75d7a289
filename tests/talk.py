"""Old name of `calls`."""

from calls import *  # noqa: F403
