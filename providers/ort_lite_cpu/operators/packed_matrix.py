"""Constant right operands of products as packed panels: of float32, or of float16 if all their numbers are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.native import Spec
from ort_lite_cpu.kernels.gemm import gemm as kernels
from ort_lite_cpu.kernels.gemm.float16 import FLOAT16_LOADS, is_float16, looks_float16, narrow, widen
from ort_lite_cpu.kernels.gemm.microkernel import Tile
from ort_lite_cpu.kernels.gemm.pack import panels, unpack
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.operators.matrices import note_restorable
from ort_lite_cpu.operators.products import Product

LEAST = 1 << 16
"""The most elements of a matrix of float16 that becomes float32: reading so few takes no time beside the products."""


def pack_matrix(op: NodeLowering, spec: Product, tile: Tile, b: Array, source: Array, form: str) -> Tensor:
    """Return the panels of scale * b, (k, n) or (n, k): numbers, or bits of float16. They are made once for `source` and `form`."""
    plain, scale, compiled = b.T if spec.transposed else b, spec.scale, op.kernels
    half = _keeps_float16(op, spec, tile, plain)

    def make() -> Array:
        if half:
            return panels(narrow(plain, compiled), tile.columns, compiled)
        return panels(plain if scale == 1.0 else (plain * scale).astype(b.dtype), tile.columns, compiled)

    w = op.pack(source, f"panels {tile.columns} {scale} {spec.transposed} {'float16' if half else ''} {form}", make)
    if scale == 1.0 and w.constant is not None:
        restore = partial(unpack, w.constant, plain.shape[1])
        note_restorable(op, source, plain, partial(_restore_float32, restore) if half else restore)
    return w


def _restore_float32(restore: Callable[[], Array]) -> Array:
    return widen(restore())


def may_keep_float16(op: NodeLowering, spec: Product, b: Array) -> bool:
    """Return True if panels of b are probably bits of float16: b is large, the target widens vectors, and a sample is float16."""
    return b.size > LEAST and spec.scale == 1.0 and op.target.has(FLOAT16_LOADS) and looks_float16(b)


def _keeps_float16(op: NodeLowering, spec: Product, tile: Tile, b: Array) -> bool:
    """Return True if panels of b are bits of float16: if all of b is float16, and the kernel comes."""
    if not may_keep_float16(op, spec, b) or not is_float16(b, op.kernels):
        return False
    statics: dict[str, Any] = {"kind": spec.activation.kind, "tile": tile}
    kernel = Spec(kernels.float16_gemm, ("f32", "u16", "f32", "f32", "f32", "f32"), statics)
    if op.builder.all_come or op.kernels.has_kernel(kernel):
        return True
    op.builder.result.wanted.append(kernel)
    return False
