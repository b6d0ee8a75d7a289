"""Tests on real distributed engines; without KITH_TEST_REDIS and the like, as in `make test`, there is none."""

from __future__ import annotations

import os

collect_ignore_glob = [
    f"test_{engine}_*.py" for engine in ("redis", "kafka") if f"KITH_TEST_{engine.upper()}" not in os.environ
]
