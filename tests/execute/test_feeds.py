"""Validation of feeds: what is passed on as it is, what is converted, what is refused and in which words."""

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_lite.errors import Cancelled, InvalidArgument, OutOfMemory
from ort_lite.execute.feeds import SLICE, Feeds
from ort_lite.graph import Graph, MapType, Node, OptionalType, SequenceType, TensorType, Type, Value
from ort_lite.memory import sliced_copy
from ort_lite.provider import RunOptions
from ort_lite.provider.current import as_in
from ort_lite.shapes import symbol

N = symbol("N")


def fed(type_: Type | None, value: Any, read: bool = True) -> Any:
    x = Value("x", type_)
    graph = Graph("g", [x], [])
    if read:
        graph.append(Node("Identity", [x], [Value("y")], name="reader"))
    return Feeds(graph.inputs)({"x": value})[0]


def tensor(dtype: str, *shape: Any) -> TensorType:
    return TensorType(dtype, shape)


# Passed on as they are


def test_none_feeds_an_input_that_nobody_reads() -> None:
    assert fed(tensor("float32", N), None, read=False) is None
    with pytest.raises(InvalidArgument, match="input 'x' has rank 2"):
        fed(tensor("float32", N), np.zeros((2, 2), np.float32), read=False)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "uint8", "bool"])
def test_an_array_that_is_right_is_passed_on(dtype: str) -> None:
    x = np.zeros((2, 3), dtype)
    assert fed(tensor(dtype, N, 3), x) is x


@pytest.mark.parametrize("dtype", ["float32", "int64", "object"])
def test_an_unpickled_array_is_passed_on(dtype: str) -> None:
    """Its dtype equals NumPy's, but need not be the same object."""
    x = pickle.loads(pickle.dumps(np.array([["1"], ["2"]], object).astype(dtype)))
    assert fed(tensor("string" if dtype == "object" else dtype, N, 1), x) is x


def test_types_that_numpy_lacks_are_passed_on() -> None:
    x = np.zeros((2, 3), ml_dtypes.bfloat16)
    assert fed(tensor("bfloat16", N, 3), x) is x


def test_strings_that_are_right_are_passed_on() -> None:
    x = np.array(["a", "b"], object)
    assert fed(tensor("string", N), x) is x


def test_an_array_without_a_known_type_is_passed_on() -> None:
    x = np.zeros(2)
    assert fed(None, x) is x


# Converted


def views() -> dict[str, np.ndarray[Any, Any]]:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    unaligned = np.frombuffer(b"\0" + base[:, :3].tobytes(), np.float32, offset=1).reshape(4, 3)
    return {
        "a step": base[:, ::2],
        "a transpose": base[:3, :4].T,
        "backwards": base[::-1, :3],
        "big-endian": base[:, :3].astype(">f4"),
        "unaligned": unaligned,
        "fortran order": np.asfortranarray(base[:, :3]),
        "broadcast": np.broadcast_to(base[0, :3], (4, 3)),
    }


@pytest.mark.parametrize("kind", views())
@pytest.mark.parametrize("part", [1, 20, 1 << 20])
def test_views_are_made_contiguous_native_and_aligned(kind: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_copy, "SLICE", part)
    x = views()[kind]
    before = x.copy()
    got = fed(tensor("float32", 4, 3), x)
    assert got.flags.c_contiguous
    assert got.flags.aligned
    assert got.dtype == np.float32
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, before)
    np.testing.assert_array_equal(x, before)


def test_a_cancelled_run_ends_while_its_feeds_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_copy, "SLICE", 8)
    options, x = RunOptions(), views()["a transpose"]
    with as_in(options, None):
        fed(tensor("float32", 4, 3), x)
        options.terminate = True
        with pytest.raises(Cancelled, match="while input 'x' was copied"):
            fed(tensor("float32", 4, 3), x)
        with pytest.raises(Cancelled, match="at element 0 of input 'x'"):
            fed(SequenceType(tensor("float32", 4, 3)), [x])


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", [[1, 2.5]], [[1, 2.5]]),
        ("float32", [], []),
        ("int64", [1, True], [1, 1]),
        ("int64", [1.0, 2.0], [1, 2]),
        ("int32", 7, 7),
        ("bool", [True, False], [True, False]),
        ("uint8", (1, 255), [1, 255]),
        ("float16", 0.5, 0.5),
        ("bfloat16", [1, 0.5], [1, 0.5]),
        ("float32", [np.float32(1.5), 2], [1.5, 2]),
    ],
)
def test_python_numbers_take_the_declared_type(dtype: str, value: Any, expected: Any) -> None:
    got = fed(TensorType(dtype), value)
    assert got.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    np.testing.assert_array_equal(got.astype(np.float64), expected)


