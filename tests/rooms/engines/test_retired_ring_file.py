"""A file of timelines that is replaced or removed, on a disk that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kith.engines.embedded import ring_file


def test_a_file_that_cannot_be_retired_keeps_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring_file.create(tmp_path / ring_file.FILE, 300)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", fail)
    descriptors = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Input/output error"):
        ring_file.remove(tmp_path / ring_file.FILE)
    assert sorted(os.listdir("/proc/self/fd")) == descriptors
