"""Attributes that steer kernels, compared with what they may be while a node is lowered: kernels rely on it and do not look again."""

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, NamedTuple

from ort_lite.shapes import equal, less, select
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.geometry import Window
from ort_lite_cpu.lowering.op import NodeLowering

MOST = 2**31 - 1
"""The largest window, stride, dilation, padding: products of them with positions stay far below what an int64 holds."""


def axis_of(op: NodeLowering, axis: int, rank: int) -> int:
    """Return `axis` counted from the front. Raises NotImplemented where it is not in [-rank, rank)."""
    if not -rank <= axis < rank:
        raise op.reject(f"axis {axis} is out of range [{-rank}, {rank})")
    return axis % rank


def choice(op: NodeLowering, name: str, default: str, known: Collection[str]) -> str:
    """Return the attribute `name`. Raises NotImplemented where it is none of those known."""
    value: str = op.attr(name, default)
    if value not in known:
        raise op.reject(f"{name} {value!r}; it should be one of {', '.join(known)}")
    return value


class Volume(NamedTuple):
    """Depth, height and width, for kernels."""

    d: int
    h: int
    w: int


def volume(values: Sequence[Dim]) -> Volume:
    """Return 1 to 3 spatial sizes as three; axes in front that are missing have size 1."""
    return Volume(*_three(values, 1))


def window_of(kernel: Sequence[Dim], strides: Sequence[Dim], pads: Sequence[Dim], dilations: Sequence[Dim]) -> Window:
    """Return a window over 1 to 3 spatial axes as one over three; `pads` are those in front of each axis, or all."""
    pads = pads[: len(kernel)]
    return Window(*_three(kernel, 1), *_three(strides, 1), *_three(pads, 0), *_three(dilations, 1))


def _three(values: Sequence[Dim], fill: Dim) -> Any:
    return [*[fill] * (3 - len(values)), *values]


def check_windows(op: NodeLowering, rank: int, result: Sequence[Dim] = ()) -> None:
    """Check attributes of windows over 1 to 3 spatial axes: one number for each axis, positive sizes and steps.

    Raises NotImplemented for others. `result`: dimensions of the output, which are negative where no window fits; the run fails.
    """
    if not 1 <= rank <= 3:
        raise op.reject(f"{rank} spatial axes; there are 1 to 3")
    choice(op, "auto_pad", "NOTSET", ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"))  # "" as in onnxruntime
    for name, count, low in (
        ("kernel_shape", rank, 1),
        ("strides", rank, 1),
        ("dilations", rank, 1),
        ("pads", 2 * rank, -MOST),
        ("output_padding", rank, 0),
    ):
        values = op.attr(name)
        if values and (len(values) != count or min(values) < low or max(values) > MOST):
            raise op.reject(f"{name} {list(values)} should be {count} numbers from {low} to {MOST}")
    if prod(op.attr("kernel_shape") or ()) > MOST:
        raise op.reject(f"a window of {prod(op.attr('kernel_shape'))} elements; it should have {MOST} at most")
    for dim in result:
        op.require(1 - less(dim, 0), "its windows do not fit: there would be {0} of them along an axis", dim)


def check_fit(op: NodeLowering, image: Sequence[Dim], kernel: Sequence[Dim], batch: Dim = 1, partly: bool = False) -> None:
    """Make the run fail for images into which no window fits, unless `batch` is 0. `partly`: windows may reach beyond."""
    mode, rank = op.attr("auto_pad") or "NOTSET", len(image)
    if mode.startswith("SAME"):
        return
    pads = (mode == "NOTSET" and op.attr("pads")) or [0] * 2 * rank
    strides, dilations = (op.attr(name) or [1] * rank for name in ("strides", "dilations"))
    for k, (dim, size) in enumerate(zip(image, kernel, strict=True)):
        reach = (size - 1) * dilations[k] + 1
        room = dim + pads[k] + pads[k + rank] - reach + (strides[k] - 1 if partly else 0)
        fits = select(equal(batch, 0), 1, 1 - less(room, 0))
        op.require(fits, f"a window of {{0}} does not fit into {{1}} + {pads[k]} + {pads[k + rank]}", reach, dim)


def one_of(op: NodeLowering, *names: str) -> list[Any]:
    """Return the list that one of these attributes is, an empty one for none. Raises NotImplemented where several are there, which may
    contradict each other.
    """
    lists = [list(values) for name in names if (values := op.attr(name))]
    if len(lists) > 1:
        raise op.reject(f"it has several of {', '.join(names)}, expected one of them")
    return lists[0] if lists else []
