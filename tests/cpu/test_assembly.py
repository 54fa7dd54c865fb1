"""The micro-kernels as compiled for many CPUs: what their inner loops load, multiply, and keep in registers.

Loops count that multiply: others (bias, limits, rest of a row) run once a tile.
"""

from collections.abc import Callable, Sequence

import pytest

from ort_lite.memory.arenas import CACHE_LINE
from ort_lite.native import Spec, cpu
from ort_lite.native.cpu import Target, parse_target
from ort_lite_cpu.kernels.gemm import (
    attention_rows,
    byte_tile,
    depthwise,
    few_bit_dots,
    few_bits,
    few_rows,
    integer,
    integer_convolution,
    integer_depthwise,
    integer_winograd,
    pixels,
    plane_rows,
    planes,
    winograd,
)
from ort_lite_cpu.kernels.gemm.byte_dots import CHAINS
from ort_lite_cpu.kernels.gemm.float16 import FLOAT16_LOADS
from ort_lite_cpu.kernels.gemm.geometry import ImageShape
from ort_lite_cpu.kernels.gemm.integer import integer_tile
from ort_lite_cpu.kernels.gemm.integer_epilogue import SUMS, UNSIGNED_BYTES
from ort_lite_cpu.kernels.gemm.microkernel import SHARES, UNROLLED, Tile, panel, tall_tile, tile_for
from ort_lite_cpu.kernels.gemm.vectors import Vectors
from ort_lite_cpu.kernels.recurrent import product
from ort_lite_cpu.kernels.softmax import vectors_for
from ort_lite_cpu.operators.softmax import softmax
from tests.cpu.byte_products import RESULTS, SIGNS, quads_spec
from tests.native.assembly import JUMP, LABEL, Loop, functions, inner_loops
from tests.native.compiled import assembly, compiled_assembly

X86 = ["x86-64", "haswell", "znver3", "znver4", "znver5", "skylake-avx512", "sapphirerapids"]
CPUS = [*X86, "cortex-a72", "neoverse-n1"]
WIDE = [name for name in CPUS if parse_target(name).vector_registers == 32]
DOTS = [name for name in (*CPUS, "x86-64-v3+avxvnni") if parse_target(name).has_byte_products]
TILES = "x86-64-v4+avx512vnni+amx"


def floats(native: str, tile: Tile, shares: int = SHARES) -> Spec:
    signature = "void(*F,i64,i64,i64,*F,*F,*F,i64,i64,i64,i64,i64,*F,*F,F,F)"
    return Spec.plain(panel, signature.replace("F", native), {**tile._asdict(), "shares": shares})


def few(transposed: bool) -> Spec:
    signature = "void(*f32,*f32,*f32,i64,i64,i64,i64,i64,f64,i64,i64,i64,i64,*f32,*f32,f64,f64)"
    return Spec.plain(few_rows.few_rows, signature, {"transposed": transposed})


def channels(taps: int, stride: int, target: Target) -> Spec:
    signature = "void(*f32,i64,i64,i64,i64,*f32,i64,*f32,i64,i64,i64,*f32,*f32,f64,f64)"
    form = depthwise.form_for(target, tile_for("f32", target).lanes, (taps, stride, 1), 64, 56)
    return Spec.plain(depthwise._channels, signature, {"form": form})


