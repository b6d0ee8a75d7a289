"""Copies an open store: the form of old backups, and of the first copy that a standby gets."""

from __future__ import annotations

import os
from pathlib import Path

from kith.engines.embedded.environment import Environment
from kith.engines.embedded.store_file import STORE_FILE


def copy_store(environment: Environment, folder: Path) -> None:
    """Write a compacted, consistent copy to a folder. Others may read and write meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / STORE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        environment.lmdb.copyfd(descriptor, compact=True)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
