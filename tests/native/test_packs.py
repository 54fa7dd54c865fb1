"""Kernel packs: what is put in comes out, and what is broken is told and not used."""

import functools
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ort_lite.errors import KernelMissing
from ort_lite.native import Spec, cache, elf, loader, object_linking, packs, workers
from ort_lite.native.cpu import host
from ort_lite.native.elf import BrokenObject, Object, Piece, Place, Relocation
from ort_lite.native.spec import key_of, symbol_of
from tests.native import kernels
from tests.native.calls import plain
from tests.native.objects import assembled

BASE = bytes(20)
KEYS = {f"{number:02x}" * 20: b"object %d" % (number // 2) for number in range(0, 250, 7)}
here = pytest.mark.skipif(host().triple not in object_linking.MACHINES, reason="LLVM links here")
SPEC = Spec.plain(kernels.curved, "i64(i64)")
"""Calls a function of the C library."""
OUTSIDE = """
declare double @pow(double, double)
define double @entry(double %x) {
  %y = call double @pow(double %x, double 2.5)
  %z = fmul double %y, 3.25
  ret double %z
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / packs.PACKAGE / packs.file_name(host().architecture)
    made.parent.mkdir()
    packs.write(str(made), BASE, KEYS)
    return made


def test_every_object_is_found_by_its_key_and_no_other_is(file: Path) -> None:
    pack = packs.Pack(str(file), BASE)
    assert {key: pack.find(key) for key in KEYS} == KEYS
    assert [pack.find(f"{number:02x}" * 20) for number in (1, 6, 8, 200, 251, 255)] == [None] * 6
    packs.write(str(file), BASE, {})
    assert packs.Pack(str(file), BASE).find("00" * 20) is None


def test_a_pack_is_the_same_whatever_the_order_and_holds_equal_objects_once(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    packs.write(str(other), BASE, dict(reversed(KEYS.items())))
    assert other.read_bytes() == file.read_bytes()
    assert other.read_bytes().count(b"object 0") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "has .* bytes, expected"),
        (lambda data: data[:20], "no kernel pack"),
        (lambda data: b"some other file." + data[16:], "no kernel pack"),
        (lambda data: data[:16] + b"x" + data[17:], "another version of ort-lite"),
        (lambda data: data[:44] + b"\xff\xff" + data[46:], "bytes, expected"),
    ],
    ids=["truncated", "short", "magic", "base", "count"],
)
def test_a_pack_that_does_not_fit_is_refused(file: Path, change: Callable[[bytes], bytes], message: str) -> None:
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(packs.StalePack, match=message):
        packs.Pack(str(file), BASE)


def test_a_damaged_object_is_told_and_not_used(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    pack = packs.Pack(str(file), BASE)
    assert pack.find(max(KEYS)) is None
    assert pack.find(min(KEYS)) == KEYS[min(KEYS)]
    assert [record.message for record in caplog.records] == [
        f"{file}: kernel {max(KEYS)} is damaged. Install the pack again: docs/kernel-packs.md"
    ]


# --- Objects
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_what_is_linked_of_an_object_survives_and_is_smaller(architecture: str) -> None:
    machine = object_linking.MACHINES[f"{architecture}-unknown-linux-gnu"]
    data = assembled(OUTSIDE, architecture)
    made = elf.parse(data, machine, "entry")
    body = packs.encode(made)
    assert packs.decode(body, machine) == made
    assert {relocation.target for relocation in made.relocations} >= {"pow"}
    assert len(body) < len(data) / 2


def test_every_number_of_an_object_is_compared_with_what_it_counts_in() -> None:
    data = memoryview(bytes(16))
    pieces, link = [Piece(data, 64, True), Piece(data, 64, False)], Relocation(0, 8, 1, Place(1, 4))
    good = Object(pieces, [link, Relocation(0, 0, 1, "pow")], Place(0, 0))
    assert packs.decode(packs.encode(good), elf.X86_64) == good
    wrong = [
        good._replace(entry=Place(1, 0)),
        good._replace(entry=Place(2, 0)),
        good._replace(entry=Place(0, 16)),
        good._replace(pieces=[Piece(data, 48, True), pieces[1]]),
        good._replace(pieces=[Piece(data, 8192, True), pieces[1]]),
        *(
            good._replace(relocations=[broken])
            for broken in (link._replace(piece=2), link._replace(offset=9), link._replace(kind=2))
        ),
        *(good._replace(relocations=[link._replace(target=target)]) for target in (Place(2, 0), Place(1, 17))),
    ]
    for one in wrong:
        with pytest.raises(BrokenObject):
            packs.decode(packs.encode(one), elf.X86_64)
    whole = packs.encode(good)
    for size in range(len(whole)):
        with pytest.raises(BrokenObject):
            packs.decode(whole[:size], elf.X86_64)


# --- Installed
@pytest.fixture
def installation(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on Python's path with a pack of one kernel, an empty cache, and a process that has loaded nothing."""
    key = key_of(SPEC, host())
    [data] = loader._objects({key: SPEC}, host()).values()
    made = elf.parse(data, object_linking.MACHINES[host().triple], symbol_of(key))
    packs.write(str(file), packs.own_base(), {key: packs.encode(made)})
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(loader, "_by_key", {})
    monkeypatch.setattr(loader, "_by_spec", {})
    monkeypatch.setattr(packs, "load_pack", functools.cache(packs.load_pack.__wrapped__))
    return file


@here
@pytest.mark.slow
def test_a_kernel_of_a_pack_is_neither_compiled_nor_looked_for_in_the_cache(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((workers, "compile_all"), (cache, "read"), (cache, "write")):
        monkeypatch.setattr(module, name, lambda *arguments: pytest.fail("not from the pack"))
    assert plain(SPEC, 7) == kernels.curved(7)
    assert not (tmp_path / "cache").exists()


def test_an_empty_file_is_no_pack(tmp_path: Path) -> None:
    file = tmp_path / "empty.pack"
    file.write_bytes(b"")
    with pytest.raises(packs.StalePack, match="is empty"):
        packs.Pack(str(file), b"")


@here
@pytest.mark.slow
def test_a_stale_pack_is_told_once_and_the_rest_goes_on(
    installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(packs, "__version__", "0.0.9")
    folder = str(tmp_path / "cache")
    with caplog.at_level(logging.WARNING):
        assert plain(SPEC, 7) == kernels.curved(7)
        loader.load([Spec.plain(kernels.large, "i64(i64)")])
    assert cache.read(folder, key_of(SPEC, host()))
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        f"{installation} was made by another version of ort-lite, or for another Python or compiler"
    ]
    assert "Install a pack of ort-lite 0.0.9: docs/kernel-packs.md" in caplog.text


def test_without_a_compiler_an_error_names_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    for problem in ({"numba": None}, {"llvmlite": None}):
        with monkeypatch.context() as patch:
            for name, value in problem.items():
                patch.setitem(sys.modules, name, value)
            with pytest.raises(
                KernelMissing, match=r"kernel .*\.thirteen_times<other=1> is neither in a kernel pack nor .* is not installed"
            ):
                loader.load([Spec.plain(kernels.thirteen_times, "i64(i64)", {"other": 1})])
