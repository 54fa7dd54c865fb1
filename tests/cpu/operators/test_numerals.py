"""Numbers that texts write, against onnxruntime."""

import math
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import to_onnx
from ort_lite.errors import InvalidData
from ort_lite_cpu.operators import numerals
from tests.cpu.check import run_op
from tests.cpu.ort import ort_op

READ = ["0", "1", "-1", "+1", "007", "-0", "42", "127", " 1", "\t1", "\n1", "1 ", "1\n"]
"""Integers, and reals."""
_REALS = """
    3.14 -3.14 .5 5. 1e3 1E3 1e+3 1e-3 -1.5E-10 inf INF -inf +Inf infinity -INFINITY nan NaN -nan nan(1) 1e300
    0x10 0x1p3 0X1.8P-1 1e39 123456789012345678901234567890 0.1 1e-300 9007199254740993 16777217 2.2250738585072014e-308
"""
REALS = [*READ, *_REALS.split()]


def cast(text: str, dtype: str) -> Any:
    return run_op("Cast", [np.array([text], object)], {"to": to_onnx(dtype)})[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("text", REALS)
def test_reals_are_onnxruntimes(text: str, dtype: str) -> None:
    [wanted] = ort_op("Cast", [np.array([text], object)], {"to": to_onnx(dtype)}, opset=21, outputs=[dtype])
    np.testing.assert_array_equal(cast(text, dtype), wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("text", READ)
def test_integers_are_onnxruntimes(text: str, dtype: str) -> None:
    if text == "-1" and dtype[0] == "u":
        with pytest.raises(InvalidData, match="'-1' is beyond"):
            cast(text, dtype)
        return
    [wanted] = ort_op("Cast", [np.array([text], object)], {"to": to_onnx(dtype)}, opset=21, outputs=[dtype])
    np.testing.assert_array_equal(cast(text, dtype), wanted)


@pytest.mark.parametrize(
    ("text", "number"), [("1e3", 1000), ("2.9", 2), ("-2.9", -2), ("0x10", 16), ("1e18", 10**18), ("5.", 5)]
)
def test_integers_may_be_written_as_reals(text: str, number: int) -> None:
    """onnxruntime stops at what is no digit: "1e3" is 1."""
    assert cast(text, "int64").tolist() == [number]


@pytest.mark.parametrize(
    "text", ["1_000", "12abc", "1 2", "1,5", "1e", "٣", "１", "", "-", "abc", "0b1", "1.2.3", "infinit", "nan(", "1" * 1001]
)
def test_other_texts_are_no_numbers(text: str) -> None:
    for dtype in ("float32", "int64", "bool"):
        with pytest.raises(InvalidData, match=r"Cast 'node' \(CPUExecutionProvider\): .* is not a number"):
            cast(text, dtype)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("128", "int8"),
        ("-129", "int8"),
        ("256", "uint8"),
        ("8", "int4"),
        ("-1", "uint4"),
        ("nan", "int4"),
        ("9223372036854775808", "int64"),
        ("1e400", "float64"),
        ("inf", "int64"),
        ("nan", "int32"),
    ],
)
def test_numbers_beyond_a_type_are_refused(text: str, dtype: str) -> None:
    with pytest.raises(InvalidData, match=f"'{text}' (is beyond|has no value)"):
        cast(text, dtype)


@pytest.mark.parametrize(("text", "truth"), [("0", False), ("-0", False), ("2e0", True)])
def test_any_number_but_zero_is_true(text: str, truth: bool) -> None:
    assert cast(text, "bool").tolist() == [truth]


def test_a_double_is_the_nearest() -> None:
    assert numerals.real("0.1") == 0.1
    assert math.copysign(1, numerals.real("-0")) == -1
    assert numerals.whole("-12") == -12


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
@pytest.mark.parametrize("text", ["1e39", "-1e39", "inf", "-INF", "nan", "3", "500"])
def test_small_floats_are_those_of_numeric_casts(text: str, dtype: str) -> None:
    for saturate in (0, 1):
        attributes = {"to": to_onnx(dtype), "saturate": saturate}
        [found] = run_op("Cast", [np.array([text], object)], attributes)
        [wanted] = run_op("Cast", [np.array([float(text)])], attributes)
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("odd", ["", "nan", "0x10", " 7", "1e3", "123456789012345678901", "-0"])
def test_many_numbers_are_those_of_each(odd: str) -> None:
    texts = ["1", "-2", "+3", "4567890123456789", *([odd] if odd else [])]
    np.testing.assert_array_equal(numerals.reals(texts), [numerals.real(text) for text in texts])
    if odd != "nan":
        assert numerals.wholes(texts) == [numerals.whole(text) for text in texts]


@pytest.mark.parametrize("wrong", ["2,3", "", ",", "1_0", "1e400", "2" * 1001])
def test_one_wrong_text_among_many_is_found(wrong: str) -> None:
    for texts in ([wrong], ["1", wrong], [wrong, "1"]):
        with pytest.raises(ValueError, match=r"is not a number|is beyond"):
            numerals.reals(texts)


def test_no_texts_are_no_numbers() -> None:
    assert numerals.reals([]) == numerals.wholes([]) == []
