"""Tests on real distributed engines. Those of one are collected where its variable names it; none in `make test`."""

from __future__ import annotations

import os

ENGINES = ("redis", "cassandra", "s3")
collect_ignore_glob = [f"test_{name}_*.py" for name in ENGINES if f"KITH_TEST_{name.upper()}" not in os.environ]
