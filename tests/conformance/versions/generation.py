"""Operators that make tensors of nothing or of a shape: Constant, ConstantOfShape, EyeLike, Range; and Dropout."""

from typing import Any

import numpy as np
import onnx

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.casting import CODES, NUMBERS
from tests.conformance.versions.models import convert
from tests.conformance.versions.schemas import schemas, variables
from tests.cpu.check import ints, ramp

X = np.array([[1.0, 2.0, 3.0], [0.0, 2.0, 1.0]], np.float32)


def first_version(op_type: str, variable: str, dtype: str) -> int | None:
    """The first whose type variable allows `dtype`."""
    found = (key[2] for key, schema in schemas().items() if key[1] == op_type and dtype in variables(schema)[variable])
    return next(found, None)


def constant(value: Array) -> Any:
    return lambda **_: value


def plain(name: str, value: Any, dtype: Any) -> Case:
    return case("Constant", since=12, oracle=constant(np.array(value, dtype)), **{name: value})


_SPARSE = onnx.helper.make_sparse_tensor(
    onnx.helper.make_tensor("values", onnx.TensorProto.FLOAT, [2], [1.5, -2.0]),
    onnx.helper.make_tensor("indices", onnx.TensorProto.INT64, [2], [1, 4]),
    [2, 3],
)
_DENSE = np.array([[0, 1.5, 0], [0, -2.0, 0]], np.float32)
CONSTANTS = [
    *(
        case("Constant", since=first, oracle=constant(value), value=value)
        for dtype in CODES
        if (first := first_version("Constant", "T", dtype)) is not None
        for value in [np.asarray(convert(X, dtype))]
    ),
    case("Constant", oracle=constant(np.zeros((0, 2), np.float32)), value=np.zeros((0, 2), np.float32)),
    case("Constant", oracle=constant(np.array(1.5, np.float32)), value=np.array(1.5, np.float32)),
    case("Constant", since=11, oracle=constant(_DENSE), sparse_value=_SPARSE),
    plain("value_float", 0.5, np.float32),
    plain("value_floats", [0.5, 2.0], np.float32),
    plain("value_int", -7, np.int64),
    plain("value_ints", [2**62, -1], np.int64),
    plain("value_string", "a", object),
    plain("value_strings", ["a", ""], object),
]


def filled(shape: Array, value: Array | None = None) -> Array:
    return np.zeros(shape.tolist(), np.float32) if value is None else np.full(shape.tolist(), value[0], value.dtype)


FILLS = [
    *(
        case(
            "ConstantOfShape",
            ints(2, 3),
            since=first,
            oracle=filled,
            constants=(0,),
            value=np.asarray(convert(X[0, :1], dtype)),
        )
        for dtype in NUMBERS
        if (first := first_version("ConstantOfShape", "T2", dtype)) is not None
    ),
    case("ConstantOfShape", ints(2, 0), oracle=filled),
    case("ConstantOfShape", ints(), oracle=filled),
]


def eye(x: Array, k: int = 0, dtype: int | None = None) -> Array:
    rows, columns = x.shape
    kind = x.dtype if dtype is None else np.dtype({CODES["int64"]: "int64", CODES["float16"]: "float16"}[dtype])
    return np.eye(rows, columns, k, np.float32).astype(kind)


EYES = [
    case("EyeLike", X, oracle=eye),
    case("EyeLike", X, types=(), k=1, oracle=eye),
    case("EyeLike", X, types=(), k=-5, oracle=eye),
    case("EyeLike", X, types=(), dtype=CODES["int64"], oracle=eye),
    case("EyeLike", X[:0], types=(), oracle=eye),
]


def counted(start: Array, limit: Array, delta: Array, **_: Any) -> Array:
    wide = [value.astype(np.float64 if value.dtype.kind == "f" else np.int64) for value in (start, limit, delta)]
    size = max(int(np.ceil((wide[1] - wide[0]) / wide[2])), 0)
    return np.asarray(wide[0] + np.arange(size) * wide[2]).astype(start.dtype)


def numbers(*values: float, dtype: str = "float32") -> list[Any]:
    return [np.array(value, dtype) for value in values]


RANGES = [
    case("Range", *numbers(1, 7, 2), oracle=counted, constants=(0, 1, 2)),
    case("Range", *numbers(0.5, -2, -0.75), types=(), oracle=counted),
    case("Range", *numbers(3, 3, 1), types=(), oracle=counted),
    case("Range", *numbers(5, 1, 2, dtype="int64"), types=(), oracle=counted, constants=(0, 1, 2)),
    case("Range", *numbers(10, 4, -3, dtype="int32"), types=(), oracle=counted),
    case("Range", *numbers(0, 1, 0.1), types=(), oracle=counted),
]

_KEPT = ramp((2, 3, 4))
_RATIO, _NO = np.array(0.75, np.float32), np.array(False)
DROPOUTS = [
    case("Dropout", _KEPT, until=6, is_test=1, oracle=lambda x, is_test: x),
    case("Dropout", _KEPT, since=7, until=11, ratio=0.9),
    case("Dropout", _KEPT, since=10, until=11, types=(), outputs=2, oracle=lambda x: (x, np.zeros(x.shape, bool))),
    case("Dropout", _KEPT, since=12),
    case(
        "Dropout",
        _KEPT,
        _RATIO,
        _NO,
        since=12,
        types=(),
        constants=(1, 2),
        outputs=2,
        oracle=lambda x, *_: (x, np.ones(x.shape, bool)),
    ),
]

CASES: tuple[Case, ...] = (*CONSTANTS, *FILLS, *EYES, *RANGES, *DROPOUTS)
