"""Tests on real distributed engines. Tests of an engine are collected if its KITH_TEST_ variable is set.

`make test` sets none. Tests that kill servers start their own; `make test-cluster-faults` sets KITH_TEST_FAULTS to run
them.
"""

from __future__ import annotations

import os

ENGINES = ("redis", "cassandra", "kafka", "s3")
collect_ignore_glob = [f"test_{name}_*.py" for name in ENGINES if f"KITH_TEST_{name.upper()}" not in os.environ]
if not {"KITH_TEST_CASSANDRA", "KITH_TEST_KAFKA", "KITH_TEST_REDIS"} <= os.environ.keys():
    collect_ignore_glob.append("test_serving_*.py")
if "KITH_TEST_FAULTS" not in os.environ:
    collect_ignore_glob.append("*_faults.py")
