"""What targets say about themselves."""

import struct
from types import SimpleNamespace

import pytest

from ort_lite.native import cpu, x86
from ort_lite.native.cpu import Target, host, parse_target
from ort_lite_cpu.kernels.gemm.byte_dots import NEEDS
from tests.native.calls import AARCH64, HASWELL, SKYLAKE_AVX512, SSE2


@pytest.mark.parametrize(
    ("target", "nbytes", "registers", "fma"),
    [(SSE2, 16, 16, False), (HASWELL, 32, 16, True), (SKYLAKE_AVX512, 64, 32, True), (AARCH64, 16, 32, True)],
    ids=lambda value: value.name if isinstance(value, Target) else "",
)
def test_registers_follow_the_features(target: Target, nbytes: int, registers: int, fma: bool) -> None:
    assert (target.vector_bytes, target.vector_registers, target.has_fma) == (nbytes, registers, fma)


def test_features_are_asked_for_by_name() -> None:
    target = Target("triple", "cpu", "+avx2,-avx512f,+fma")
    asked = ["avx2", "avx2,fma", "avx512f", "avx2,avx512f", "avx512f|avx2", "avx512f|neon", ""]
    assert [target.has(names) for names in asked] == [True, True, False, False, True, False, True]


def test_dot_products_need_the_full_width() -> None:
    assert Target("", "", "+avxvnni").has_vnni
    assert Target("", "", "+avx512f,+avx512vnni").has_vnni
    assert not Target("", "", "+avx512f,+avxvnni").has_vnni
    assert Target("", "", "+avxvnni").has_byte_products and Target("", "", "+neon,+dotprod").has_byte_products
    assert not Target("", "", "+avx2").has_byte_products and not Target("", "", "+neon").has_byte_products


def test_the_host_is_described() -> None:
    target = host()
    assert target.name
    assert target.vector_bytes in (16, 32, 64)
    assert target is host()


NAME = b"Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz"
LEAVES = {  # of an Intel Xeon of the third generation
    (0, 0): (0x1B, 0x756E6547, 0x6C65746E, 0x49656E69),
    (1, 0): (0x606A6, 0, 0x7FFEFBFF, 0xBFEBFBFF),
    (7, 0): (0, 0xF3BFBFEB, 0x40417F5E, 0xBC040412),
    (0x80000000, 0): (0x80000008, 0, 0, 0),
    (0x80000001, 0): (0, 0, 0x121, 0x2C100800),
    **{(0x80000002 + k, 0): struct.unpack_from("<4I", NAME.ljust(48, b"\0"), 16 * k) for k in range(3)},
}
ALL_STATE, NO_ZMM, NO_YMM, TILE_STATE = 0xE7, 7, 3, 0b11 << 17
ICELAKE = cpu._ICELAKE.split()


def leaf(number: int, part: int) -> tuple[int, ...]:
    return LEAVES[number, part]  # what a processor lacks is not asked for


def features(saved: int) -> set[str]:
    return {name.removeprefix("+") for name in x86.features(leaf, saved).split(",")}


def test_what_a_processor_says_is_read_in_llvms_words() -> None:
    found = x86.features(leaf, ALL_STATE).split(",")
    assert found == sorted(found)
    assert set(ICELAKE) | {"cx16", "pclmul", "sahf"} == features(ALL_STATE)
    assert x86.name(leaf) == NAME.decode()


def test_registers_that_the_system_does_not_save_are_not_used() -> None:
    wide = {name for name in ICELAKE if name.startswith("avx512")}
    assert features(NO_ZMM) == features(ALL_STATE) - wide
    assert features(NO_YMM) == features(NO_ZMM) - {"avx", "avx2", "fma", "f16c", "vaes", "vpclmulqdq"}


