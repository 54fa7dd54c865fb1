"""Pointwise convolution, channels last: products of rows of pixels and constant panels, group by group, into rows of any length."""

import math

from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, native, shift
from ort_lite_cpu.kernels.gemm.activation import ActivationParameters, activate
from ort_lite_cpu.kernels.gemm.gemm import BLOCK, cut, depth_of, grid
from ort_lite_cpu.kernels.gemm.geometry import ResultPlace
from ort_lite_cpu.kernels.gemm.microkernel import LeftOperand, TileEpilogue, mode_of, panel


@native
@extents(
    x="m * groups * k",
    w="groups * ceildiv(n, vectors * lanes) * k * vectors * lanes",
    bias="groups * n",
    residual="walk(0, m, place.ldy, groups * n, 1)",
    y="walk(place.at, m, place.ldy, groups * n, 1)",
)
def channels(
    x: Ptr,
    w: Ptr,
    bias: Ptr,
    residual: Ptr,
    y: Ptr,
    m: int,
    n: int,
    k: int,
    groups: int,
    place: ResultPlace,
    act: ActivationParameters,
    kind: Static,
    rows: Static,
    vectors: Static,
    lanes: Static,
    part: int,
    parts: int,
) -> int:
    """y[place.at:] (m, groups * n) = kind(clip(x (m, groups * k) times w + bias + residual, low, high)), rows `place.ldy` apart.

    n, k: of one group; w from `pack.filters`; the residual lies as y does. For each block of rows, each piece of the depth and each
    panel: the block stays in the second cache level. y may be the residual's memory where one pass takes all of k.
    Spec: ONNX Conv-22.
    """
    width = vectors * lanes
    across = max((n + width - 1) // width, 1)
    # Pixels come from another core's cache, weights from what all share.
    first, last, left, right = grid((m + rows - 1) // rows, groups * across, rows, width // (2 * groups), part, parts)
    last = min(last * rows, m)
    clips = act.low > -math.inf or act.high < math.inf
    pieces, size = cut(k, depth_of(vectors) if m > rows else k)
    block = max(BLOCK // rows, 1) * rows
    for i in range(first * rows, last, block):
        count = min(block, last - i)
        for piece in range(pieces):
            start = piece * size
            depth = min(size, k - start)
            following = start + size if piece + 1 < pieces else 0
            mode = mode_of(piece == 0, piece == pieces - 1, bias, residual, clips)
            for number in range(left, right):
                group, j = number // across, number % across * width
                a, out, some = shift(x, (i * groups + group) * k + start), group * n + j, n - j
                factors = shift(w, (number * k + start) * width)
                soon = shift(factors, k * width) if number + 1 < right else shift(w, (left * k + following) * width)
                c, added, other = (
                    shift(y, place.at + i * place.ldy + out),
                    shift(bias, out),
                    shift(residual, i * place.ldy + out),
                )
                epilogue = TileEpilogue(mode, added, other, act.low, act.high)
                panel(
                    LeftOperand(a, groups * k, 0, 1),
                    factors,
                    soon,
                    c,
                    place.ldy,
                    count,
                    some,
                    depth,
                    epilogue,
                    rows,
                    vectors,
                    lanes,
                )
        if kind != "":
            begin = left // across * n + left % across * width
            end = right // across * n + right % across * width
            activate(shift(y, place.at + i * place.ldy + begin), place.ldy, count, end - begin, act.alpha, act.beta, kind)
    return OK
