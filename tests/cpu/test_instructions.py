"""The instructions that kernels multiply with: which one a kernel has, and the loops that measure their peaks."""

import re

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.native import Spec, instructions
from ort_lite.native.cpu import NAMES, host, parse_target
from ort_lite.native.instructions import INSTRUCTIONS, loops
from ort_lite.tools.cli.benchmark.machine_peaks import FACTORS
from ort_lite_cpu.kernels.gemm import bfloat16_tile, byte_tile, few_bit_dots, integer
from ort_lite_cpu.program.recording import instruction_name
from tests.native.assembly import inner_loops
from tests.native.compiled import assembly

TARGETS = ["x86-64", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4", "znver4", "sapphirerapids", "armv8.0-a", "armv8.6-a"]
MNEMONICS = {
    "fma f32": r"vfmadd\d+ps|fmla|mulps",
    "amx u8s8": "tdpbusd",
    "amx s8s8": "tdpbssd",
    "amx bf16": "tdpbf16ps",
    "i8mm u8s8": "usmmla",
    "i8mm s8s8": "smmla",
    "dots u8s8": "vpdpbusd",
    "dots s8s8": "sdot",
    "dots bf16": "vdpbf16ps",
    "pairs s16s16": "v?pmaddwd|smlal",
}
MODEL = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (uint8[64,128] u, int8[64,128] s, bfloat16[64,128] h, bfloat16[128,128] i, float[64,128] f, int8[128,128] w, float[128,128] v,
    uint8[128,4,16] q, float[512] d, uint8[1,32,9,9] x, uint8[32,1,3,3] k)
    => (int32[] a, int32[] b, bfloat16[] c, float[] e, float[] n, int32[] y) {
    [unsigned] a = MatMulInteger(u, w) [signed] b = MatMulInteger(s, w) [halves] c = MatMul(h, i) [floats] e = MatMul(f, v)
    [blocks] n = com.microsoft.MatMulNBits<K=128, N=128, bits=4, block_size=32, accuracy_level=4>(f, q, d)
    [depthwise] y = ConvInteger<group=32>(x, k) }"""
PAIRS = "pairs s16s16"
EXPECTED = {
    "x86-64-v3": (PAIRS, PAIRS, "fma f32", "fma f32", "fma f32", PAIRS),
    "x86-64-v4": (PAIRS, PAIRS, "fma f32", "fma f32", "fma f32", PAIRS),
    "x86-64-v4+avx512vnni": ("dots u8s8", "dots u8s8", "fma f32", "fma f32", "dots u8s8", "dots u8s8"),
    "sapphirerapids": ("amx u8s8", "amx s8s8", "amx bf16", "fma f32", "dots u8s8", "dots u8s8"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_loop_has_its_instruction_and_no_memory(name: str) -> None:
    target = parse_target(name)
    for instruction, (spec, _) in loops(target).items():
        [loop] = inner_loops(assembly(spec, target))
        products = [line for line in loop.lines if re.fullmatch(MNEMONICS[instruction], line.split()[0])]
        assert len(products) == dict(spec.statics)["count"], instruction
        assert not [line for line in loop.lines if "(" in line or "[" in line], instruction


def test_without_a_compiler_only_loops_that_are_there_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "compiler_lacks", lambda: "numba")
    monkeypatch.setattr(instructions, "is_available", lambda spec, target: "fmuladd" in spec.exact)
    [(name, (run, _))] = instructions.runs(host()).items()
    assert (name, run()) == ("fma f32", 0)


def test_factors_tell_which_products_an_instruction_can_compute() -> None:
    assert MNEMONICS.keys() == INSTRUCTIONS.keys()
    assert {name.split()[1] for name in INSTRUCTIONS} == {factor for factors in FACTORS.values() for factor in factors}


@pytest.mark.parametrize("name", NAMES)
def test_the_instruction_of_each_tile_has_a_loop(name: str) -> None:
    target = parse_target(name)
    tiles = [byte_tile.dot_tile(target, "uint8"), byte_tile.dot_tile(target, "int8"), byte_tile.vector_tile(target)]
    statics = [{"tile": tile} for tile in (*tiles, bfloat16_tile.bfloat16_tile(target)) if tile is not None]
    specs = [Spec(integer.integer_gemm, (), given) for given in (*statics, integer.integer_tile(target).statics, {})]
    specs += [Spec(few_bit_dots.few_bit_dots)] if target.has_byte_products else []
    pairs = byte_tile.vector_tile(target) if target.has_vnni else None
    specs += [] if pairs is None else [Spec(integer.integer_gemm, (), {"tile": pairs._replace(middle=byte_tile.PAIRS)})]
    assert {instruction_name([spec], target) for spec in specs} <= loops(target).keys()


@pytest.mark.parametrize("name", [name for name in EXPECTED if parse_target(name).runs_on(host())])
def test_nodes_have_the_instruction_of_their_kernel(name: str) -> None:
    model = onnx.parser.parse_model(MODEL)
    rng = np.random.default_rng(0)
    constants = {"w": np.int8, "v": np.float32, "q": np.uint8, "d": np.float32, "k": np.uint8}
    for value in [value for value in model.graph.input if value.name in constants]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        array = rng.integers(1, 99, shape).astype(constants[value.name])
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.target", name)
    with ort_lite.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]) as session:
        kernels = session.explain(kernels=True).kernels
    nodes = ("unsigned", "signed", "halves", "floats", "blocks", "depthwise")
    assert tuple(kernels[node].instruction for node in nodes) == EXPECTED[name]
