"""Requests and answers as bytes, without a server."""

import json
from typing import Any

import numpy as np
import pytest
from ort_lite_serve import Limits, Refused
from ort_lite_serve.batching import apart
from ort_lite_serve.protocol import Request, RequestedOutput, decode, encode, memory_of
from ort_lite_serve.tensors import DATATYPES, from_list

from ort_lite.dtypes import to_numpy

LIMITS = Limits()


def sample(dtype: str) -> Any:
    if dtype == "string":
        return np.array([["", "ä"], ["two", "\0"]], object)
    return np.array([[0, 1], [1, 0]]).astype(to_numpy(dtype))


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("binary", [True, False])
def test_what_is_encoded_is_decoded(datatype: str, binary: bool) -> None:
    """An answer's output has the form of a request's input."""
    array = sample(DATATYPES[datatype])
    body, length = encode("m", "1", Request("", {}, (RequestedOutput("x", binary),), False), {"x": array})
    told = json.loads(body[:length])
    head = json.dumps({"inputs": told["outputs"]}).encode()
    assert told["outputs"][0]["datatype"] == datatype and (length is not None) == binary
    found = decode(head + body[length or len(body) :], str(len(head)) if binary else None, LIMITS).inputs["x"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("int64", [1.5]),
        ("int64", [True]),
        ("bool", [1]),
        ("uint8", [-1]),
        ("uint8", [256]),
        ("float32", ["1"]),
        ("float32", [10**400]),
        ("float16", [70000]),
        ("bfloat16", [1e39]),
        ("string", [1]),
        ("float32", [[1]]),
        ("float32", {"0": 1}),
    ],
    ids=str,
)
def test_elements_are_taken_as_they_are_or_not_at_all(dtype: str, data: Any) -> None:
    with pytest.raises(Refused) as found:
        from_list("x", data, dtype, (1,))
    assert found.value.status == 400


def test_infinities_are_floats() -> None:
    assert from_list("x", [float("inf")], "bfloat16", (1,)).astype(np.float32).tolist() == [np.inf]


def test_nested_elements_are_in_the_order_of_the_shape() -> None:
    assert from_list("x", [[[1, 2]], [[3, 4]]], "int32", (2, 1, 2)).tolist() == [[[1, 2]], [[3, 4]]]
    assert from_list("x", [1, 2, 3, 4], "int32", (2, 1, 2)).tolist() == [[[1, 2]], [[3, 4]]]


def test_bytes_that_nobody_asked_for_are_refused() -> None:
    head = json.dumps({"inputs": []}).encode()
    with pytest.raises(Refused, match="3 bytes are left"):
        decode(head + b"abc", str(len(head)), LIMITS)


def test_every_truncation_is_refused() -> None:
    head = json.dumps(
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}]}
    ).encode()
    body = head + bytes(8)
    assert decode(body, str(len(head)), LIMITS).inputs["x"].tolist() == [0, 0]
    for size in range(len(body)):
        with pytest.raises(Refused):
            decode(body[:size], str(len(head)), LIMITS)


def test_an_output_without_a_row_for_each_is_nobodys() -> None:
    with pytest.raises(ValueError, match=r"'y' has shape \[2\], expected 3 rows"):
        apart({"y": np.zeros(2)}, [1, 2])


@pytest.mark.parametrize(
    "text",
    [
        '{"":0},',
        "[],",
        "{},",
        '"ab",',
        "1.5,",
        "1000,",
        '["a"],',
        '{"a":{}},',
        '{"KEY":1},',
        "[[]],",
        "[0],",
        "0,",
        '"é",',
        '"\N{GRINNING FACE}",',
    ],
)
def test_json_is_refused_by_the_memory_that_it_takes(text: str) -> None:
    """What is not refused takes no more than what is counted: Python's objects, and one more reference for each."""
    import tracemalloc

    items = (text.replace("KEY", str(k)) for k in range(200_000 // len(text)))
    body = ('{"inputs": [' + "".join(items)[:-1] + "]}").encode()
    tracemalloc.start()
    told = json.loads(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told["inputs"] and peak <= memory_of(body)
    with pytest.raises(Refused, match=r"would take \d+ bytes; this server takes 1000000: send tensors as bytes") as caught:
        decode(body, None, LIMITS.replace(json_memory=1_000_000))
    assert caught.value.status == 413


def test_texts_are_counted() -> None:
    one = {"name": "x", "datatype": "BYTES", "shape": [3], "data": ["a", "b", "c"]}
    body = json.dumps({"inputs": [one]}).encode()
    assert decode(body, None, LIMITS).inputs["x"].tolist() == ["a", "b", "c"]
    with pytest.raises(Refused, match="this server takes 2 elements"):
        decode(body, None, LIMITS.replace(texts=2))
