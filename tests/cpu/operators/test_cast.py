"""Cast and CastLike between native element types."""

import ml_dtypes
import numpy as np
import pytest

from ort_lite.dtypes import to_numpy, to_onnx
from ort_lite.errors import InvalidGraph
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program.program import Program
from tests.cpu.check import check_op, ramp, rules, run_op, text_program


def test_sixteen_bits_round_to_nearest_even_and_overflow_to_infinity() -> None:
    x = np.array([65504, 65520, 1e-8, 2049, 2051, 3.4e38, np.nan, -np.inf], np.float32)
    with np.errstate(all="ignore"):
        check_op("Cast", x, to=to_onnx("float16"), expected=x.astype(np.float16))
        check_op("Cast", x, to=to_onnx("bfloat16"), expected=x.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", ["float32", "float64", "int32"])
def test_what_is_fused_with_a_cast_sees_it_rounded(source: str, dtype: str) -> None:
    kind = {"float32": "float", "float64": "double", "int32": "int32"}[source]
    narrow, wide = to_onnx(dtype), to_onnx("float32")
    text = f"({kind}[N] x) => (float[N] y) {{ h = Cast<to={narrow}>(x) w = Cast<to={wide}>(h) y = Neg(w) }}"
    x = (ramp((50,)) * 1000).astype(source)
    assert np.array_equal(text_program(text)([x])[0], -x.astype(to_numpy(dtype)).astype(np.float32))


def test_types_that_cast_does_not_give_are_refused() -> None:
    with pytest.raises(InvalidGraph, match=r"Cast 'node': output 0 \(output, 'out0'\) is tensor\(complex64\); Cast-21 gives"):
        run_op("Cast", [ramp((2,))], {"to": to_onnx("complex64")})


def test_a_cast_to_strings_that_only_the_run_finds() -> None:
    x, target, y = Value("x", TensorType("float32", (2,))), Value("target"), Value("y")
    node = Node("CastLike", [x, target], [y], {}, version=21, name="node")
    program = Program([node], [(x, Info(x.type)), (target, Info())], [y], rules(), CPUOptions(threads=1), {})
    [made] = program([np.array([1.5, -2], np.float32), np.array(["a"], object)])
    assert made.tolist() == ["1.5", "-2"]