def test_a_numpy_scalar_and_a_0d_array_stay_0d() -> None:
    assert fed(tensor("int64"), np.int64(3)).shape == ()
    assert fed(tensor("int64"), np.array(3)[...]).shape == ()


def test_subclasses_become_plain_arrays() -> None:
    got = fed(tensor("float32", N, 3), np.ma.masked_array(np.ones((2, 3), np.float32)))
    assert type(got) is np.ndarray


class ArrayLike:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


def test_objects_that_make_arrays_are_taken() -> None:
    np.testing.assert_array_equal(fed(tensor("float32", 2), ArrayLike(np.ones(2, np.float32))), [1, 1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a", "ß"], ["a", "ß"]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array([b"a", "ß".encode()], object), ["a", "ß"]),
        (np.array([b"a", b"bc"]), ["a", "bc"]),
        (np.array(["a", 1, None], object), ["a", "1", "None"]),
        (np.array([["a", "b"], ["c", "d"]], object)[:, ::-1], [["b", "a"], ["d", "c"]]),
        (np.array([np.str_("a")], object), ["a"]),
        (np.array([b"A\0A\0"], np.void), ["A\0A\0"]),
        ("a", "a"),
        ([], []),
    ],
    ids=repr,
)
def test_strings_become_object_arrays_of_str(value: Any, expected: Any) -> None:
    got = fed(TensorType("string"), value)
    assert got.dtype == object
    assert got.flags.c_contiguous
    assert got.tolist() == expected
    assert all(type(item) is str for item in got.flat)


def test_sequences_take_a_value_for_each_element() -> None:
    got = fed(SequenceType(tensor("float32", N)), [[1, 2], np.zeros(3, np.float32)])
    assert [x.shape for x in got] == [(2,), (3,)]
    assert all(x.dtype == np.float32 for x in got)


def test_maps_are_passed_on() -> None:
    value = {"a": 1.0}
    assert fed(MapType("string", tensor("float32")), value) is value


def test_an_optional_input_may_be_none_or_missing() -> None:
    feeds = Feeds([Value("x", OptionalType(tensor("float32", N))), Value("y", tensor("float32", N))])
    y = np.zeros(2, np.float32)
    assert feeds({"y": y}) == [None, y]
    assert feeds({"y": y, "x": None})[0] is None
    assert feeds({"y": y, "x": [1]})[0].dtype == np.float32


# Refused


