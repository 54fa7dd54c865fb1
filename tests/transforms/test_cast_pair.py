import pytest

from ort_lite.dtypes import to_onnx
from ort_lite_transforms.cast_pair import merge_casts
from tests.text_graphs import check

SPELLED = {"float32": "float", "float64": "double"}


def pair(first: str, second: str) -> str:
    return f"{{ a = Cast<to={to_onnx(first)}>(x) b = Cast<to={to_onnx(second)}>(a) z = Neg(b) }}"


def signature(dtype: str, result: str) -> str:
    return f"({SPELLED.get(dtype, dtype)}[A] x) => ({SPELLED.get(result, result)}[A] z)"


@pytest.mark.parametrize(
    ("dtype", "wide"), [("float16", "float32"), ("float32", "float64"), ("int32", "int64"), ("int8", "float16")]
)
def test_a_cast_there_and_back_goes(dtype: str, wide: str) -> None:
    check(merge_casts, signature(dtype, dtype), pair(wide, dtype), "{ z = Neg(x) }")


def test_a_cast_over_a_wider_type_is_one_cast() -> None:
    after = f"{{ b = Cast<to={to_onnx('int32')}>(x) z = Neg(b) }}"
    check(merge_casts, signature("float16", "int32"), pair("float32", "int32"), after)


@pytest.mark.parametrize(
    ("dtype", "narrow"), [("float32", "float16"), ("float64", "float32"), ("int64", "int32"), ("float32", "int32")]
)
def test_does_not_fire_where_the_first_cast_loses_something(dtype: str, narrow: str) -> None:
    check(merge_casts, signature(dtype, dtype), pair(narrow, dtype), skip=f"{dtype} to {narrow} may lose something")
