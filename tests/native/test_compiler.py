"""From functions to objects: meaning of kernels, vector code, symbols, targets, messages."""

import ctypes
import re

import numpy as np
import pytest

from ort_lite.errors import KernelCompileError
from ort_lite.native import Spec, load
from ort_lite.native.compiler import compile_object, write
from ort_lite.native.cpu import Target, host
from ort_lite.native.lang import INDEX_OUT_OF_RANGE, RAISED, failure_status
from tests.native import kernels
from tests.native.calls import AARCH64, HASWELL, SKYLAKE_AVX512, SSE2, call, element, expression_spec, plain
from tests.native.compiled import object_code
from tests.native.elf import undefined_symbols

LIBM = re.compile(
    r"(a?(sin|cos|tan)h?|atan2|cbrt|ceil|erf|exp2?|expm1|floor|fmod|log(10|1p|2)?|nearbyint|pow|rint|sqrt|tanh|trunc)f?"
)
TARGETS = {"sse2": SSE2, "haswell": HASWELL, "skylake-avx512": SKYLAKE_AVX512, "aarch64": AARCH64}
GATHER = Spec(kernels.gather, ("f32", "i64", "f32"))
VECTORISED = (
    "x + y",
    "exp(x)",
    "log(x)",
    "tanh(x)",
    "erf(x)",
    "sigmoid(x)",
    "sin(x)",
    "cos(x)",
    "sqrt(x)",
    "rint(x)",
    "fmax(x, y)",
    "x if x > y else y",
)


def scaled(kind: str, limit: float) -> Spec:
    return Spec(kernels.scaled, ("f32", "f32", "f32"), {"kind": kind, "limit": limit})


# --- What kernels compute
def test_operands_may_lie_anywhere_in_memory() -> None:
    """Entry k of the memory table plus an offset in bytes; entry 0 makes the offset an address."""
    arena, y, z = np.arange(16, dtype=np.float32), np.ones(4, np.float32), np.zeros(4, np.float32)
    memory = np.array([0, arena.ctypes.data], np.int64)
    descriptor = np.array([1, 8, 0, y.ctypes.data, 0, z.ctypes.data, 4], np.int64)
    (address,) = load([Spec(kernels.add, ("f32",) * 3)])
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(address)
    assert entry(descriptor.ctypes.data, memory.ctypes.data, 0, 1) == 0
    np.testing.assert_array_equal(z, [3, 4, 5, 6])


def test_a_status_names_the_position() -> None:
    x, y = np.arange(12, dtype=np.float32), np.zeros((3, 3), np.float32)
    assert call(GATHER, [x, np.array([1, -1, 3]), y], [1, 4, 3, 3]) == 0
    np.testing.assert_array_equal(y, x.reshape(4, 3)[[1, -1, 3]])
    assert call(GATHER, [x, np.array([1, -1, 4]), y], [1, 4, 3, 3]) == failure_status(INDEX_OUT_OF_RANGE, 2)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_an_element_is_read_once_whatever_its_type(dtype: str) -> None:
    """The load is one that LLVM may not repeat, `unordered`, after all of its passes too."""
    spec = Spec(kernels.pick, ("f32", element(dtype), "f32"))
    x, y = np.arange(5, dtype=np.float32), np.zeros(3, np.float32)
    assert call(spec, [x, np.array([4, 0, 3], dtype), y], [3, 5]) == 0
    assert y.tolist() == [4, 0, 3]
    assert call(spec, [x, np.array([4, 5, 3], dtype), y], [3, 5]) == failure_status(INDEX_OUT_OF_RANGE, 1)
    assert optimised(spec, host()).count("load atomic") == 1


@pytest.mark.parametrize("bias", [None, np.array([10, 20, 30], np.float32)], ids=["no bias", "bias"])
@pytest.mark.parametrize("kind", ["relu", "none"])
def test_static_float_and_optional_parameters(kind: str, bias: object) -> None:
    x, y = np.array([-1, 0, 2], np.float32), np.zeros(3, np.float32)
    assert bias is None or isinstance(bias, np.ndarray)
    assert call(scaled(kind, 0.25), [x, bias, y], [3, 0.5]) == 0
    expected = np.maximum(x * 1.5, 0.25) if kind == "relu" else x * 1.5
    np.testing.assert_allclose(y, expected if bias is None else expected + bias)


def test_the_fields_of_a_named_tuple_are_scalars_of_the_call() -> None:
    y = np.zeros(8, np.float32)
    assert call(Spec(kernels.grouped, ("f32",)), [y], [2, 2, 0.5, 2]) == 0
    np.testing.assert_array_equal(y, [0.5, 0, 1.5, 0, 2.5, 0, 3.5, 0])


def test_static_fields_of_records_are_constants_and_emitters_get_records() -> None:
    """The float64 field is converted to the float32 that the emitter takes beside a float32 pointer."""
    x, y = np.array([1.5], np.float32), np.zeros(2, np.float32)
    spec = Spec(kernels.with_records, ("f32", "f32"), {"factors.static": 5})
    assert call(spec, [x, y], [3, 0.25]) == 0
    np.testing.assert_array_equal(y, [2, 15])


