"""QEmbedLayerNormalization of com.microsoft: sums of rows of quantised tables, normalised."""

from functools import partial
from typing import TYPE_CHECKING, Any

from ort_lite.native.extents import extents
from ort_lite.native.lang import (
    INDEX_OUT_OF_RANGE,
    OK,
    Ptr,
    Static,
    failure_status,
    like,
    native,
    null,
    read_once,
    shift,
    span,
)
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.microsoft.normalization import emit_mask_index, normalise_row
from ort_lite_cpu.operators.quantization import BYTES, dequantize, parameter
from ort_lite_cpu.registry import operator

if TYPE_CHECKING:
    from ort_lite_cpu.lowering.failure import Failure

SCALES, ZERO_POINTS = 8, 13
"""The first of the inputs that are scales, and that are zero points: of words, positions, segments, gamma, beta."""


@native
@extents(ids="count", table="entries * n", scale="1", zero="1", y="count * n")
def embed_bytes(
    ids: Ptr,
    table: Ptr,
    scale: Ptr,
    zero: Ptr,
    y: Ptr,
    count: int,
    steps: int,
    entries: int,
    n: int,
    first: Static,
    part: int,
    parts: int,
) -> int:
    """y (count, n) = rows `ids` of the dequantised table (entries, n), added to what is there unless this is the `first` table.

    Without ids, it is the rows 0 to `steps`, again and again.
    """
    factor, away = scale[0], like(y, zero[0])
    for row in span(count, part, parts):
        entry = row % steps if null(ids) else int(read_once(ids, row))
        if entry < 0 or entry >= entries:
            return failure_status(INDEX_OUT_OF_RANGE, row)
        source, target = entry * n, row * n
        for i in range(n):
            value = (like(y, table[source + i]) - away) * factor
            y[target + i] = value if first else y[target + i] + value
    return OK


@native
@extents(x="rows * n", gamma="n", beta="n", y="rows * n")
def normalise(x: Ptr, gamma: Ptr, beta: Ptr, y: Ptr, rows: int, n: int, epsilon: float, part: int, parts: int) -> int:
    """y (rows, n) = x with mean 0 and variance 1 in each row, times gamma, plus beta."""
    for row in span(rows, part, parts):
        normalise_row(shift(x, row * n), shift(y, row * n), gamma, beta, n, epsilon, True)
    return OK


@operator("QEmbedLayerNormalization", domain="com.microsoft", types=BYTES, typed_by=2)
def q_embed_layer_normalization(op: NodeLowering) -> None:
    """Emit EmbedLayerNormalization of quantised tables. Spec: onnxruntime QEmbedLayerNormalization-1."""
    of_segments = [op.has(index) for index in (1, 4, SCALES + 2, ZERO_POINTS + 2)]
    if len(set(of_segments)) > 1:
        raise op.reject("some of segment ids, their embedding, its scale and its zero point; expected all or none of them")
    ids, y = op.input(0), op.output(0)
    total = op.temporary(y.dtype, y.shape)
    _add_table(op, ids, 0, total)
    _add_table(op, None, 1, total)
    if op.has(1):
        _add_table(op, op.input(1), 2, total)
    gamma, beta = (
        op.store(dequantize(op.raw(2 + k), parameter(op, SCALES + k), parameter(op, ZERO_POINTS + k)).tensor()) for k in (3, 4)
    )
    given: dict[str, Any] = {"rows": ids.size, "n": y.shape[-1], "epsilon": float(op.attr("epsilon", 1e-12))}
    op.emit(normalise, [total, gamma, beta, y], **given, work=y.size)
    emit_mask_index(op)


def _add_table(op: NodeLowering, ids: Tensor | None, k: int, total: Tensor) -> None:
    """Add rows of table k: of words, positions or segments. Positions have no ids."""
    table, scale, zero = op.input(2 + k), op.input(SCALES + k), op.input(ZERO_POINTS + k)
    batch, steps, n = total.shape
    given: dict[str, Any] = {"count": batch * steps, "steps": steps, "entries": table.shape[0], "n": n, "first": k == 0}
    operands, types = [ids, table, scale, zero, total], ["i32", table.native, "f32", table.native, "f32"]
    message = _too_long if ids is None else partial(_no_row, "id" if k == 0 else "segment id", 0 if k == 0 else 1)
    op.emit(embed_bytes, operands, **given, types=types, work=total.size, message=message)


def _no_row(what: str, index: int, failure: "Failure") -> str:
    return failure.outside(what, 0, 0, failure.scalar("entries"), index)


def _too_long(failure: "Failure") -> str:
    steps, places = failure.scalar("steps"), failure.scalar("entries")
    return f"there are {steps} steps, and {places} positions in {failure.name(3)!r}"
