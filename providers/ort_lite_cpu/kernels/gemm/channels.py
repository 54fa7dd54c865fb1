"""Pointwise convolution, channels last: products of rows of pixels and constant panels, group by group, into rows of any length."""

from typing import NamedTuple

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, native, shift
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.gemm import BLOCK, cut, depth_of, grid
from ort_lite_cpu.kernels.gemm.geometry import ResultPlace
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, Tile, TileEpilogue, mode_of, panel


class GroupedProduct(NamedTuple):
    """Sizes of y (m, groups, n) = x (m, groups, k) @ w (groups, k, n)."""

    m: int
    n: int
    k: int
    groups: int


@native
@extents(
    x="g.m * g.groups * g.k",
    w="g.groups * ceildiv(g.n, tile.vectors * tile.lanes) * g.k * tile.vectors * tile.lanes",
    bias="g.groups * g.n",
    residual="walk(0, g.m, place.ldy, g.groups * g.n, 1)",
    y="walk(place.at, g.m, place.ldy, g.groups * g.n, 1)",
)
def channels(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    g: GroupedProduct,
    place: ResultPlace,
    act: ActivationParameters,
    kind: Static,
    tile: Tile,
    part: int,
    parts: int,
) -> int:
    """y[place.at:] (m, groups, n) = kind(clip(x (m, groups, k) @ w (groups, k, n) + bias (groups, n) + residual, low, high)).

    w comes from `pack.filters`; the residual lies as y does. For each block of rows, each piece of the depth and each panel: the
    block stays in the second cache level. y may be the residual's memory where one pass takes all of k. Spec: ONNX Conv-22.
    """
    m, n, k, groups = g.m, g.n, g.k, g.groups
    rows, width = tile.rows, tile.vectors * tile.lanes
    across = max((n + width - 1) // width, 1)
    # Pixels come from another core's cache, weights from what all share.
    first, last, left, right = grid((m + rows - 1) // rows, groups * across, rows, width // (2 * groups), part, parts)
    last = min(last * rows, m)
    pieces, size = cut(k, depth_of(tile.vectors) if m > rows else k)
    block = max(BLOCK // rows, 1) * rows
    for i in range(first * rows, last, block):
        count = min(block, last - i)
        for piece in range(pieces):
            start = piece * size
            depth = min(size, k - start)
            following = start + size if piece + 1 < pieces else 0
            mode = mode_of(piece == 0, piece == pieces - 1, bias, residual, act.low, act.high)
            for number in range(left, right):
                group, j = number // across, number % across * width
                a, out, some = shift(x, (i * groups + group) * k + start), group * n + j, n - j
                factors = shift(w, (number * k + start) * width)
                soon = shift(factors, k * width) if number + 1 < right else shift(w, (left * k + following) * width)
                c, rest = shift(y, place.at + i * place.ldy + out), shift(residual, i * place.ldy + out)
                end = TileEpilogue(mode, shift(bias, out), rest, act.low, act.high)
                left_operand = LeftOperand(a, groups * k, 0, 1)
                panel(left_operand, factors, soon, c, place.ldy, count, some, depth, end, rows, tile.vectors, tile.lanes)
        if kind != "":
            begin = left // across * n + left % across * width
            stop = right // across * n + right % across * width
            activate(shift(y, place.at + i * place.ldy + begin), place.ldy, count, stop - begin, act.alpha, act.beta, kind)
    return OK