def test_a_kernel_that_raises_returns_a_status_of_its_own() -> None:
    spec = Spec(kernels.raises, ("f32",))
    assert [call(spec, [np.array([value], np.float32)]) for value in (1, -1)] == [0, RAISED]


def test_plain_functions_have_the_signature_that_they_name() -> None:
    words = np.array([7, 9], np.int64)
    assert plain(Spec.plain(kernels.swap_words, "i64(i64, i64)"), words.ctypes.data, words.ctypes.data + 8) == 16
    np.testing.assert_array_equal(words, [9, 7])


def test_static_arguments_reach_emitters_as_values() -> None:
    assert plain(Spec.plain(kernels.twelve_times, "i64(i64)"), 5) == 60


def test_int64_arithmetic_wraps() -> None:
    spec = expression_spec("like(x, 1 if x + y < x else 0)", "i64", "i64", "i64")
    out = np.zeros(1, np.int64)
    assert call(spec, [np.array([2**63 - 1]), np.array([1]), out, out], [1]) == 0
    assert out[0] == 1


# --- What the objects are
def optimised(spec: Spec, target: Target) -> str:
    with write(spec, target, "k").module() as module:
        return str(module)


def defined(text: str) -> list[tuple[str, str]]:
    """(linkage, name) of the functions that a module defines."""
    return re.findall(r"^define (internal)?.*?@([\w.]+)\(", text, re.MULTILINE)


@pytest.mark.parametrize("expression", VECTORISED)
def test_loops_over_f32_become_vector_code(expression: str) -> None:
    assert re.search(r"vector\.body:.*<8 x float>", optimised(expression_spec(expression, "f32", "f32"), HASWELL), re.DOTALL)


def test_reductions_become_vector_code_only_if_they_may_be_reordered() -> None:
    assert "fadd reassoc nsz arcp contract <8 x float>" in optimised(Spec(kernels.total, ("f32", "f32")), HASWELL)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(
    "spec",
    [GATHER, scaled("relu", 0.0), Spec(kernels.raises, ("f32",)), expression_spec("f32_to_f16(f16_to_f32(x))", "u16", "u16")]
    + [expression_spec(text, "f32", "f32") for text in (*VECTORISED, "floor(x)", "power(x, y)", "tan(x)", "fma(x, y, z)")],
    ids=lambda spec: spec.source[1].split("= ")[-1].split("\n")[0] if spec.source else spec.name.split(".")[-1],
)
def test_objects_need_nothing_but_the_c_library_of_mathematics(spec: Spec, target: Target) -> None:
    symbols = undefined_symbols(object_code(spec, target))
    assert [name for name in symbols if not LIBM.fullmatch(name)] == []


def test_objects_show_one_symbol() -> None:
    assert defined(optimised(scaled("relu", 0.0), host())) == [("", "k")]


def test_large_helpers_stay_out_of_line() -> None:
    text = optimised(Spec.plain(kernels.calls_large, "i64(i64)"), host())
    assert sorted(defined(text)) == [("", "k"), ("internal", "k.0")]
    assert plain(Spec.plain(kernels.calls_large, "i64(i64)"), 2) == 15


@pytest.mark.parametrize(("target", "by_instruction"), [(HASWELL, True), (SSE2, False)], ids=["f16c", "no f16c"])
def test_half_precision_uses_what_the_target_has(target: Target, by_instruction: bool) -> None:
    assert ("fpext" in optimised(expression_spec("f16_to_f32(x)", "f32", "u16"), target)) == by_instruction


# --- Messages
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (expression_spec("x * 0.5", "i32", "i32"), "convert it with"),
        (expression_spec("exp(x)", "f32", "i64"), "expected F(F)"),
        (expression_spec("tan(x, y)", "f32", "f32"), "expected F(F)"),
        (expression_spec("unknown(x)", "f32", "f32"), "unknown"),
        (Spec(kernels.add, ("f32", "f32")), "no type for parameter 'z'"),
        (Spec(kernels.add, ("f32",) * 4), "belong to no parameter"),
        (Spec(kernels.scaled, ("f32",) * 3, {"kind": "relu"}), "no value for the Static parameter 'limit'"),
        (Spec(kernels.plus, ("f32",)), "the last parameters of a kernel"),
        (Spec.from_source("f", "def f(x, part: int, parts: int): ...", "tests.native.kernels"), "annotated None"),
    ],
)
def test_a_failing_compile_names_the_kernel_and_the_reason(spec: Spec, message: str) -> None:
    with pytest.raises(KernelCompileError, match=re.escape(message)) as raised:
        compile_object(spec, host(), "k")
    assert spec.name in str(raised.value)


def test_kernels_do_not_recurse() -> None:
    text = "def f(x: int) -> int:\n    return g(x)\ndef g(x):\n    return 1 if x < 1 else g(x - 1)\n"
    with pytest.raises(KernelCompileError, match="g calls itself: kernels do not recurse"):
        compile_object(Spec(None, source=("f", text, "tests.native.kernels"), signature="i64(i64)"), host(), "k")


def test_an_unknown_element_type_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="f16"):
        Spec(kernels.add, ("f16",) * 3)
