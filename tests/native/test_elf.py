"""Objects for both machines: what is read from them, what is refused, and what linking makes of them."""

import ctypes
import math
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ort_lite.errors import KernelLoadError
from ort_lite.native import Spec, cache, elf, loader, mapping, object_linking
from ort_lite.native.cpu import host
from ort_lite.native.spec import key_of, symbol_of
from tests.native import kernels
from tests.native.calls import plain
from tests.native.objects import assembled

ARCHITECTURES = {"x86_64": elf.X86_64, "aarch64": elf.AARCH64}
here = pytest.mark.skipif(host().triple not in object_linking.MACHINES, reason="this system's objects are LLVM's to link")

# Constants in sections of several kinds, an address in one, a call and a jump of functions outside, calls of one's own, a jump table.
TEXT = """
@table = internal constant [4 x i32] [i32 1, i32 5, i32 9, i32 13]
@addresses = internal constant [2 x ptr] [ptr @table, ptr getelementptr (i8, ptr @table, i64 8)]
declare double @pow(double, double)
declare double @log1p(double)
define internal i64 @square(i64 %x) noinline { %y = mul i64 %x, %x ret i64 %y }
define internal double @leaves(double %x) noinline { %y = tail call double @log1p(double %x) ret double %y }
define internal i64 @chosen(i64 %x, ptr %o) noinline {
  switch i64 %x, label %g [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e i64 5, label %f]
a: store i32 3, ptr %o ret i64 4
b: store i64 5, ptr %o ret i64 9
c: store i16 7, ptr %o ret i64 12
d: %s = call i64 @square(i64 %x) store i64 %s, ptr %o ret i64 1
e: store i8 8, ptr %o ret i64 40
f: store i8 9, ptr %o ret i64 -7
g: ret i64 -1
}
define i64 @entry(i64 %x) {
  %room = alloca i64
  %way = and i64 %x, 7
  %chosen = call i64 @chosen(i64 %way, ptr %room)
  %one = and i64 %x, 1
  %where = getelementptr [2 x ptr], ptr @addresses, i64 0, i64 %one
  %row = load ptr, ptr %where
  %item = getelementptr i32, ptr %row, i64 %one
  %found = load i32, ptr %item
  %wide = sext i32 %found to i64
  %square = call i64 @square(i64 %x)
  %sum = add i64 %chosen, %wide
  %all = add i64 %sum, %square
  %float = sitofp i64 %all to double
  %power = call double @pow(double %float, double 0x3FF921FB54442D18)
  %log = call double @leaves(double %power)
  %scaled = fmul double %log, 0x408F400000000001
  %result = fptosi double %scaled to i64
  ret i64 %result
}
"""


def expected(x: int) -> int:
    chosen = {0: 4, 1: 9, 2: 12, 3: 1, 4: 40, 5: -7}.get(x & 7, -1)
    base = chosen + (13 if x & 1 else 1) + x * x
    constant = struct.unpack("<d", struct.pack("<Q", 0x3FF921FB54442D18))[0]
    return int(math.log1p(base**constant) * struct.unpack("<d", struct.pack("<Q", 0x408F400000000001))[0])


def parsed(architecture: str) -> elf.Object:
    return elf.parse(assembled(TEXT, architecture), ARCHITECTURES[architecture], "entry")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_kinds_of_relocation_are_met(architecture: str) -> None:
    assert {relocation.kind for relocation in parsed(architecture).relocations} == elf.KINDS[ARCHITECTURES[architecture]]
    assert {r.target for r in parsed(architecture).relocations if isinstance(r.target, str)} == {"pow", "log1p"}


def permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[1]
    raise AssertionError("not mapped")


