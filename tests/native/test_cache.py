"""The object cache: what is read back is what was written, or nothing."""

import errno
import os
import stat
from pathlib import Path

import pytest

from ort_lite.native import cache, private

KEY = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def nothing_is_said_yet() -> None:
    cache._said.clear()
    cache._trouble.cache_clear()


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


def test_the_folder_is_private_and_so_is_what_is_made_above_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache.write(str(tmp_path / "a" / "b"), KEY, b"code")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.stat(tmp_path / path).st_mode) for path in ("a", "a/b", f"a/b/{KEY}")]
    assert modes == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("mode", [0o702, 0o720, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(folder: str, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    cache.write(folder, KEY, b"code")
    os.chmod(folder, mode)
    assert cache.read(folder, KEY) is None
    assert not cache.write(folder, KEY, b"code")
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"{folder} can be written by others: compiled kernels are neither kept nor found")


@pytest.mark.parametrize(("mode", "used"), [(0o777, False), (0o775, False), (0o1777, True), (0o755, True)])
def test_nobody_else_can_put_another_folder_in_its_place(tmp_path: Path, mode: int, used: bool) -> None:
    above = tmp_path / "above"
    folder = str(above / "kernels")
    cache.write(folder, KEY, b"code")
    above.chmod(mode)
    cache._trouble.cache_clear()  # as another process, which looks for itself
    (tmp_path / "link").symlink_to("above/kernels")
    assert (cache.read(folder, KEY) == b"code") == used
    assert (cache.read(str(tmp_path / "link"), KEY) == b"code") == used


def test_what_another_user_owns_is_not_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is root may own anything."""
    stranger = os.stat_result((stat.S_IFREG | 0o600, 0, 0, 1, os.getuid() + 4711, 0, 0, 0, 0, 0))
    assert private.trouble_of(stranger, final=True) == "belongs to another user"
    link = os.stat_result((stat.S_IFLNK | 0o777, *stranger[1:]))
    assert private.trouble_of(link, final=False) == "belongs to another user"
    root = os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    assert private.trouble_of(root, final=True) == ""


@pytest.mark.parametrize("kind", ["group", "others", "link"])
def test_an_object_that_others_could_have_written_is_none(folder: str, kind: str, tmp_path: Path) -> None:
    cache.write(folder, KEY, b"code")
    path = Path(folder, KEY)
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.chmod(0o620 if kind == "group" else 0o602)
    assert cache.read(folder, KEY) is None
    assert cache.write(folder, KEY, b"code")
    assert cache.read(folder, KEY) == b"code"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_said_once(
    folder: str, number: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refuse)
    assert not cache.write(folder, KEY, b"code")
    assert not cache.write(folder, KEY, b"code")
    assert os.listdir(folder) == []
    (message,) = caplog.messages
    assert message.startswith(f"{folder}: {os.strerror(number)}; compiled kernels are not kept there")


def test_a_folder_that_cannot_be_made_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    for _ in range(2):
        assert not cache.write(str(tmp_path / "file" / "below"), KEY, b"code")
        assert cache.read(str(tmp_path / "file" / "below"), KEY) is None
    assert len(caplog.messages) == 1


def test_without_a_home_nothing_is_kept(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_LITE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # neither HOME nor an entry for the user
    assert cache.directory() == ""
    assert cache.read("", KEY) is None
    assert not cache.write("", KEY, b"code")
    assert ["no home folder" in message for message in caplog.messages] == [True]


def test_the_time_of_an_object_is_that_of_its_last_use(folder: str) -> None:
    cache.write(folder, KEY, b"code")
    path = os.path.join(folder, KEY)
    now = os.stat(path).st_mtime
    for age, touched in ((3600, False), (2 * 86400, True)):
        os.utime(path, (now - age, now - age))
        cache.read(folder, KEY)
        assert (os.stat(path).st_mtime >= now) == touched


def test_the_time_of_last_use_is_set_without_a_descriptor(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where os.utime raises TypeError for one."""
    cache.write(folder, KEY, b"code")
    path = os.path.join(folder, KEY)
    long_ago = os.stat(path).st_mtime - 2 * cache.DAY
    os.utime(path, (long_ago, long_ago))
    utime = os.utime

    def by_path(path: str | int) -> None:
        if isinstance(path, int):
            raise TypeError("utime: path should be string, bytes or os.PathLike, not int")
        utime(path)

    monkeypatch.setattr(os, "utime", by_path)
    assert cache.read(folder, KEY) == b"code"
    assert os.stat(path).st_mtime > long_ago + cache.DAY


def test_objects_are_opened_as_bytes_where_texts_are_another_mode(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where a file that is opened without O_BINARY ends at the first Ctrl-Z."""
    binary = 1 << 40
    seen: list[int] = []
    system_open = os.open

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        seen.append(flags)
        return system_open(path, flags & ~binary, mode)

    cache.write(folder, KEY, b"code")
    monkeypatch.setattr(os, "O_BINARY", binary, raising=False)
    monkeypatch.setattr(os, "open", opened)
    assert cache.read(folder, KEY) == b"code"
    assert [bool(flags & binary) for flags in seen] == [True]


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", "/chosen")
    assert cache.directory() == "/chosen"
    monkeypatch.delenv("ORT_LITE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache.directory() == "/cache/ort-lite/kernels"
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache.directory() == "/home/somebody/.cache/ort-lite/kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.directory() == "/home/somebody/.cache/ort-lite/kernels"
