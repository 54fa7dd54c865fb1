"""Element types: the three spellings agree with those of NumPy, ml_dtypes and onnx."""

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from ort_lite.dtypes import (
    BITS,
    COMPLEX,
    FLOATS,
    INTEGERS,
    from_numpy,
    from_onnx,
    from_ort_name,
    is_dtype,
    itemsize,
    ort_name,
    to_numpy,
    to_onnx,
)

CODES = {name: code for name, code in onnx.TensorProto.DataType.items() if 0 < code <= 26}  # later ones are not supported
ALL = [from_onnx(code) for code in CODES.values()]


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_the_numpy_type_is_the_one_that_onnx_uses(name: str, code: int) -> None:
    assert to_numpy(from_onnx(code)) == onnx.helper.tensor_dtype_to_np_dtype(code), name
    assert to_onnx(from_onnx(code)) == code


@pytest.mark.parametrize("dtype", ALL)
def test_spellings_lead_back(dtype: str) -> None:
    assert from_numpy(to_numpy(dtype)) == dtype
    assert from_ort_name(ort_name(dtype)) == dtype
    assert is_dtype(dtype)


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype != "string"])
def test_an_element_takes_the_bytes_that_numpy_gives_it(dtype: str) -> None:
    assert itemsize(dtype) == to_numpy(dtype).itemsize


def test_names_inside_of_tensor_are_those_of_onnxruntime() -> None:
    assert [ort_name(d) for d in ("float32", "float64", "bool", "string", "bfloat16", "float8_e4m3fn", "int4")] == [
        "tensor(float)",
        "tensor(double)",
        "tensor(bool)",
        "tensor(string)",
        "tensor(bfloat16)",
        "tensor(float8e4m3fn)",
        "tensor(int4)",
    ]
    assert from_ort_name("double") == "float64"


@pytest.mark.parametrize("dtype", [np.dtype(object), np.dtype("U7"), np.dtype("S3"), np.dtypes.StringDType()], ids=str)
def test_every_kind_of_text_is_string(dtype: np.dtype[Any]) -> None:
    assert from_numpy(dtype) == "string"


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]", "V3", np.longdouble, ml_dtypes.float8_e3m4], ids=str)
def test_other_numpy_types_are_refused(dtype: Any) -> None:
    with pytest.raises(KeyError):
        from_numpy(np.dtype(dtype))


@pytest.mark.parametrize("code", [0, 999])
def test_unknown_numbers_are_refused(code: int) -> None:
    with pytest.raises(KeyError):
        from_onnx(code)


def test_packed_types_have_as_many_bits_as_they_have_values() -> None:
    for dtype, bits in BITS.items():
        every = np.arange(2**bits, dtype=np.uint8).view(to_numpy(dtype)).astype(np.float32)
        assert len(set(every.tolist())) == 2**bits - dtype.startswith("float"), dtype  # two zeros


def test_families_share_no_member() -> None:
    assert not FLOATS & INTEGERS
    assert not COMPLEX & (FLOATS | INTEGERS)
    assert all(np.issubdtype(to_numpy(dtype), np.integer) for dtype in INTEGERS)


def test_ml_dtypes_is_imported_only_for_the_types_that_numpy_lacks() -> None:
    code = (
        "import sys; from ort_lite.dtypes import to_numpy; to_numpy('float32'); assert 'ml_dtypes' not in sys.modules; "
        "to_numpy('bfloat16'); assert 'ml_dtypes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