@here
def test_code_is_run_and_never_written_to() -> None:
    object_here = parsed(host().architecture)
    first, second = object_linking.link({"one": object_here, "another": object_here})
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert [call(first)(x) for x in range(9)] == [call(second)(x) for x in range(9)] == [expected(x) for x in range(9)]
    assert permissions(first) == permissions(second) == "r-xp"
    assert permissions(first + elf.layout([object_here] * 2, mapping.PAGE).split) == "r--p"


# --- AArch64, whose code may not run here
WORD = struct.Struct("<I")
BASE = 0x7F12_3456_7000
OUTSIDE = {"pow": 0x7FFF_8888_4440, "log1p": 0x1234_5678}


def words(data: "bytes | bytearray", place: int, count: int) -> list[int]:
    return [WORD.unpack_from(data, place + 4 * k)[0] for k in range(count)]


def linked_for_aarch64(page: int) -> tuple[list[elf.Object], elf.Layout, bytearray]:
    objects = [parsed("aarch64")] * 2
    plan = elf.layout(objects, page)
    return objects, plan, object_linking.image(objects, plan, BASE, OUTSIDE)


def test_instructions_take_the_addresses_that_they_are_for() -> None:
    objects, plan, image = linked_for_aarch64(4096)
    met = set()
    for each, starts in zip(objects, plan.starts, strict=True):
        for piece, offset, kind, target in each.relocations:
            word, before = words(image, starts[piece] + offset, 1)[0], words(each.pieces[piece].data.tobytes(), offset, 1)[0]
            if kind in elf.HALVES:
                assert isinstance(target, elf.Place)
                half = BASE + starts[target.piece] + target.offset >> elf.HALVES[kind] & 0xFFFF
                # MOVZ or MOVK Xd, #half, LSL #(16 hw): sf opc 100101 hw imm16 Rd, Rd being what it was
                opcode, hw = (0b10 if before >> 29 & 3 == 2 else 0b11), elf.HALVES[kind] // 16
                assert word == 1 << 31 | opcode << 29 | 0b100101 << 23 | hw << 21 | half << 5 | before & 31
                met.add(kind)
            elif kind in elf.BRANCHES:
                assert isinstance(target, str)
                distance = plan.veneers[target] - starts[piece] - offset
                # BL or B #distance: op 00101 imm26, op being the function's to come back
                assert word == ((1 if kind == 283 else 0) << 31) | 0b00101 << 26 | distance // 4 & (1 << 26) - 1
                met.add(kind)
    assert met == elf.HALVES.keys() | elf.BRANCHES


def test_a_function_outside_is_reached_by_a_veneer() -> None:
    _, plan, image = linked_for_aarch64(4096)
    assert sorted(plan.veneers) == ["log1p", "pow"]
    for name, start in plan.veneers.items():
        assert start % 16 == 0 and start + 16 <= plan.split
        assert words(image, start, 2) == [0x58000050, 0xD61F0200]  # ldr x16, #8; br x16
        assert struct.unpack_from("<Q", image, start + 8) == (OUTSIDE[name],)


def test_an_address_in_a_constant_is_all_of_it() -> None:
    objects, plan, image = linked_for_aarch64(4096)
    whole = [(starts, r) for each, starts in zip(objects, plan.starts, strict=True) for r in each.relocations if r.kind == 257]
    assert len(whole) == 4
    for starts, (piece, offset, _, target) in whole:
        assert isinstance(target, elf.Place)
        assert struct.unpack_from("<Q", image, starts[piece] + offset) == (BASE + starts[target.piece] + target.offset,)


@pytest.mark.parametrize("page", [4096, 65536])
def test_constants_are_on_pages_of_their_own(page: int) -> None:
    objects, plan, image = linked_for_aarch64(page)
    assert plan.split % page == plan.size % page == 0
    assert len(image) == plan.size == 2 * page
    for each, starts in zip(objects, plan.starts, strict=True):
        for piece, start in zip(each.pieces, starts, strict=True):
            assert start % 64 == 0
            assert (start + len(piece.data) <= plan.split) if piece.is_code else (start >= plan.split)


