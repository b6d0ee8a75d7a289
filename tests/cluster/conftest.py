"""Tests on real distributed engines; without KITH_TEST_REDIS and the like, as in `make test`, there is none.

Those that kill servers start their own, and are for `make test-cluster-faults`, which sets KITH_TEST_FAULTS.
"""

from __future__ import annotations

import os

ENGINES = ("redis", "kafka")
collect_ignore_glob = [f"test_{engine}_*.py" for engine in ENGINES if f"KITH_TEST_{engine.upper()}" not in os.environ]
if "KITH_TEST_FAULTS" not in os.environ:
    collect_ignore_glob.append("*_faults.py")
