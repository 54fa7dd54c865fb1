"""Windows of convolutions and pooling over the spatial dimensions: their strides, dilations and pads."""

from collections.abc import Sequence

from ort_lite_xla.registry import XlaOp

Pads = list[tuple[int, int]]


def strides_of(op: XlaOp, rank: int) -> list[int]:
    """Return the strides, 1 by default."""
    return list(op.attr("strides") or [1] * rank)


def dilations_of(op: XlaOp, rank: int) -> list[int]:
    """Return the dilations, 1 by default."""
    return list(op.attr("dilations") or [1] * rank)


def pads_of(op: XlaOp, sizes: Sequence[int], kernel: Sequence[int]) -> Pads:
    """Return (before, after) for each spatial dimension, from `auto_pad` or `pads`."""
    rank = len(sizes)
    auto = op.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        given = op.attr("pads") or [0] * (2 * rank)
        return [(given[k], given[k + rank]) for k in range(rank)]
    if auto == "VALID":
        return [(0, 0)] * rank
    found = []
    for size, k, stride, dilation in zip(sizes, kernel, strides_of(op, rank), dilations_of(op, rank), strict=True):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return found


def ceil_mode_pads(op: XlaOp, sizes: Sequence[int], kernel: Sequence[int], pads: Pads) -> list[int]:
    """Return the elements that `ceil_mode` adds at the end of each spatial dimension.

    A window that begins there or in the padding is dropped.
    """
    rank = len(sizes)
    if not op.attr("ceil_mode", 0) or op.attr("auto_pad", "NOTSET").startswith("SAME"):
        return [0] * rank
    extra = []
    for size, k, stride, dilation, (before, after) in zip(
        sizes, kernel, strides_of(op, rank), dilations_of(op, rank), pads, strict=True
    ):
        wide, reach = size + before + after, (k - 1) * dilation + 1
        count = -(-(wide - reach) // stride) + 1
        if (count - 1) * stride >= size + before:
            count -= 1
        extra.append(max((count - 1) * stride + reach - wide, 0))
    return extra