def test_a_branch_that_cannot_reach_is_an_error() -> None:
    objects, plan, _ = linked_for_aarch64(4096)
    far = plan._replace(veneers=dict.fromkeys(plan.veneers, 1 << 28))
    with pytest.raises(object_linking.NotLinked, match=r"a branch over 268\d{6} bytes"):
        object_linking.image(objects, far, BASE, OUTSIDE)


# --- Objects that are broken
def sections(data: bytes, kind: int) -> list[int]:
    """Where the headers are of sections of a type that are not empty."""
    (start,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    headers = [start + 64 * k for k in range(count)]
    return [at for at in headers if struct.unpack_from("<I", data, at + 4) == (kind,) and any(data[at + 32 : at + 40])]


def put(data: bytes, place: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, place, value)
    return bytes(changed)


def in_relocation(field: int, form: str, value: int, table: int = 0) -> Callable[[bytes], bytes]:
    """In the first one of code, table 0, or of constants, table 1."""
    return lambda data: put(data, struct.unpack_from("<Q", data, sections(data, 4)[table] + 24)[0] + field, form, value)


def in_header_of(kind: int, field: int, form: str, value: int) -> Callable[[bytes], bytes]:
    return lambda data: put(data, sections(data, kind)[0] + field, form, value)


BREAKS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "0 bytes are no object file"),
    "no ELF": (lambda data: b"\x7fEL1" + data[4:], "no relocatable object file of 64 bits"),
    "of 32 bits": (lambda data: put(data, 4, "B", 1), "no relocatable object file of 64 bits"),
    "a program": (lambda data: put(data, 16, "<H", 2), "no relocatable object file"),
    "another machine": (lambda data: put(data, 18, "<H", 243), "for machine 243, expected"),
    "cut off": (lambda data: data[:-1], r"(sections end|section \d+ ends) at"),
    "sections far away": (lambda data: put(data, 40, "<Q", (1 << 64) - 64), "sections end at"),
    "too many sections": (lambda data: put(data, 60, "<H", 0xFFF0), "65520 sections end at"),
    "no names of sections": (lambda data: put(data, 62, "<H", 0xFFF0), "sections end at"),
    "code outside": (in_header_of(1, 32, "<Q", 1 << 40), r"section \d+ ends at"),
    "symbols outside": (in_header_of(2, 24, "<Q", 1 << 63), r"section \d+ ends at"),
    "half a symbol": (in_header_of(2, 32, "<Q", 25), "a table of symbols of 25 bytes"),
    "symbols without names": (in_header_of(2, 40, "<I", 1000), "symbols without names"),
    "no symbols": (in_header_of(2, 4, "<I", 3), "0 tables of symbols"),
    "no such alignment": (in_header_of(1, 48, "<Q", 3), "an alignment of 3 bytes"),
    "half a relocation": (in_header_of(4, 32, "<Q", 25), "a table of relocations of 25 bytes"),
    "short relocations": (in_header_of(4, 4, "<I", 9), "relocations of another form"),
    "other symbols": (in_header_of(4, 40, "<I", 1), "relocations of another form"),
    "unknown relocation": (in_relocation(8, "<I", 99), "a relocation of type 99"),
    "relocation outside": (in_relocation(0, "<Q", 1 << 62), "an address at 4611686018427387904 in a section"),
    "relocation at the end": (lambda data: in_relocation(0, "<Q", code_size(data) - 2)(data), "an address at"),
    "no such symbol": (in_relocation(12, "<I", 1 << 31), "symbol 2147483648 of"),
    "symbol without a name": (in_relocation(12, "<I", 0), "a symbol without a name"),
    "address outside": (in_relocation(16, "<q", 1 << 40, 1), "an address at 1099511627776 in a section of"),
    "address before": (in_relocation(16, "<q", -8, 1), "an address at -8 in a section of"),
}


