"""Tests on real distributed engines. Without KITH_TEST_REDIS, as in `make test`, there is nothing to collect here."""

from __future__ import annotations

import os

if "KITH_TEST_REDIS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
