"""Numbers of texts, by the dictionary and by native code: the same for both."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ort_lite.dtypes import Array
from ort_lite.graph import Node
from ort_lite.native.cpu import host
from ort_lite_cpu.operators import texts
from ort_lite_cpu.operators.lookup import MANY, Lookup
from ort_lite_cpu.operators.texts import text_numbers
from ort_lite_cpu.run.kernels import Kernels
from ort_lite_cpu.run.pace import CHEAP, Pace
from tests.cpu.check import run_op

KERNELS = Kernels(host())
KEYS = ["red", "", "a longer name", "été", "r\0d", "red ", "\U0001f600", "7"]
OTHERS = ["blue", "re", "redd", "été ", "\0", "r", "a longer nam\xe9", "x" * 1000]
UNREADABLE = [1, None, b"red", 1.5]


def lookup(other: Any = -7, kind: Any = np.int64, keys: list[str] = KEYS) -> Lookup:
    pace = Pace(Node("LabelEncoder", [], [], name="node"))
    return Lookup(pace, KERNELS, {key: 10 * k for k, key in enumerate(keys)}, np.dtype(kind), other, "is unknown")


def wanted(x: Array, kind: Any = np.int64) -> Array:
    numbers = {key: 10 * k for k, key in enumerate(KEYS)}
    return np.array([numbers.get(str(text), -7) for text in x.reshape(-1)], kind).reshape(x.shape)


def fresh(*given: str) -> list[str]:
    """Texts that are no objects of somebody else."""
    return ["".join(list(text)) for text in given]


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.int16, np.float64])
@pytest.mark.parametrize("count", [0, 1, 2, MANY - 1, MANY, 1000, CHEAP + 3])
def test_many_texts_have_the_numbers_of_few(count: int, kind: Any) -> None:
    x = np.resize(np.array(fresh(*KEYS, *OTHERS, *KEYS), object), count)
    np.testing.assert_array_equal(lookup(kind=kind).find(x), wanted(x, kind))


@given(st.lists(st.text("rdé \0a", max_size=5), min_size=MANY, max_size=MANY + 5))
def test_any_texts(given: list[str]) -> None:
    x = np.array([*given, *KEYS], object).reshape(1, -1)
    y = lookup().find(x)
    np.testing.assert_array_equal(y, wanted(x))
    y[:] = 0  # the result is the caller's


def test_columns_are_read_with_their_strides() -> None:
    x = np.array([*KEYS, *OTHERS] * MANY, object).reshape(-1, 4)
    np.testing.assert_array_equal(lookup().find(x[:, 1:2]), wanted(x[:, 1:2]))


def test_texts_of_a_class_of_their_own_are_texts() -> None:
    x = np.array([np.str_(text) for text in [*KEYS, *OTHERS] if text != "\0"] * MANY, object)
    np.testing.assert_array_equal(lookup().find(x), wanted(x))


def test_what_is_no_text_has_the_other_number() -> None:
    x = np.array([*UNREADABLE, *KEYS] * MANY, object)
    empty = np.empty(MANY, object)
    np.testing.assert_array_equal(lookup().find(x), [-7, -7, -7, -7, *range(0, 10 * len(KEYS), 10)] * MANY)
    assert lookup().find(empty).tolist() == [-7] * MANY


@pytest.mark.parametrize("text", ["blue", "bleú"])
@pytest.mark.parametrize("count", [1, 2, MANY, 1000])
def test_a_text_without_a_number_may_be_an_error(count: int, text: str) -> None:
    x = np.array([*["red"] * (count - 1), text, *["green"] * (count > 2)], object)
    with pytest.raises(ValueError, match=f"'{text}' at position {count - 1} is unknown"):
        lookup(other=None).find(x)
    known = np.array(["red", "été"] * count, object)
    assert lookup(other=None).find(known).tolist() == [0, 30] * count


def test_keys_that_are_not_ascii_alone() -> None:
    x = np.array(["é", "e", ""] * MANY, object)
    assert lookup(keys=["é"]).find(x).tolist() == [0, -7, -7] * MANY


def test_without_native_code_the_dictionary_finds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_LAYOUT", None)
    assert text_numbers(KEYS, KERNELS) is None
    x = np.array([*KEYS, *OTHERS] * MANY, object)
    np.testing.assert_array_equal(lookup().find(x), wanted(x))


def test_this_python_is_read() -> None:
    numbers = text_numbers(KEYS, KERNELS)
    assert numbers is not None
    x, y = np.array([*fresh(*KEYS), "blue", 1], object), np.zeros(len(KEYS) + 2, np.int64)
    assert numbers.write(x, y) == 3
    assert y.tolist() == [0, 1, 2, -1, 4, 5, -1, 7, len(KEYS), -1]


@pytest.mark.parametrize("rows", [0, 1, 3, 500])
def test_rows_of_zeros_and_ones(rows: int) -> None:
    x = np.resize(np.array(["b", "a", "é", "unseen", ""], object), (rows, 2))
    categories = ["a", "", "é", "b"]
    [y] = run_op("OneHotEncoder", [x], {"cats_strings": categories, "zeros": 1}, opset=1, domain="ai.onnx.ml")
    np.testing.assert_array_equal(y, x[..., None] == np.array(categories, object))