def code_size(data: bytes) -> int:
    size: int = struct.unpack_from("<Q", data, sections(data, 1)[0] + 32)[0]
    return size


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_object_is_refused(name: str, architecture: str) -> None:
    change, message = BREAKS[name]
    with pytest.raises(elf.BrokenObject, match=message):
        elf.parse(change(assembled(TEXT, architecture)), ARCHITECTURES[architecture], "entry")


def test_instructions_are_in_code_and_whole() -> None:
    data = assembled(TEXT, "aarch64")
    for broken in (in_relocation(0, "<Q", 2)(data), in_relocation(8, "<I", 283, 1)(data)):
        with pytest.raises(elf.BrokenObject, match=r"an instruction at \d+, which is none"):
            elf.parse(broken, elf.AARCH64, "entry")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_entry_that_is_not_there_is_refused(architecture: str) -> None:
    for name in ("nothing", "square", "pow"):  # nowhere, not visible, outside
        with pytest.raises(elf.BrokenObject, match=f"no function {name}"):
            elf.parse(assembled(TEXT, architecture), ARCHITECTURES[architecture], name)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_state_is_refused(architecture: str) -> None:
    state = "@state = internal global i64 {}\ndefine ptr @entry() {{ store volatile i64 1, ptr @state ret ptr @state }}"
    for value, message in (("7", "a section that is written to"), ("0", "a section of type 8 in memory")):
        with pytest.raises(elf.BrokenObject, match=message):
            elf.parse(assembled(state.format(value), architecture), ARCHITECTURES[architecture], "entry")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_whatever_is_changed_is_refused_or_stays_within_the_image(architecture: str) -> None:
    """No other exception, no byte outside, whichever bytes are overwritten."""
    data, machine, chance = assembled(TEXT, architecture), ARCHITECTURES[architecture], random.Random(7)
    refused = 0
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        cut = len(data) if chance.random() < 0.9 else chance.randrange(len(data))
        try:
            each = elf.parse(bytes(changed[:cut]), machine, "entry")
            plan = elf.layout([each], 4096)
            made = object_linking.image([each], plan, BASE, {str(r.target): 1 << 40 for r in each.relocations})
        except (elf.BrokenObject, object_linking.NotLinked):
            refused += 1
        else:
            assert len(made) == plan.size <= 4 * 4096
    assert 500 < refused < 3000


# --- Through the loader
LARGE = Spec.plain(kernels.curved, "i64(i64)")


@here
@pytest.mark.slow
def test_an_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(LARGE, host())
    data = loader._objects({key: LARGE}, host())[key]
    assert elf.parse(data, object_linking.MACHINES[host().triple], symbol_of(key))
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loader, "_by_key", {})
    monkeypatch.setattr(loader, "_by_spec", {})
    for broken, message in (
        (data[: len(data) // 2], rf"{tmp_path}/{key}: \d+ sections end at .*: delete it"),
        (data.replace(b"\0pow\0", b"\0qow\0"), f"{tmp_path}/{key}: needs 'qow', which the C library has not"),
    ):
        cache.write(str(tmp_path), key, broken)
        with pytest.raises(KernelLoadError, match=message):
            loader.load([LARGE])
    cache.write(str(tmp_path), key, data)
    assert plain(LARGE, 7) == int(math.pow(7.5, 2.5))


@here
@pytest.mark.slow
def test_results_are_those_of_llvms_engine() -> None:
    from ort_lite.native.llvm import Engine

    engine, call = Engine(), ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    specs = [LARGE, Spec.plain(kernels.large, "i64(i64)")]
    keys = [key_of(spec, host()) for spec in specs]
    engine.add(loader._objects(dict(zip(keys, specs, strict=True)), host()).values())
    for key, spec in zip(keys, specs, strict=True):
        assert [call(engine.address(symbol_of(key)))(x) for x in range(20)] == [plain(spec, x) for x in range(20)]
