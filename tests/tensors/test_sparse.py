"""SparseTensor: the same calls on onnxruntime's and ours give the same results, or errors of one kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import ort_lite
from ort_lite import errors
from ort_lite.errors import InvalidArgument, InvalidType

VALUES = np.array([1, 2, 3], np.float32)
FLAT, PAIRS = np.array([3, 5, 15]), np.array([[0, 3], [1, 1], [3, 3]])
COLUMNS, ROWS = np.array([1, 1, 2]), np.array([0, 1, 2, 3])
CPU = onnxruntime.OrtDevice.make("cpu", 0)

MADE: dict[str, Callable[[Any], Any]] = {
    "flat": lambda api: api.SparseTensor.sparse_coo_from_numpy([4, 4], VALUES, FLAT, CPU),
    "pairs": lambda api: api.SparseTensor.sparse_coo_from_numpy([4, 4], VALUES, PAIRS, CPU),
    "int32 indices": lambda api: api.SparseTensor.sparse_coo_from_numpy([4, 4], VALUES, FLAT.astype(np.int32), CPU),
    "vector": lambda api: api.SparseTensor.sparse_coo_from_numpy([16], VALUES.astype(np.int8), FLAT, CPU),
    "strings": lambda api: api.SparseTensor.sparse_coo_from_numpy([4, 4], np.array(["a", "b", "c"]), FLAT, CPU),
    "csr": lambda api: api.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS, ROWS, CPU),
    "values (1, 3)": lambda api: api.SparseTensor.sparse_coo_from_numpy([4, 4], VALUES[None], FLAT, CPU),
    "too few indices": lambda api: api.SparseTensor.sparse_coo_from_numpy([4, 4], VALUES, FLAT[:2], CPU),
    "csr of three dimensions": lambda api: api.SparseTensor.sparse_csr_from_numpy([3, 3, 3], VALUES, COLUMNS, ROWS, CPU),
    "too few columns": lambda api: api.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS[:2], ROWS, CPU),
    "too few rows": lambda api: api.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS, ROWS[:3], CPU),
    "of a number": lambda api: api.SparseTensor(3),
}
ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "values": lambda api, made: made.values().tolist(),
    "shape": lambda api, made: made.dense_shape(),
    "type": lambda api, made: made.data_type(),
    "device": lambda api, made: made.device_name(),
    "format": lambda api, made: str(made.format()),
    "coo": lambda api, made: made.as_coo_view().indices().tolist(),
    "csr": lambda api, made: [made.as_csrc_view().inner().tolist(), made.as_csrc_view().outer().tolist()],
    "block": lambda api, made: made.as_blocksparse_view(),
    "to_cuda": lambda api, made: made.to_cuda(CPU),
    "OrtValue": lambda api, made: _of_value(api.OrtValue.ort_value_from_sparse_tensor(made)),
    "numpy": lambda api, made: api.OrtValue.ort_value_from_sparse_tensor(made).numpy(),
    "of a dense one": lambda api, made: api.OrtValue.ortvalue_from_numpy(VALUES).as_sparse_tensor(),
}


def _of_value(value: Any) -> Any:
    told = [
        value.is_sparse_tensor(),
        value.is_tensor(),
        value.has_value(),
        value.shape(),
        value.data_type(),
        value.element_type(),
    ]
    return [*told, value.as_sparse_tensor().values().tolist()]


def outcome(call: Callable[[], Any]) -> Any:
    """What it gives, or the class of the error."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001  what comes is compared
        return type(error)


def agree(ours: Any, theirs: Any) -> bool:
    """Return True if the results are equal, or the same `except` clause catches both errors."""
    if isinstance(theirs, type) and issubclass(theirs, Exception):
        return isinstance(ours, type) and issubclass(ours, getattr(errors, theirs.__name__, theirs))
    return bool(ours == theirs)