@pytest.mark.parametrize(("hidden", "nbytes"), [("", 64), ("avx512cd", 32), ("gfni", 64), ("fma", 16), ("bmi2", 16)], ids=str)
def test_wide_registers_are_used_where_their_whole_level_is_there(hidden: str, nbytes: int) -> None:
    """What arithmetic uses beyond a level is there with it, or not at all: no kernel mixes them."""

    def part_of_it(number: int, part: int) -> tuple[int, ...]:
        found = list(leaf(number, part))
        for where in (x86.FEATURES[hidden],) if hidden else ():
            if where[:2] == (number, part):
                found[where[2]] &= ~(1 << where[3])
        return tuple(found)

    target = Target("x86_64-unknown-linux-gnu", "", cpu._of_whole_levels(part_of_it, ALL_STATE))
    assert target.vector_bytes == nbytes
    assert target.has("avx512f") == target.has("avx512vnni") == (nbytes == 64)
    assert target.has("avx") == target.has("f16c") == (nbytes >= 32)


def test_a_target_is_narrowed_to_its_level_and_what_is_asked_for() -> None:
    rich = parse_target("sapphirerapids")
    assert rich.narrow([]).features == parse_target("znver4").narrow(["lse|"]).features == parse_target("x86-64-v4").features
    both = "avx512f,avx512vnni|avxvnni"
    assert {name.narrow([both]).name for name in (rich, parse_target("znver5"), parse_target("znver4"))} == {
        "x86-64-v4+avx512vnni"
    }
    assert HASWELL.narrow([both, "avx"]).features == HASWELL.features
    assert [AARCH64.narrow(["lse|"]).name, parse_target("neoverse-n1").narrow(["lse|"]).name] == ["aarch64", "aarch64+lse"]


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        ("sapphirerapids", "x86-64-v4+avx512vnni+amx"),
        ("znver5", "x86-64-v4+avx512vnni"),
        ("skylake-avx512", "x86-64-v4"),
        ("x86-64-v3+avxvnni", "x86-64-v3+avxvnni"),
        ("znver3", "x86-64-v3"),
        ("neoverse-n1", "aarch64+dotprod"),
    ],
)
def test_products_of_bytes_have_targets_that_packs_are_made_for(machine: str, name: str) -> None:
    narrowed = parse_target(machine).narrow([NEEDS])
    assert narrowed.name == name
    assert name == "aarch64+dotprod" or narrowed.features == parse_target(name).narrow([NEEDS]).features
    assert (
        narrowed.has_tiles == (machine == "sapphirerapids")
        and narrowed.has_byte_products == parse_target(machine).has_byte_products
    )


def test_tiles_are_used_if_the_system_saves_them_and_allows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = {"amx-tile", "amx-int8"}

    def with_tiles(number: int, part: int) -> tuple[int, ...]:
        found = list(leaf(number, part))
        if (number, part) == (7, 0):
            found[3] |= 1 << 24 | 1 << 25
        return tuple(found)

    def has(saved: int) -> set[str]:
        monkeypatch.setattr(x86, "processor", lambda: (with_tiles, saved))
        return tiles & {name.removeprefix("+") for name in cpu._detect().features.split(",")}

    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="x86_64"))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(x86, "ask_for_tiles", lambda: True)
    assert (has(ALL_STATE), has(ALL_STATE | TILE_STATE), has(NO_ZMM | TILE_STATE)) == (set(), tiles, set())
    monkeypatch.setattr(x86, "ask_for_tiles", lambda: False)
    assert has(ALL_STATE | TILE_STATE) == set()


def test_a_processor_of_the_first_kind_says_little() -> None:
    def old(number: int, part: int) -> tuple[int, ...]:
        return {0: (1, 0, 0, 0), 1: (0, 0, 1, 1 << 26), 0x80000000: (0x80000001, 0, 0, 0), 0x80000001: (0, 0, 1, 0)}[number]

    assert x86.features(old, 0) == "+sahf,+sse2,+sse3"
    assert x86.name(old) == "x86-64"


@pytest.mark.parametrize("name", cpu._X86_64)
def test_no_target_has_what_no_machine_is_found_to_have(name: str) -> None:
    assert set(cpu._X86_64[name].split()) <= x86.FEATURES.keys()
