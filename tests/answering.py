"""Old name of `fake_service`."""

from fake_service import *  # noqa: F403
