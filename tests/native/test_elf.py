"""The linker of objects: what it makes of them, and what it leaves to LLVM."""

import ctypes
import math
from pathlib import Path

import pytest

from ort_lite.native import Spec, cpu, elf, loader
from ort_lite.native.cpu import host
from ort_lite.native.spec import key_of, symbol_of
from tests.native import kernels
from tests.native.calls import plain

pytestmark = pytest.mark.skipif(host().architecture != "x86_64", reason="objects of other machines are LLVM's to link")
POWER = Spec.plain(kernels.curved, "i64(i64)")
LARGE = Spec.plain(kernels.large, "i64(i64)")


def object_of(spec: Spec) -> tuple[str, bytes]:
    """Its symbol and its object file."""
    key = key_of(spec, host())
    return symbol_of(key), loader._objects({key: spec}, host())[key]


def permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[1]
    raise AssertionError("not mapped")


def test_code_is_run_and_never_written_to() -> None:
    engine = elf.Engine()
    (power, data), (large, other) = object_of(POWER), object_of(LARGE)
    engine.add([data, other])
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert call(engine.address(power))(7) == int(math.pow(7.5, 2.5))
    assert call(engine.address(large))(5) == 26
    assert permissions(engine.address(power)) == permissions(engine.address(large)) == "r-xp"


def test_a_function_that_no_library_has_is_named() -> None:
    _, data = object_of(POWER)
    assert b"\0pow\0" in data
    with pytest.raises(RuntimeError, match="object code needs 'qow', which no library of this process has"):
        elf.Engine().add([data.replace(b"\0pow\0", b"\0qow\0")])


def with_relocations_of_type(data: bytes, kind: int) -> bytes:
    """All relocations of an object become those of another type."""
    item, changed = elf.Object(data), bytearray(data)
    for table in item.sections:
        if table.kind == elf._RELA:
            for place in range(table.offset + 8, table.offset + table.size, 24):
                changed[place : place + 4] = kind.to_bytes(4, "little")
    return bytes(changed)


def test_what_is_not_known_is_not_linked() -> None:
    _, data = object_of(POWER)
    with pytest.raises(elf.NotLinked, match="a relocation of type 2"):
        elf.Engine().add([with_relocations_of_type(data, 2)])
    with pytest.raises(elf.NotLinked, match="no relocatable object of x86-64"):
        elf.Engine().add([data[:18] + b"\xb7" + data[19:]])


def test_llvm_links_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes) -> None:
        raise elf.NotLinked

    monkeypatch.setattr(elf, "Object", refuse)
    assert plain(Spec.plain(kernels.thirteen_times, "i64(i64)"), 5) == 65


def test_the_machine_that_was_kept_is_the_one_that_llvm_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    seen = cpu._asked()
    assert cpu._known() == seen
    monkeypatch.setattr(cpu, "_asked", lambda: pytest.fail("LLVM is asked again"))
    assert cpu._known() == seen


def test_a_machine_that_says_something_else_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ort_lite.native import cpuid

    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    cpu._known()
    other = cpu.Target(host().triple, "another", "+sse2")
    monkeypatch.setattr(cpuid, "identity", lambda: b"another")
    monkeypatch.setattr(cpu, "_asked", lambda: other)
    assert cpu._known() == other
