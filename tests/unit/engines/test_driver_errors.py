"""Error messages of a store for errors of LMDB or the system: what was tried, and what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import lmdb
import pytest

from kith.core.errors import StoreFull, StoreUnavailable
from kith.engines.embedded import owners
from kith.engines.embedded.driver_errors import translate, translate_errors

CUT_SHORT = OSError("1000 requested and 96 written")  # as NumPy raises it, without an errno


@pytest.mark.parametrize("error", [lmdb.CorruptedError("mdb_get"), lmdb.PageNotFoundError("mdb_get")])
def test_the_error_for_a_damaged_store_says_to_restore_a_backup(error: lmdb.Error) -> None:
    said = translate(error, "read")
    assert isinstance(said, StoreUnavailable)
    assert "could not read: the store is damaged" in said.message
    assert "restore a backup (`kith restore`)" in said.message


def test_an_error_without_an_errno_keeps_its_own_words(tmp_path: Path) -> None:
    says = "could not load: 1000 requested and 96 written"
    with pytest.raises(StoreUnavailable, match=says), translate_errors("load", tmp_path):
        raise CUT_SHORT


def test_an_error_without_an_errno_on_a_full_disk_is_reported_as_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4_096))
    with (
        pytest.raises(StoreFull, match="no room on the disk to load; free some and repeat"),
        translate_errors("load", tmp_path),
    ):
        raise CUT_SHORT


def test_the_error_for_a_file_of_another_user_names_the_file_the_user_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "owner_of", lambda _: 0)
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    file = tmp_path / "servers.lock"
    file.touch()
    says = f"could not open it: no permission for {file}, which belongs to root; run this as that user, or .*chown"
    with pytest.raises(StoreUnavailable, match=says), translate_errors("open it", tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", str(file))
    says = f"no permission for {tmp_path / 'new'}, which belongs to root"
    with pytest.raises(StoreUnavailable, match=says), translate_errors("open it", tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "new"))


def test_the_error_for_a_file_of_our_own_advises_no_other_user(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as said, translate_errors("open it", tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "new"))
    assert said.value.message == f"could not open it: no permission for {tmp_path / 'new'}"
