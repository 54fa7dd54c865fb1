"""Contents under ONNX's integer operators: division truncates, types have limits, scalars stand for vectors."""

from collections.abc import Callable

import numpy as np

from ort_lite.dtypes import Array, DType
from ort_lite.shapes import Dim, Shape, equal, floordiv, least, less, modulo, select

Contents = tuple[Dim, ...]

_LIMITS: dict[DType, tuple[int, int]] = {"bool": (0, 1)} | {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (8, 16, 32, 64)
    for sign in ("", "u")
}
_SIZES = frozenset({"bool", "int32", "int64"})  # types whose expressions are sizes and positions: they stay within limits


def apply_elementwise(function: Callable[..., Dim], *operands: Contents | None) -> Contents | None:
    """`function` element by element, one element standing for many. None where an operand is not known.

    Operands of one length have one shape, but for dims of 1, or what they make does not fill the output's shape.
    """
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    lengths = {len(operand) for operand in known if len(operand) != 1}
    if len(lengths) > 1:
        return None
    length = lengths.pop() if lengths else 1
    rows = [operand if len(operand) == length else operand * length for operand in known]
    return tuple([function(*elements) for elements in zip(*rows, strict=True)])


def grid(contents: Contents, shape: Shape) -> Array:
    """The elements as an object array, for NumPy to rearrange; `elements` is the way back."""
    array = np.empty(len(contents), object)
    array[:] = contents
    return array.reshape([dim for dim in shape if isinstance(dim, int)])


def elements(array: Array) -> Contents:
    """Return the elements of an array in row-major order."""
    return tuple(array.reshape(-1).tolist())


def within(dtype: DType, contents: Contents | None) -> Contents | None:
    """`contents`, or None where they would not fit the element type and wrap around, as far as can be told."""
    limits = _LIMITS.get(dtype)
    if contents is None or limits is None:
        return None
    low, high = limits
    for element in contents:
        if not (low <= element <= high if isinstance(element, int) else dtype in _SIZES):
            return None
    return contents


def cast_contents(contents: Contents | None, source: DType, target: DType) -> Contents | None:
    """Cast from one integer type to another: bool is "not zero", integers wrap around."""
    if contents is None or target not in _LIMITS:
        return None
    if target == "bool" and source != "bool":
        return tuple([1 - equal(element, 0) for element in contents])
    low, high = _LIMITS[target]
    wrapped = [(x - low) % (high - low + 1) + low if isinstance(x, int) else x for x in contents]
    return tuple(wrapped) if source == "bool" else within(target, tuple(wrapped))


def divide_towards_zero(a: Dim, b: Dim) -> Dim:
    """a / b rounded towards zero, as integer Div does it."""
    if isinstance(b, int) and b == 0:
        raise ZeroDivisionError("integer division by zero")
    if _is_positive(a) and _is_positive(b):
        return floordiv(a, b)
    return select(less(a * b, 0), -floordiv(-a, b), floordiv(a, b))


def remainder(a: Dim, b: Dim, fmod: bool) -> Dim:
    """Mod: the sign is that of `b`, or that of `a` with `fmod`."""
    return a - divide_towards_zero(a, b) * b if fmod and not (_is_positive(a) and _is_positive(b)) else modulo(a, b)


def _is_positive(dim: Dim) -> bool:
    bound = least(dim)
    return bound is not None and bound >= 0
