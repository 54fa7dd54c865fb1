"""Small integer operands: attributes in old versions of an operator, inputs in new ones."""

from collections.abc import Sequence

from ort_lite.inference import NumbersUnknown, Op
from ort_lite.shapes import Dim, Shape


def operand(op: Op, name: str, index: int | None) -> tuple[Dim, ...] | None:
    """The attribute, else the contents of the input (if there is one); None where neither is given.

    Raises ContentsUnknown.
    """
    given = op.attr(name)
    if given is not None:
        return tuple(given)
    return None if index is None or not op.has(index) else op.contents(index)


def integers(op: Op, name: str, index: int | None) -> list[int] | None:
    """Return the operand as numbers. Raises NumbersUnknown."""
    given = op.attr(name)
    if given is not None:
        return list(given)
    return None if index is None or not op.has(index) else numbers(op, index)


def numbers(op: Op, index: int) -> list[int]:
    """The contents of the input as numbers. Raises NumbersUnknown."""
    known = op.contents_or_none(index)
    found = [element for element in known or () if isinstance(element, int)]
    if known is None or len(found) < len(known):
        raise NumbersUnknown(index)
    return found


def axes_of(op: Op, index: int | None, rank: int) -> list[int] | None:
    """The axes, counted from the front; None where they are left out. Raises NumbersUnknown, ShapeInferenceError."""
    found = integers(op, "axes", index)
    if found is None:
        return None
    axes = [op.axis(axis, rank) for axis in found]
    if len(set(axes)) < len(axes):
        raise op.error(f"axes {found} name one axis twice")
    return axes


def length_of(op: Op, index: int) -> int | None:
    """The number of elements of a vector input, where known."""
    shape = op.info(index).shape
    return shape[0] if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else None


def fresh_shape(op: Op, rank: int) -> list[Dim]:
    """A shape of which nothing but the rank is known."""
    return [op.fresh() for _ in range(rank)]


def common_dim(op: Op, dims: Sequence[Dim]) -> Dim:
    """The one dim that all of these must be: a number if one of them is. Raises ShapeInferenceError."""
    numbers = {dim for dim in dims if isinstance(dim, int)}
    if len(numbers) > 1:
        raise op.error(f"dimensions {' and '.join(map(str, sorted(numbers)))} should be equal")
    return numbers.pop() if numbers else dims[0]


def replace_dim(shape: Shape, axis: int, *dims: Dim) -> list[Dim]:
    """`shape` with other dims in place of the one at `axis`."""
    return [*shape[:axis], *dims, *shape[axis + 1 :]]
