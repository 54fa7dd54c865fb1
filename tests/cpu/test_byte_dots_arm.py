"""Products of bytes as compiled for AArch64: the packed operand, what the inner loops load and multiply, and the features needed.

`tests.emulation` runs these kernels.
"""

import re

import numpy as np
import pytest

from ort_lite.native import Spec
from ort_lite.native.cpu import Target, parse_target
from ort_lite_cpu.kernels.gemm import byte_dots, byte_tile
from ort_lite_cpu.kernels.gemm.integer_epilogue import FORMS, SUMS
from tests.native.assembly import inner_loops
from tests.native.calls import call
from tests.native.compiled import assembly, object_code
from tests.native.elf import undefined_symbols

MATRICES, DOTS = parse_target("armv8.6-a"), parse_target("armv8.2-a+dotprod")
INSTRUCTIONS = [(MATRICES, "uint8", "usmmla"), (MATRICES, "int8", "smmla"), (DOTS, "uint8", "sdot"), (DOTS, "int8", "sdot")]


def tile_of(target: Target, left: str) -> byte_tile.DotTile:
    tile = byte_tile.dot_tile(target, left)
    assert tile is not None
    return tile


@pytest.mark.parametrize("left", ["uint8", "int8"])
@pytest.mark.parametrize(("dtype", "result"), [("int32", "i32"), ("float32", "f32"), ("uint8", "u8"), ("int8", "i8")])
def test_products_compile_and_need_no_symbol(left: str, dtype: str, result: str) -> None:
    statics = {"tile": tile_of(MATRICES, left), "out.form": FORMS[dtype]}
    spec = Spec(byte_dots.dot_gemm, ("u8", "i8", "i32", "f32", "f32", result, "u8"), statics)
    assert undefined_symbols(object_code(spec, MATRICES)) == []


@pytest.mark.parametrize(("target", "left", "instruction"), INSTRUCTIONS)
def test_inner_loops_load_each_row_once_and_keep_sums_in_registers(target: Target, left: str, instruction: str) -> None:
    tile = tile_of(target, left)
    signature = "void(*u8,i64,i64,i64,*i8,*i32,i64,*i32,i64,*i32,*f32,*f32,i64,f32,*i32,i64,i64,i64)"
    text = assembly(Spec.plain(byte_dots.dot_panel, signature, {"tile": tile, "form": SUMS}), target)
    assert set(re.findall(r"\b(?:u?s?mmla|[us]dot)\b", text)) == {instruction}
    loops = [loop for loop in inner_loops(text) if loop.products()]
    assert [line for loop in loops for line in loop.spilled()] == []
    for rows in (tile.rows, tile.few):
        loads = min(loop.loads() for loop in loops if loop.products() == rows * tile.vectors)
        assert loads <= rows + tile.vectors * tile.quads


def test_a_register_of_the_right_operand_holds_eight_of_k_of_two_columns() -> None:
    tile = tile_of(MATRICES, "uint8")
    b = np.arange(11 * 3, dtype=np.int8).reshape(11, 3)
    packed = byte_tile.quads(b, tile)
    assert packed.shape == (1, 2, 8, 8)
    np.testing.assert_array_equal(packed[0, 0, :3], b[:8].T)
    np.testing.assert_array_equal(packed[0, 1, :3, :3], b[8:].T)
    assert not packed[0, :, 3:].any() and not packed[0, 1, :, 3:].any()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (8, 8), (13, 21)])
def test_an_operand_is_packed_in_a_run_as_before_it(k: int, n: int, turned: bool) -> None:
    """Packing has no instruction of its own, so any machine runs that for AArch64's tile."""
    tile = tile_of(MATRICES, "uint8")
    w = np.random.default_rng(0).integers(-128, 128, (k, n)).astype(np.int8)
    want = byte_tile.quads(w, tile)
    terms = byte_tile.column_terms(w.sum(0, dtype=np.int32), tile)
    out, own = np.empty_like(want), np.empty_like(terms)
    given, steps = (np.ascontiguousarray(w.T), [1, 0, k]) if turned else (w, [n, 0, 1])
    spec = Spec(byte_tile.pack_quads, ("u8", "u8", "i8", "i32"), {"tile": tile})
    zero = np.zeros(1, np.int8)
    scalars = [1, k, n, k, 0, *steps, 0, 0, 128]
    assert call(spec, [given, zero, out, own], scalars) == 0
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(own[:2], terms[:2])
    assert not own[2, :n].any()


def test_a_cpu_with_matrix_instructions_compiles_dot_products() -> None:
    """They are cheaper for one row, so a model may have both kinds."""
    tile = byte_tile.vector_tile(MATRICES)
    assert tile is not None
    spec = Spec(byte_dots.dot_gemm, ("u8", "i8", "i32", "f32", "f32", "i32", "u8"), {"tile": tile, "out.form": SUMS})
    assert undefined_symbols(object_code(spec, MATRICES)) == []
