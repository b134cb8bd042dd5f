"""Atomic writes: a file is written completely or not at all, and never through a link."""

import errno
import os
from unittest.mock import Mock

import pytest

from drest_torch.errors import FileError
from drest_torch.files import write_whole


def test_a_link_is_replaced_without_a_change_of_its_target(tmp_path):
    path, elsewhere = tmp_path / "link", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"theirs")
    path.symlink_to(elsewhere)
    write_whole(path, b"ours")
    assert elsewhere.read_bytes() == b"theirs"
    assert path.read_bytes() == b"ours"
    assert path.lstat().st_mode == elsewhere.lstat().st_mode  # a regular file with the usual permissions


def test_a_link_with_the_name_of_the_temporary_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("drest_torch.files.secrets.token_hex", lambda _: "name")
    (tmp_path / ".name.partial").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="File exists"):
        write_whole(tmp_path / "file", b"ours")
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "file").exists()


def test_simultaneous_writes_of_a_file_do_not_mix(tmp_path, monkeypatch):
    path = tmp_path / "file"
    fsync = os.fsync

    def second_in_between(descriptor):
        monkeypatch.setattr(os, "fsync", fsync)
        write_whole(path, b"second")
        assert path.read_bytes() == b"second"

    monkeypatch.setattr(os, "fsync", second_in_between)
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_file_untouched(tmp_path, monkeypatch, step):
    path = tmp_path / "file"
    write_whole(path, b"before")
    reason = "No space left on device"
    monkeypatch.setattr(os, step, Mock(side_effect=OSError(errno.ENOSPC, reason)))
    with pytest.raises(FileError) as caught:
        write_whole(path, b"after")
    assert str(caught.value) == f"{path}: cannot be written ({reason}); the previous content is unchanged"
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
