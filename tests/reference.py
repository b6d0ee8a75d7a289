"""Old name of `reference_edges`."""

from reference_edges import *  # noqa: F403
