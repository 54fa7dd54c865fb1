"""Columns of a table and their products, written into the Concat that joins them: scikit-learn's PolynomialFeatures is one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ort_lite.dtypes import INTEGERS
from ort_lite.native.extents import extents
from ort_lite.native.lang import OK, Ptr, Static, native, span, wmul
from ort_lite.record import Record
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor, bits
from ort_lite_cpu.registry import REAL

DEEP = 4
"""The most columns that are multiplied here."""


@native
@extents(x="rows * features", table="terms * depth", y="walk(at, rows, width, terms, 1)")
def multiply_columns(
    x: Ptr, table: Ptr, y: Ptr, rows: int, features: int, terms: int, width: int, at: int, depth: Static, part: int, parts: int
) -> int:
    """y[:, at : at + terms] of y (rows, width) = products of columns of x (rows, features), which `table` (terms, depth) has.

    The columns are within x: `extract_columns`.
    """
    for row in span(rows, part, parts):
        for k in range(terms):
            v = x[row * features + table[k * depth]]
            for factor in range(1, depth):
                v = wmul(v, x[row * features + table[k * depth + factor]])
            y[row * width + at + k] = v
    return OK


class Columns(Record, eq=False):
    """Products of columns of a table x (N, C), each with one column or more, made by the node of `op`."""

    op: NodeLowering
    x: Tensor
    terms: tuple[tuple[int, ...], ...]

    def emit(self, y: Tensor) -> None:
        """Emit the products, for readers other than the Concat."""
        self.write(self.op, y, 0)

    def write(self, op: NodeLowering, y: Tensor, at: Dim) -> None:
        """Write the products into columns of y (N, width) from `at` on; those of equally many columns in one call."""
        x, (rows, features) = self.x, self.x.shape
        for depth, group in groupby(self.terms, len):
            table = np.array([*group], np.int64)
            operands = [x, op.array(table), y] if depth > 1 else [bits(x), op.array(table), bits(y)]
            sizes: dict[str, Any] = {"rows": rows, "features": features, "terms": len(table), "width": y.shape[1], "at": at}
            op.emit(multiply_columns, operands, **sizes, depth=depth, work=rows * len(table) * depth)
            at = at + len(table)


def extract_columns(op: NodeLowering, index: Sequence[int]) -> None:
    """Set output 0 to columns of input 0 (N, C); no index is out of range."""
    _set(op, Columns(op, op.input(0), tuple((column,) for column in index)))


def multiply(op: NodeLowering, x: Tensor, axes: Sequence[int]) -> bool:
    """Set output 0 to the product of all columns of x, and return True, if they are columns of a table, and `axes` is their axis."""
    columns = x.later
    if not isinstance(columns, Columns) or list(axes) != [1] or len(op.info().shape or ()) != 2:
        return False
    factors = tuple(column for term in columns.terms for column in term)
    if len(factors) > DEEP or x.dtype not in REAL | INTEGERS:
        return False
    _set(op, Columns(op, columns.x, (factors,)))
    return True


def _set(op: NodeLowering, columns: Columns) -> None:
    """Set output 0 to columns, put off if their only reader may multiply or join them."""
    value, info = op.node.outputs[0], op.info()
    assert value is not None and info.shape is not None and info.dtype is not None
    only = value.readers[0] if op.values.is_read_once(value) else None
    if only is not None and only.op_type in ("Concat", "ReduceProd") and not only.domain:
        op.set(0, Tensor(info.dtype, info.shape, later=columns))
    else:
        columns.emit(op.output(0))


def merge(inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the inputs of a Concat along axis 1 of two, neighbouring columns of one table as one input."""
    merged: list[Tensor] = []
    for x in inputs:
        columns, before = x.later, merged[-1].later if merged else None
        if isinstance(columns, Columns) and isinstance(before, Columns) and columns.x is before.x:
            terms = before.terms + columns.terms
            merged[-1] = Tensor(x.dtype, (x.shape[0], len(terms)), later=before.replace(terms=terms))
        else:
            merged.append(x)
    return merged