@pytest.mark.parametrize(
    ("dtype", "value", "came", "name"),
    [
        ("float32", np.zeros((2, 3)), "tensor(double) of shape [2, 3]", "tensor(float)"),
        ("bool", np.zeros(2, np.uint8), "tensor(uint8) of shape [2]", "tensor(bool)"),
        ("float32", np.float64(1), "tensor(double) of shape []", "tensor(float)"),
        ("float32", np.array(["a"]), "tensor(string) of shape [1]", "tensor(float)"),
        ("float32", np.zeros(1, "M8[s]"), "datetime64[s] of shape [1]", "tensor(float)"),
    ],
)
def test_an_array_of_another_type_is_refused_with_the_conversion(dtype: str, value: Any, came: str, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        fed(TensorType(dtype), value)
    assert str(caught.value) == f"input 'x' is {came}; expected {name}: convert it, e.g. by .astype('{dtype}')"


FLOATS, STRINGS = tensor("float32", N), tensor("string", N)


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        (tensor("float32", N, 3), np.zeros(3, np.float32), "has rank 1, shape [3]; expected rank 2, [N, 3]"),
        (tensor("float32", N, 3), np.zeros((2, 4), np.float32), "has 4 in dimension 1, shape [2, 4]; expected [N, 3]"),
        (FLOATS, None, "is None; expected tensor(float)"),
        (tensor("int64", N), [1.5], "holds numbers that tensor(int64) cannot; they came as tensor(double)"),
        (tensor("uint8", N), [300], "holds numbers that tensor(uint8) cannot; they came as tensor(int64)"),
        (tensor("int64", N), ["a"], "holds tensor(string); expected numbers for tensor(int64)"),
        (FLOATS, [[1, 2], [3]], "makes no array of tensor(float): setting an array element with a sequence"),
        (STRINGS, np.zeros(2), "is tensor(double); expected tensor(string): str, or an array of them"),
        (STRINGS, np.zeros(2, [("a", "i4")]), "is [('a', '<i4')]; expected tensor(string)"),
        (STRINGS, np.array([b"\xff"]), "holds bytes that are not UTF-8: "),
        (STRINGS, [["a", "b"], ["c"]], "is ragged: it holds ['a', 'b'] where tensor(string) has one element"),
        (tensor("string", N, 2), np.array(["a"]), "has rank 1, shape [1]; expected rank 2, [N, 2]"),
        (SequenceType(FLOATS), np.zeros(3, np.float32), "is a ndarray; expected seq(tensor(float))"),
        (SequenceType(FLOATS), [np.zeros(3)], "is tensor(double) of shape [3]"),
        (MapType("string", tensor("float32")), 3, "is a int; expected map(string,tensor(float))"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_does_not_fit_names_the_input_what_came_and_what_is_expected(type_: Type, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        fed(type_, value)
    assert str(caught.value).startswith(f"input 'x' {message}")


class Failing:
    """Raises in whatever makes a text or an array of it."""

    def __str__(self) -> str:
        raise ZeroDivisionError("boom")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("boom")


@pytest.mark.parametrize("name", ["float32", "string"])
def test_an_array_that_cannot_be_made_names_the_input(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"input 'x' makes no array of tensor\(\w+\): ZeroDivisionError: boom"):
        fed(tensor(name, N), Failing())


def test_a_text_that_cannot_be_made_names_the_input() -> None:
    objects = np.array(["a", None], object)
    objects[1] = Failing()
    message = "input 'x' holds an object of class Failing whose text cannot be made: ZeroDivisionError: boom"
    with pytest.raises(InvalidArgument, match=message) as caught:
        fed(tensor("string", N), objects)
    assert (caught.value.input, caught.value.got) == ("x", "Failing")


def test_many_objects_become_texts_in_slices() -> None:
    numbers = np.arange(2 * SLICE + 1).astype(object)
    assert fed(tensor("string", N), numbers).tolist() == [str(k) for k in range(len(numbers))]


def test_a_run_that_is_cancelled_converts_no_more_texts() -> None:
    options = RunOptions()
    options.terminate = True
    with as_in(options, None), pytest.raises(Cancelled, match="the texts of input 'x' were being converted"):
        fed(tensor("string", N), np.full(2 * SLICE, "a", object))


def test_the_rank_of_a_scalar_is_not_enforced() -> None:
    assert fed(tensor("int64"), np.array([16000])).shape == (1,)


def test_a_shape_that_came_before_does_not_let_another_one_through() -> None:
    feeds = Feeds([Value("x", tensor("float32", N, 3))])
    for _ in range(2):
        feeds({"x": np.zeros((2, 3), np.float32)})
        with pytest.raises(InvalidArgument, match="4 in dimension 1"):
            feeds({"x": np.zeros((2, 4), np.float32)})


A, B = np.zeros(1, np.float32), np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"a": A}, "missing input 'b'; fed were 'a'"),
        ({}, "missing inputs 'a', 'b'; fed were nothing"),
        ({"a": A, "c": B}, "missing input 'b'; fed were 'a', 'c'"),
        ({"a": A, "b": B, "c": A, "d": A}, "the model has no input 'c', 'd'; expected 'a', 'b'"),
        ([A, B], "the feed is a list; expected a dict from input names to arrays"),
        (None, "the feed is a NoneType; expected a dict from input names to arrays"),
        (A, "the feed is a ndarray; expected a dict from input names to arrays"),
    ],
)
def test_names_that_do_not_fit_are_listed(feed: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Feeds([Value("a", tensor("float32", 1)), Value("b", tensor("float32", 1))])(feed)
    assert str(caught.value) == message


def test_inputs_come_in_the_order_of_the_graph() -> None:
    feeds = Feeds([Value("a", tensor("float32", 1)), Value("b", tensor("float32", 1))])
    assert feeds({"b": B, "a": A}) == [A, B]
    assert Feeds([])({}) == []


def test_a_view_that_claims_more_than_there_is_is_not_copied_before_its_shape_is_looked_at() -> None:
    huge = np.broadcast_to(np.float32(1), (1 << 58,))
    with pytest.raises(InvalidArgument, match="input 'x' has rank 1"):
        fed(tensor("float32", N, 3), huge)
    with pytest.raises(OutOfMemory, match=r"input 'x' of shape \[288230376151711744\] cannot be copied"):
        fed(tensor("float32", N), huge)


def test_names_as_long_as_books_are_not_repeated() -> None:
    feeds = Feeds([Value("x", tensor("float32", N))])
    for feed in ({"y" * (1 << 20): 1}, {"x": np.zeros(1, np.float32), "y" * (1 << 20): 1}):
        with pytest.raises(InvalidArgument, match=r"yyy\.\.\. \(1048578 characters\)") as caught:
            feeds(feed)
        assert len(str(caught.value)) < 400
