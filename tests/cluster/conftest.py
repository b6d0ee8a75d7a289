"""Tests on real distributed engines. Those of an engine are collected where its variable names it, not in `make test`."""

from __future__ import annotations

import os

ENGINES = ("redis", "cassandra")
collect_ignore_glob = [f"test_{name}_*.py" for name in ENGINES if f"KITH_TEST_{name.upper()}" not in os.environ]
