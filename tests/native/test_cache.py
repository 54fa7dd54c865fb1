"""The object cache: what is read back is what was written, or nothing."""

import os
import stat
from pathlib import Path

import pytest

from ort_lite.native import cache

KEY = "0123456789abcdef" * 2


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "kernels")


def test_an_object_is_read_back(folder: str) -> None:
    assert cache.read(folder, KEY) is None
    assert cache.write(folder, KEY, b"code")
    assert cache.read(folder, KEY) == b"code"
    assert os.listdir(folder) == [KEY]


@pytest.mark.parametrize("damage", [b"", b"junk", None, "flipped", "shortened"], ids=str)
def test_a_damaged_file_is_no_object(folder: str, damage: object) -> None:
    cache.write(folder, KEY, b"code" * 100)
    path = Path(folder, KEY)
    data = path.read_bytes()
    if isinstance(damage, bytes):
        path.write_bytes(damage)
    elif damage == "flipped":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "shortened":
        path.write_bytes(data[:-1])
    else:
        path.rename(Path(folder, "f" * 32))
        Path(folder, "f" * 32).replace(Path(folder, "e" * 32))
        assert cache.read(folder, "e" * 32) is None  # right content, wrong name
    assert cache.read(folder, KEY) is None


def test_the_folder_is_private(folder: str) -> None:
    cache.write(folder, KEY, b"code")
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    private, shared = tmp_path / "private", tmp_path / "shared"
    cache.write(str(private), KEY, b"code")
    private.rename(shared)
    shared.chmod(0o777)
    with pytest.warns(UserWarning, match="can be written by others"):
        assert cache.read(str(shared), KEY) is None
    with pytest.warns(UserWarning, match="can be written by others"):
        assert not cache.write(str(shared), KEY, b"code")


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert not cache.write(str(tmp_path / "file"), KEY, b"code")


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", "/chosen")
    assert cache.directory() == "/chosen"
    monkeypatch.delenv("ORT_LITE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache.directory() == "/cache/ort-lite/kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache.directory() == "/home/somebody/.cache/ort-lite/kernels"
