"""Cast, CastLike and BitCast: all types into all types."""

import numpy as np

from ort_lite.dtypes import Array, from_onnx, to_numpy, to_onnx
from tests.conformance.versions.cases import Case, case
from tests.conformance.versions.models import convert
from tests.conformance.versions.schemas import main_types, schemas, variables

_EVERY = [*main_types(schemas()["", "Identity", 25]), *main_types(schemas()["", "Cast", 28])]
CODES = {dtype: to_onnx(dtype) for dtype in dict.fromkeys(_EVERY)}
NUMBERS = tuple(dtype for dtype in CODES if dtype != "string")
X = np.array([[-3.0, 0.0, 1.0], [0.5, 2.0, 3.0]], np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e6, 0.3], np.float32)


def first_version(op_type: str, dtype: str) -> int | None:
    """The first that casts to `dtype`; before 6, `to` is a string."""
    versions = (key[2] for key, schema in schemas().items() if key[1] == op_type and dtype in variables(schema)["T2"])
    return next((max(version, 6) for version in versions), None)


def named(x: Array, to: str) -> Array:
    return np.asarray(convert(x, {"FLOAT": "float32", "DOUBLE": "float64", "INT32": "int32", "BOOL": "bool"}[to]))


def bits(x: Array, to: int) -> Array:
    return x.view(to_numpy(from_onnx(to)))


OLD = [
    case("Cast", X, until=5, to="FLOAT", oracle=named),
    *(case("Cast", X.round(), until=5, types=(), to=name, oracle=named) for name in ("DOUBLE", "INT32", "BOOL")),
]
CASTS = [
    case("Cast", X, since=6, to=CODES["float32"], types=NUMBERS),
    *(
        case("Cast", X, since=version, types=("float64", "int64", "bool") if dtype in ("int32", "float16") else (), to=code)
        for dtype, code in CODES.items()
        if dtype != "string" and (version := first_version("Cast", dtype)) is not None
    ),
    *(case("Cast", x, since=9, types=(), to=CODES["string"], oracle="onnxruntime-13") for x in (X, SPECIAL)),
    *(
        case("Cast", SPECIAL, since=version, types=(), to=CODES[dtype])
        for dtype in ("float16", "bfloat16", "float64", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
        if (version := first_version("Cast", dtype)) is not None
    ),
    case("Cast", SPECIAL, since=19, types=(), to=CODES["float8_e4m3fn"], saturate=0),
    case("Cast", np.array([300, -1, 65537, -(2**40)], np.int64), since=6, types=(), to=CODES["uint8"]),
    case("Cast", np.array(["1.5", "-2", "NaN", "INF", "1e3"], object), since=9, types=(), to=CODES["float32"]),
    case("Cast", np.array(["15", "-2"], object), since=9, types=(), to=CODES["int32"]),
    case("Cast", np.zeros((0, 2), np.float32), since=6, types=(), to=CODES["int32"]),
    case("Cast", np.array(2.5, np.float32), since=6, types=(), to=CODES["int32"]),
]

LIKES = [
    case("CastLike", X, np.array([1], np.float32), types=NUMBERS),
    case("CastLike", X, np.array([""], object), types=(), oracle=lambda x, _: np.array([[f"{v:g}" for v in row] for row in x])),
    case("CastLike", np.array(["1.5", "-2"], object), np.array([1], np.float64), types=()),
    *(
        case("CastLike", X, convert(np.array([1.0], np.float32), dtype), since=version, types=())
        for dtype in CODES
        if dtype != "string" and (version := first_version("CastLike", dtype)) is not None
    ),
]

BITS = [
    case("BitCast", X, to=CODES["int32"], oracle=bits, types=("uint32",)),
    *(
        case("BitCast", convert(X, dtype), to=CODES[to], oracle=bits, types=())
        for to, sources in (
            ("int16", ("float16", "bfloat16", "uint16", "int16")),
            (
                "uint8",
                ("int8", "uint8", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
            ),
            ("int64", ("float64", "int64", "uint64", "complex64")),
            ("complex128", ("complex128",)),
            ("bool", ("bool",)),
            ("uint4", ("int4", "uint4")),
            ("uint2", ("int2", "uint2")),
            ("float4_e2m1fn", ("float4_e2m1fn",)),
            ("float32", ("int32",)),
        )
        for dtype in sources
    ),
]

CASES: tuple[Case, ...] = (*OLD, *CASTS, *LIKES, *BITS)
