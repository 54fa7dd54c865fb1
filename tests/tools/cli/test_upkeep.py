"""Looking after a cache folder: what is in it, what is wrong, what may go, and all of it in one file."""

import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.native import Spec, cache
from ort_lite.native.cpu import host
from ort_lite.native.spec import key_of
from ort_lite.tools.cli import upkeep
from tests.native import kernels

DAY = 86400.0
CURRENT = key_of(Spec(kernels.add, ("f32",) * 3), host())
STALE = ("0" if CURRENT[0] != "0" else "1") + CURRENT[1:]


def another(number: int) -> str:
    """A key of this version."""
    return CURRENT[:-4] + f"{number:04x}"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Three objects of 1,000 bytes and more, used now, 2 and 40 days ago; one of another version; files that are none."""
    made = str(tmp_path / "kernels")
    for key, days in ((another(1), 0), (another(2), 2), (another(3), 40), (STALE, 1)):
        cache.write(made, key, bytes(1000))
        os.utime(os.path.join(made, key), (time.time() - days * DAY,) * 2)
    Path(made, ".claims").touch()
    Path(made, "notes").touch()
    return made


def test_objects_are_listed_by_their_last_use(folder: str) -> None:
    found = upkeep.entries(folder)
    assert [entry.key for entry in found] == [another(1), STALE, another(2), another(3)]
    assert [entry.stale for entry in found] == [False, True, False, False]
    assert {entry.nbytes for entry in found} == {1000 + 18 + 20}
    assert upkeep.entries(folder + "/none") == upkeep.entries("") == []


def test_what_is_wrong_is_found(folder: str) -> None:
    damaged, shared, unfinished = Path(folder, another(1)), Path(folder, another(2)), Path(folder, another(3) + ".x1y2")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    shared.chmod(0o666)
    unfinished.touch()
    assert upkeep.find_partial_files(folder) == []  # somebody may be writing it
    os.utime(unfinished, (0, 0))
    assert upkeep.find_partial_files(folder) == [unfinished.name]
    wrong = [upkeep.trouble(folder, another(number)) for number in (1, 2, 3, 4)]
    assert wrong == ["is not what was written", "can be written by others", "", "No such file or directory"]


@pytest.mark.parametrize(
    ("stale", "days", "nbytes", "kept"),
    [
        (True, None, None, [1, 2, 3]),
        (True, 30.0, None, [1, 2]),
        (True, 0.5, None, [1]),
        (True, None, 2100, [1, 2]),
        (True, None, 0, []),
    ],
)
def test_what_was_used_longest_ago_goes_first(
    folder: str, stale: bool, days: float | None, nbytes: int | None, kept: list[int]
) -> None:
    found = upkeep.entries(folder)
    gone = upkeep.to_prune(found, stale, days, nbytes)
    assert [entry.key for entry in found if entry not in gone] == [another(number) for number in kept]
    upkeep.remove(folder, [entry.key for entry in gone])
    assert sorted(os.listdir(folder)) == sorted([".claims", "notes", *(another(number) for number in kept)])


def test_all_objects_travel_in_one_file(folder: str, tmp_path: Path) -> None:
    Path(folder, another(3)).write_bytes(b"damaged")
    assert upkeep.export(folder, str(tmp_path / "a.tar")) == 2  # neither what is damaged nor what is of another version
    copy = str(tmp_path / "copy")
    assert upkeep.import_(copy, str(tmp_path / "a.tar")) == (2, 0)
    assert upkeep.import_(copy, str(tmp_path / "a.tar")) == (0, 0)
    assert [cache.read(copy, another(number)) for number in (1, 2, 3)] == [bytes(1000), bytes(1000), None]
    upkeep.export(copy, str(tmp_path / "b.tar"))
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "b.tar", "copy", "kernels"]


def archive(path: Path, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> str:
    with tarfile.open(path, "w") as made:
        member = tarfile.TarInfo(name)
        member.size, member.type, member.linkname = len(data), kind, "/etc/passwd"
        made.addfile(member, io.BytesIO(data))
    return str(path)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (f"../{CURRENT}", tarfile.REGTYPE, "is not an object"),
        (CURRENT.upper(), tarfile.REGTYPE, "is not an object"),
        (CURRENT + ".so", tarfile.REGTYPE, "is not an object"),
        (CURRENT, tarfile.SYMTYPE, "is not an object"),
        (CURRENT, tarfile.DIRTYPE, "is not an object"),
        (CURRENT, tarfile.REGTYPE, "is damaged"),
    ],
)
def test_what_is_no_object_is_refused(folder: str, tmp_path: Path, name: str, kind: bytes, message: str) -> None:
    data = Path(folder, another(1)).read_bytes()  # under another name than its own
    path = archive(tmp_path / "bad.tar", name, data if kind == tarfile.REGTYPE else b"", kind)
    with pytest.raises(InvalidArgument, match=f"{message}.*nothing was imported"):
        upkeep.import_(str(tmp_path / "copy"), path)
    assert not (tmp_path / "copy").exists()


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk" * 1000)
    with pytest.raises(InvalidArgument, match="expected a file of `ort-lite cache export`"):
        upkeep.import_(str(tmp_path / "copy"), str(tmp_path / "junk"))


def test_a_folder_that_takes_nothing_is_an_error(folder: str, tmp_path: Path) -> None:
    upkeep.export(folder, str(tmp_path / "a.tar"))
    with pytest.raises(OSError, match="cannot be kept there"):
        upkeep.import_(str(tmp_path / "a.tar" / "below"), str(tmp_path / "a.tar"))