def plane(taps: int, stride: int, in_place: bool, target: Target) -> Spec:
    signature = "void(*f32,*f32,*f32,*f32,*f32,i64,i64,i64,i64,i64,i64)"
    large = plane_rows.can_mask(target) and taps >= plane_rows.LARGE
    elsewhere = plane_rows.MASKED if plane_rows.can_mask(target) else plane_rows.COPIED
    behind = taps // 2 if in_place and not large else elsewhere
    held = plane_rows.weights_fit(target, taps, taps, stride)
    lanes, tall = tile_for("f32", target).lanes, plane_rows.TALL if large else plane_rows.ROWS
    form = plane_rows.PlaneForm(taps, taps, stride, stride, taps // 2, behind, int(held), lanes, tall)
    return Spec.plain(plane_rows.band_of_rows, signature, {"form": form, "behind": behind, "tall": tall})


def product_of_planes(target: Target) -> Spec:
    tile = tile_for("f32", target)
    signature = "void(*f32,*f32,*f32,i64,i64,i64,i64,i64,*f32,*f32,f64,f64,*f32,i64,i64,i64,i64,i64,f64,f64)"
    statics = {f"product.{name}": value for name, value in tile._asdict().items()}
    return Spec.plain(planes._product, signature, {**statics, "product.apart": planes.APART[0] // tile.lanes})


def integers(right: str, target: Target) -> Spec:
    tile = integer_tile(target)
    statics = {"rows": tile.rows, "vectors": tile.vectors, "lanes": tile.lanes, "madd": tile.madd}
    return Spec.plain(integer.integer_panel, f"void(*i16,*{right},*i32,i64,i64,i64,i64)", statics)


def integer_channels(target: Target) -> Spec:
    signature = "void(*u8,i64,i64,i64,i64,i64,*i16,i64,i64,*i32,*f32,*f32,i64,f64,i64,*i32,i64)"
    form = {"form": SUMS, "lanes": integer_tile(target).lanes, "signed": False}
    return Spec.plain(integer_depthwise._channels, signature, form)


def lines_of_pixels(outputs: int, target: Target) -> Spec:
    signature = "void(*f32,*i64,*f32,i64,*f32,i64,i64,i64,i64,*f32,*f32,f64,f64,i64,i64)"
    tile = pixels.pixel_tile("f32", target, outputs)
    return Spec.plain(pixels._line, signature, {f"cut.{name}": value for name, value in tile._asdict().items()})


def codes(bits: int, target: Target) -> Spec:
    signature = "void(*f32,*u32,*f32,*u8,i64,i64,*f32,i64)"
    tile = tile_for("f32", target)
    form = few_bits.CodeForm(bits, 1, int(few_bits.looks_up(target, bits)), few_bits.rows_together(target))
    return Spec.plain(few_bits._few, signature, {"form": form, "vectors": tile.vectors, "lanes": tile.lanes})


def recurrent(target: Target) -> Spec:
    rows = 4 if target.vector_registers == 32 else 2
    statics = {"rows": rows, "vectors": 4, "lanes": tile_for("f32", target).lanes}
    return Spec.plain(product, "void(*f32,i64,*f32,*f32,i64,i64,i64,i64,*f32)", statics)


def few_queries(name: str, bits: int, target: Target) -> Spec:
    vectors = attention_rows.row_vectors("f32", target, bits)
    keys = {32: "f32", 8: "i8", 4: "u8"}[bits]
    statics = {"most": vectors.rows, "lanes": vectors.lanes, "bits": bits}
    return Spec.plain(getattr(attention_rows, name), f"void(*f32,i64,*{keys},i64,*f32,i64,i64,i64,i64,i64)", statics)


FAMILIES: dict[str, Callable[[Target], Spec]] = {
    "float": lambda target: floats("f32", tile_for("f32", target)),
    "double": lambda target: floats("f64", tile_for("f64", target)),
    "Winograd": lambda target: floats("f32", tall_tile("f32", target), shares=2),
    "int8": lambda target: integers("i8", target),
    "int16": lambda target: integers("i16", target),
    "depthwise 3": lambda target: channels(3, 1, target),
    "depthwise 3 stride 2": lambda target: channels(3, 2, target),
    "depthwise 5": lambda target: channels(5, 1, target),
    "depthwise 7": lambda target: channels(7, 1, target),
    "depthwise planes 3": lambda target: plane(3, 1, True, target),
    "depthwise planes 3 stride 2": lambda target: plane(3, 2, False, target),
    "depthwise planes 5": lambda target: plane(5, 1, True, target),
    "product of planes": product_of_planes,
    "depthwise int8": integer_channels,
    "pixels of 1": lambda target: lines_of_pixels(1, target),
    "pixels of 2": lambda target: lines_of_pixels(2, target),
    "pixels of 4": lambda target: lines_of_pixels(4, target),
    "pixels of 8": lambda target: lines_of_pixels(8, target),
    "two bits": lambda target: codes(2, target),
    "four bits": lambda target: codes(4, target),
    "eight bits": lambda target: codes(8, target),
    "few rows": lambda _: few(transposed=False),
    "few rows transposed": lambda _: few(transposed=True),
    "softmax": lambda target: Spec(softmax, ("f32", "f32"), {"logarithm": False, **vectors_for("f32", target)}),
    "recurrent": recurrent,
    "attention scores": lambda target: few_queries("score_rows", 32, target),
    "attention scores of 8 bits": lambda target: few_queries("score_rows", 8, target),
    "attention scores of 4 bits": lambda target: few_queries("score_rows", 4, target),
    "attention blend of 8 bits": lambda target: few_queries("blend_rows", 8, target),
    "attention blend of 4 bits": lambda target: few_queries("blend_rows", 4, target),
    "attention blend": lambda target: few_queries("blend_rows", 32, target),
}


def multiplying_loops(spec: Spec, target: Target) -> list[Loop]:
    return multiplying(assembly(spec, target))


def multiplying(text: str) -> list[Loop]:
    found = [loop for loop in inner_loops(text) if loop.products()]
    assert found, "no inner loop multiplies"
    return found


def tuned(monkeypatch: pytest.MonkeyPatch, name: str, tuning: str) -> Target:
    """The target of that name, with another CPU to tune for."""
    monkeypatch.setitem(cpu._TUNINGS, "x86_64", tuning)
    return parse_target(name).replace(name=f"{name} tuned for {tuning}")


def spilled(loops: Sequence[Loop]) -> list[str]:
    return [line for loop in loops for line in loop.spilled()]


@pytest.mark.slow
@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("family", FAMILIES)
def test_inner_loops_keep_to_registers(family: str, name: str) -> None:
    target = parse_target(name)
    assert spilled(multiplying_loops(FAMILIES[family](target), target)) == []


@pytest.mark.parametrize("name", [name for name in DOTS if not parse_target(name).has_tiles])
def test_a_tile_of_bytes_loads_and_multiplies_what_its_shape_promises(name: str) -> None:
    """By the instruction that multiplies bytes, once for each accumulator of the tile, and of those for what is left over."""
    target = parse_target(name)
    tile = byte_tile.dot_tile(target)
    assert tile is not None and tile.rows * tile.vectors + tile.vectors + 1 <= target.vector_registers
    loops = multiplying_loops(quads_spec(SUMS, tile), target)
    assert spilled(loops) == []
    row = CHAINS * (1 + tile.vectors)
    for rows, expected in ((tile.rows, {tile.rows + tile.vectors}), (byte_tile.FEW, {byte_tile.FEW + tile.vectors, row})):
        loads = {loop.loads() for loop in loops if loop.products() == rows * tile.vectors}
        assert loads == expected if target.architecture == "x86_64" else max(loads) <= max(expected)
    assert byte_tile.FEW == CHAINS


@pytest.mark.parametrize("name", ["znver4", "x86-64-v3+avxvnni"])
def test_winograds_products_of_bytes_keep_to_registers_and_ask_for_the_next_filters(name: str) -> None:
    target = parse_target(name)
    tile = byte_tile.vector_tile(target)
    assert tile is not None
    statics = {"tile": tile._replace(middle=byte_tile.PAIRS), "out.form": UNSIGNED_BYTES}
    text = assembly(Spec(integer_winograd.integer_winograd, ("u8", "i8", "i32", "f32", "u8", "u8"), statics), target)
    loops = [loop for loop in inner_loops(text) if "vpdpwssd" in " ".join(loop.lines)]
    assert spilled(loops) == []
    whole = [loop for loop in loops if loop.products() == tile.rows * tile.vectors]
    assert whole and {loop.loads() for loop in whole} == {tile.rows + tile.vectors}
    assert {loop.prefetches() for loop in whole} == {1}


def tile_kernel(kernel: str, left: str, form: int) -> Spec:
    """A kernel that multiplies by tiles (AMX)."""
    tile = byte_tile.dot_tile(parse_target(TILES), left)
    assert tile is not None
    if kernel == "dot_gemm":
        return quads_spec(form, tile)
    image = ("u8", "u8") if kernel == "dot_conv" else ("u8",)
    types = (*image, "i8", "i32", "f32", RESULTS[form], *image[1:])
    return Spec(getattr(integer_convolution, kernel), types, {"tile": tile, "out.form": form})


@pytest.mark.parametrize("form", [SUMS, UNSIGNED_BYTES])
@pytest.mark.parametrize("left", SIGNS)
@pytest.mark.parametrize("kernel", ["dot_gemm", "dot_conv", "dot_conv_lines"])
def test_kernels_of_tiles(kernel: str, left: str, form: int) -> None:
    """A step of 32 rows loads four tiles for four products, one of 16 rows three for two; nothing in it is on the stack.

    Blocks find their tiles configured. The kernel releases them before it returns.
    """
    text = assembly(tile_kernel(kernel, left, form), parse_target(TILES))
    product = {"uint8": "tdpbusd", "int8": "tdpbssd"}[left]
    loops = [loop for loop in inner_loops(text) if loop.count("tdp")]
    assert {loop.count("tileload") / loop.count(product) for loop in loops} == {4 / 4, 3 / 2}
    assert all(loop.count("t") == loop.count("tileload") + loop.count(product) for loop in loops)
    assert [line for loop in loops for line in loop.lines if "%rsp" in line or "%rbp" in line] == []
    configuring = [lines for lines in functions(text) if any(line.startswith("ldtilecfg") for line in lines)]
    [own] = [lines for lines in functions(text) if "tilerelease" in lines]
    assert configuring == [own]
    last = own[own.index("tilerelease") : own.index("retq")]
    assert own.count("tilerelease") == own.count("retq") == 1 and last
    assert not any(JUMP.match(line) or LABEL.match(line) for line in last)  # so that no other way leads to the return


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("name", DOTS)
def test_tiles_of_codes_keep_their_sums_in_registers(name: str, bits: int) -> None:
    """The tiles of one row (one panel or two), of the last rows and of most rows have as many products as their shapes promise."""
    target = parse_target(name)
    tile, form = few_bit_dots.code_tile(target), few_bit_dots.dot_form(target, bits, True)
    signature = "void(*i8,*f32,*i32,*u32,*f32,*u8,i64,i64,*f32,i64,i64,i64)"
    loops = multiplying_loops(Spec.plain(few_bit_dots._panel, signature, {"form": form, "tile": tile}), target)
    pair = "void(*i8,*f32,*i32,*u32,*f32,*u8,i64,i64,*f32,i64,i64)"
    loops += multiplying_loops(Spec.plain(few_bit_dots._pair, pair, {"form": form, "tile": tile}), target)
    assert spilled(loops) == []
    for products in (tile.vectors, 2 * tile.vectors, tile.few * 2, tile.rows * 2):
        assert any(loop.products() == products * 8 // bits for loop in loops)


IMAGE = ",".join(["i64"] * len(ImageShape._fields))
TRANSFORMS: dict[str, tuple[Callable[..., object], str, dict[str, str]]] = {
    "input": (winograd._transform_inputs, f"void(*f32,*f32,*f32,i64,i64,i64,i64,{IMAGE},i64)", {}),
    "output": (
        winograd._transform_outputs,
        f"void(*f32,*f32,i64,*f32,*f32,f64,f64,i64,i64,i64,i64,i64,{IMAGE},i64,i64,i64,f64,f64,f64,f64)",
        {"kind": ""},
    ),
}


def winograd_transform(name: str, edge: int, target: Target, taps: int = 3, stride: int = 1) -> Spec:
    function, signature, statics = TRANSFORMS[name]
    form = winograd.WinogradForm(edge, taps, stride, 2, *tile_for("f32", target), 2)
    return Spec.plain(function, signature, {**statics, "form": form})


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize(("transform", "edge", "taps"), [("input", 4, 3), ("output", 4, 3), ("output", 2, 5)])
def test_transforms_of_winograd_keep_to_32_registers(transform: str, edge: int, taps: int, name: str) -> None:
    """With 16 they read their constants from the stack. What is seen of the input is transformed alike for 3 taps and for 5."""
    target = parse_target(name)
    assert spilled(multiplying_loops(winograd_transform(transform, edge, target, taps), target)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("stride", [1, 2])
def test_transforms_of_small_tiles_keep_to_16_registers(stride: int, transform: str, name: str) -> None:
    """They have no constants, and multiply nothing."""
    target = parse_target(name)
    loops = inner_loops(assembly(winograd_transform(transform, 2, target, stride=stride), target))
    assert any(loop.loads() >= 16 for loop in loops) and spilled(loops) == []


@pytest.mark.parametrize("name", CPUS)
@pytest.mark.parametrize("native", ["f32", "f64"])
def test_a_tile_loads_and_multiplies_what_its_shape_promises(native: str, name: str) -> None:
    """AArch64 loads two vectors by one instruction."""
    target = parse_target(name)
    tile = tile_for(native, target)
    products, loads = UNROLLED * tile.rows * tile.vectors, UNROLLED * (tile.rows + tile.vectors)
    [found] = [loop.loads() for loop in multiplying_loops(floats(native, tile), target) if loop.products() == products]
    assert found == loads if name in X86 else found <= loads


@pytest.mark.parametrize("name", [name for name in CPUS if parse_target(name).has(FLOAT16_LOADS)])
def test_a_tile_widens_float16_in_registers(name: str) -> None:
    """Each vector of a panel once, by the instruction for it."""
    target = parse_target(name)
    tile = tile_for("f32", target)
    signature = "void(*f32,i64,i64,i64,*u16,*u16,*f32,i64,i64,i64,i64,i64,*f32,*f32,f32,f32)"
    loops = multiplying_loops(Spec.plain(panel, signature, {**tile._asdict(), "shares": SHARES}), target)
    assert spilled(loops) == []
    for rows in (1, tile.rows):
        found = [loop for loop in loops if loop.products() == UNROLLED * rows * tile.vectors]
        assert UNROLLED * tile.vectors in {loop.count("vcvtph2ps" if name in X86 else "fcvtl") for loop in found}


@pytest.mark.parametrize("name", CPUS)
def test_a_tile_asks_for_its_share_of_the_panel_that_comes_next(name: str) -> None:
    target = parse_target(name)
    tile = tile_for("f32", target)
    products, nbytes = UNROLLED * tile.rows * tile.vectors, UNROLLED * tile.columns * 4 // SHARES
    loops = multiplying_loops(floats("f32", tile), target)
    [found] = [loop.prefetches() for loop in loops if loop.products() == products]
    assert found == -(-nbytes // CACHE_LINE)
    few = [loop.prefetches() for loop in loops if loop.products() == UNROLLED * tile.vectors]
    assert few and not any(few)  # one row is what is left over


@pytest.mark.parametrize("name", WIDE)
def test_a_tile_of_32_registers_loads_at_most_half_as_often_as_it_multiplies(name: str) -> None:
    """12 x 2 does not."""
    tile = tile_for("f32", parse_target(name))
    assert 2 * (tile.rows + tile.vectors) <= tile.rows * tile.vectors
    assert not 2 * (12 + 2) <= 12 * 2


@pytest.mark.slow
@pytest.mark.parametrize("tuning", X86)
@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v3"])
def test_whatever_cpu_llvm_tunes_for_the_tile_stays_in_registers(
    name: str, tuning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tuned(monkeypatch, name, tuning)
    assert spilled(multiplying_loops(FAMILIES["float"](target), target)) == []


def test_a_scheduler_that_is_left_free_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests rest on: spills are found, and it is the order of reads that keeps them away."""
    target, tight = parse_target("x86-64-v3"), Tile(4, 3, 8)
    with monkeypatch.context() as patched:
        patched.setattr(Vectors, "after", lambda self, pointer, *values: pointer)
        assert spilled(multiplying(compiled_assembly(floats("f32", tight), target)))
    assert spilled(multiplying_loops(floats("f32", tight), target)) == []