@pytest.mark.parametrize("name", MADE)
def test_sparse_tensors_are_onnxruntimes(name: str) -> None:
    ours, theirs = (outcome(partial(MADE[name], api)) for api in (ort_lite, onnxruntime))
    if isinstance(theirs, type):
        assert agree(ours, theirs) or (ours, theirs) == (InvalidType, ValueError)
        return
    for question, ask in ASKED.items():
        told, expected = outcome(partial(ask, ort_lite, ours)), outcome(partial(ask, onnxruntime, theirs))
        assert agree(told, expected), question


@pytest.mark.parametrize(
    ("message", "make"),
    [
        (r"coo_indices: an index is outside of \[16\]", lambda t: t.sparse_coo_from_numpy([4, 4], VALUES, FLAT + 1)),
        (r"coo_indices: an index is outside of \[4, 4\]", lambda t: t.sparse_coo_from_numpy([4, 4], VALUES, PAIRS - 1)),
        (r"are for a matrix; dense_shape is \[16\]", lambda t: t.sparse_coo_from_numpy([16], VALUES, PAIRS)),
        (r"shape \[-1, 4\] has a negative", lambda t: t.sparse_coo_from_numpy([-1, 4], VALUES, FLAT)),
        (r"inner_indices: an index is outside of \[3\]", lambda t: t.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS + 1, ROWS)),
        ("rise from 0 to 3", lambda t: t.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS, ROWS[::-1])),
        ("a type|which ONNX lacks", lambda t: t.sparse_coo_from_numpy([4, 4], VALUES.astype("M8[s]"), FLAT)),
    ],
)
def test_what_onnxruntime_takes_and_should_not(message: str, make: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make(ort_lite.SparseTensor)


def test_block_sparse() -> None:
    blocks, where = np.ones((2, 2, 3), np.float32), np.zeros((2, 3), np.int32)
    made = ort_lite.SparseTensor.blocksparse_from_numpy([8, 8], blocks, where)
    assert np.shares_memory(made.values(), blocks)
    assert made.as_blocksparse_view().indices().tolist() == where.tolist()
    with pytest.raises(InvalidArgument, match="is not made dense"):
        made.dense()
    with pytest.raises(InvalidArgument, match=r"shape \[2, 2\]; expected \[2, 3\]"):
        ort_lite.SparseTensor.blocksparse_from_numpy([8, 8], blocks, where[:, :2])


def test_fed_to_a_session_they_are_dense() -> None:
    x, y = (helper.make_tensor_value_info(name, 1, [None, None]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    session = ort_lite.InferenceSession(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    dense = np.zeros((3, 3), np.float32)
    dense[0, 1], dense[1, 1], dense[2, 2] = VALUES
    index = np.flatnonzero(dense)
    sparse = ort_lite.SparseTensor
    for made in (
        sparse.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS, ROWS),
        sparse.sparse_coo_from_numpy([3, 3], VALUES, index),
        sparse.sparse_coo_from_numpy([3, 3], VALUES, np.argwhere(dense)),
    ):
        assert (made.dense() == dense).all()
        value = ort_lite.OrtValue.ort_value_from_sparse_tensor(made)
        (got,) = session.run_with_ort_values(None, {"x": value})
        assert (got.numpy() == dense).all()
        for feed in (made, value):
            assert (session.run(None, {"x": feed})[0] == dense).all()
    huge = sparse.sparse_coo_from_numpy([2**20, 2**20], VALUES, FLAT)
    with pytest.raises(InvalidArgument, match="too large to make dense"):
        huge.dense()


def test_what_was_checked_is_read_only() -> None:
    made = ort_lite.SparseTensor.sparse_csr_from_numpy([3, 3], VALUES, COLUMNS, ROWS)
    view = made.as_csrc_view()
    assert not any(array.flags.writeable for array in (made.values(), view.inner(), view.outer()))
    assert VALUES.flags.writeable


def test_other_things_are_no_values() -> None:
    for wrong in (3, "text"):
        with pytest.raises(InvalidType, match="expected an array"):
            ort_lite.OrtValue(wrong)
    assert ort_lite.OrtValue.ortvalue_from_shape_and_type([2], np.str_).numpy().tolist() == ["", ""]
