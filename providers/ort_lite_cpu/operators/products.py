"""A matrix product of reals, for the kernels that may compute it."""

from __future__ import annotations

from typing import Any

from ort_lite.dtypes import Array
from ort_lite.record import Record
from ort_lite.shapes.dims import maximum
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.kernels.gemm.activation import NONE, Activation
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matrices import MatrixOperand
from ort_lite_cpu.operators.product_costs import COPIED, ProductNumbers

ROWS_READ = 4
"""The rows whose products last about as long as reading the matrix once: a tenth of a nanosecond an element, outside the caches."""


class Product(Record):
    """A matrix product: act(scale * a @ b + bias + residual), with m rows and n columns of sums over k."""

    m: Dim
    n: Dim
    k: Dim
    scale: float = 1.0
    transposed: bool = False
    """True if b holds columns: (n, k)."""
    bias: Tensor | None = None
    residual: Tensor | None = None
    activation: Activation = NONE

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes, keyed by the kernels' parameter names."""
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def work(self) -> Dim:
        """The estimated work. Below ROWS_READ rows, reading b takes longer than multiplying."""
        return maximum(self.m, ROWS_READ) * self.n * self.k // 40


class ProductCase(Record, eq=False):
    """A product of reals, for the candidates that may compute it."""

    op: NodeLowering
    spec: Product
    a: MatrixOperand
    b: MatrixOperand
    numbers: ProductNumbers

    @property
    def matrix(self) -> Array | None:
        """The right operand if it is one constant matrix."""
        array = self.b.constant
        return array if array is not None and array.ndim == 2 and array.size else None

    @property
    def copy_of_rows(self) -> float:
        """The nanoseconds in which the left operand is copied."""
        p = self.numbers
        return COPIED * p.batch * sum(p.rows) * p.k

    @property
    def moves(self) -> float:
        """The nanoseconds in which operands are copied that the kernel `matmul` cannot read in place."""
        p, rows = self.numbers, 0.0 if self.a.is_row_major else self.copy_of_rows
        in_place = self.b.is_row_major or self.b.is_column_major
        return rows if in_place else rows + COPIED * p.batch * p.n * p.k
