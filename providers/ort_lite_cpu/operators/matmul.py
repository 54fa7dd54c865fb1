"""MatMul, Gemm and their fused forms. Constant right operands are packed while lowering, others panel by panel at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ort_lite.dtypes import Array
from ort_lite.shapes import Dim, Shape, equal, product, same, select
from ort_lite_cpu.gemm import gemm as kernels
from ort_lite_cpu.gemm.activation import NONE, Activation, activation
from ort_lite_cpu.gemm.microkernel import tile_for
from ort_lite_cpu.gemm.pack import panels
from ort_lite_cpu.strided import emit_strided
from ort_lite_cpu.op import Op
from ort_lite_cpu.registry import REAL, operator
from ort_lite_cpu.strided import emit_permute, emit_strided
from ort_lite_cpu.tensor import Tensor

INTEGERS = frozenset({"int32", "int64", "uint32", "uint64"})


@dataclass(frozen=True, slots=True)
class Product:
    """What to compute: act(scale * a @ b + bias + residual), the last two operands of a of the matrix sizes m, n and k."""

    m: Dim
    n: Dim
    k: Dim
    scale: float = 1.0
    transposed: bool = False
    """b holds columns: (n, k)."""
    bias: Tensor | None = None
    residual: Tensor | None = None
    activation: Activation = NONE

    @property
    def work(self) -> Dim:
        return self.m * self.n * self.k // 40


# --- Operators
@operator("MatMul", types=REAL | INTEGERS)
def matmul(op: Op) -> None:
    """Spec: ONNX MatMul-13."""
    a, b = op.input(0), op.raw(1)
    shape_a = a.shape if len(a.shape) > 1 else (1, *a.shape)
    shape_b = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    spec = Product(shape_a[-2], shape_b[-1], shape_a[-1])
    _require_equal(op, shape_a[-1], shape_b[-2])
    _batched(op, spec, a, shape_a[:-2], op.constant(1), shape_b[:-2])


@operator("FusedMatMul", domain="com.microsoft", types=REAL)
def fused_matmul(op: Op) -> None:
    """alpha * a @ b; either side transposed, its batch dimensions moved last too. Spec: onnxruntime FusedMatMul-1."""
    flags = {name: bool(op.attr(name, 0)) for name in ("transA", "transB", "transBatchA", "transBatchB")}
    a = _rearranged(op, op.input(0), flags["transA"], flags["transBatchA"])
    b = op.raw(1)
    plain_b = not flags["transBatchB"] or len(b.shape) < 3
    right = b if plain_b else _rearranged(op, op.input(1), flags["transB"], True)
    transposed = flags["transB"] and plain_b and len(b.shape) > 1
    shape_a = a.shape if len(a.shape) > 1 else (1, *a.shape)
    shape_b = right.shape if len(right.shape) > 1 else (*right.shape, 1)
    k, n = shape_b[-2:][::-1] if transposed else shape_b[-2:]
    spec = Product(shape_a[-2], n, shape_a[-1], float(op.attr("alpha", 1.0)), transposed)
    _require_equal(op, shape_a[-1], k)
    _batched(op, spec, a, shape_a[:-2], op.constant(1) if plain_b else None, shape_b[:-2], right)


@operator("Gemm", types=REAL)
def gemm(op: Op) -> None:
    """Spec: ONNX Gemm-13."""
    _gemm(op, NONE)


@operator("FusedGemm", domain="com.microsoft", types=REAL)
def fused_gemm(op: Op) -> None:
    """Gemm and an activation. Spec: onnxruntime FusedGemm-1."""
    name = op.attr("activation", "")
    params = [op.attr(f"activation_{key}") for key in ("alpha", "beta", "gamma")]
    act = activation(name, [float(p) for p in params if p is not None])
    if act is None:
        raise op.reject(f"activation {name!r}")
    _gemm(op, act)


def _gemm(op: Op, act: Activation) -> None:
    a = op.input(0)
    if op.attr("transA", 0):
        a = _rearranged(op, a, True, False)
    b, transposed = op.raw(1), bool(op.attr("transB", 0))
    k, n = b.shape[::-1] if transposed else b.shape
    _require_equal(op, a.shape[1], k)
    spec = Product(a.shape[0], n, k, float(op.attr("alpha", 1.0)), transposed, activation=act)
    beta = float(op.attr("beta", 1.0))
    if op.has(2) and beta != 0.0:
        spec = _with_addend(op, spec, beta)
    _batched(op, spec, a, (), op.constant(1), ())


def _with_addend(op: Op, spec: Product, beta: float) -> Product:
    """Gemm's C: a bias where it is one row, else a residual, in full."""
    c = op.input(2)
    row, column = ((1, 1, *c.shape)[-2:]) if len(c.shape) < 2 else c.shape
    _require_broadcast(op, (row, column), (spec.m, spec.n))
    constant = op.constant(2)
    if same(row, 1) and same(column, spec.n):
        if beta == 1.0:
            return replace(spec, bias=c)
        if constant is not None:
            return replace(spec, bias=op.packed(constant, f"times {beta}", lambda: (constant * beta).astype(constant.dtype)))
    if beta == 1.0 and same(row, spec.m) and same(column, spec.n):
        return replace(spec, residual=c)
    full = op.temporary(c.dtype, (spec.m, spec.n))
    down = 0 if same(row, 1) else select(equal(row, 1), 0, column)
    across = 0 if same(column, 1) else select(equal(column, 1), 0, 1)
    op.emit(kernels.scaled, [c, full], spec.m, spec.n, down, across, beta, work=spec.m * spec.n // 2)
    return replace(spec, residual=full)


# --- Kernels
def _batched(
    op: Op, spec: Product, a: Tensor, batch_a: Shape, constant: Array | None, batch_b: Shape, b: Tensor | None = None
) -> None:
    """Emits the product; `constant` is b's array where it has one, `b` the operand where it is not simply input 1."""
    if a.dtype in REAL and constant is not None and constant.ndim <= 2 and constant.size:
        rows = replace(spec, m=product((*batch_a, spec.m)))
        emit_packed(op, rows, a, constant if constant.ndim == 2 else constant[:, None], source=constant, y=op.output(0))
        return
    y = op.output(0)
    b = op.input(1) if b is None else op.lowering.stored(b)
    if all(same(dim, 1) for dim in batch_b):
        spec, batch_a, batch_b = replace(spec, m=product((*batch_a, spec.m))), (), ()
    dims, steps_a, steps_b = _batch_loops(op, batch_a, batch_b, spec)
    if len(dims) > 3:
        a, b, dims, steps_a, steps_b = _expanded(op, spec, a, b, batch_a, batch_b)
    pad = 3 - len(dims)
    loops = [*(1,) * pad, *dims, *(0,) * pad, *steps_a, *(0,) * pad, *steps_b]
    if a.dtype not in REAL:
        op.emit(kernels.integer_matmul, [a, b, y], spec.m, spec.n, spec.k, *loops, work=spec.work * product(dims) * 8)
        return
    emit_computed(op, spec, a, b, y, loops, product(dims))


def emit_computed(
    op: Op, spec: Product, a: Tensor, b: Tensor, y: Tensor, loops: Sequence[Dim] = (1, 1, 1, 0, 0, 0, 0, 0, 0), batch: Dim = 1
) -> None:
    """y = a @ b for a b that is computed; its panels are packed as they are used. loops: batch dims and steps of a and b."""
    tile = tile_for(a.native)
    scratch = op.temporary(a.dtype, (op.options.threads * kernels.DEPTH * tile.columns,))
    op.emit(
        kernels.matmul, [a, b, spec.bias, spec.residual, y, scratch], spec.m, spec.n, spec.k, spec.scale, *spec.activation.scalars,
        *loops, types=[a.native] * 6, statics={"transposed": spec.transposed, "kind": spec.activation.kind, **tile.statics},
        work=spec.work * batch,
    )  # fmt: skip


def emit_packed(op: Op, spec: Product, a: Tensor, b: Array, *, source: Array, y: Tensor, form: str = "") -> None:
    """y = a @ b for a constant b, (k, n) or (n, k); `source` and `form` say what b is made of, so that it is packed once."""
    tile = tile_for(a.native)

    def make() -> Array:
        plain = b.T if spec.transposed else b
        return panels(plain if spec.scale == 1.0 else (plain * spec.scale).astype(b.dtype), tile.columns)

    form = f"panels {tile.columns} {spec.scale} {spec.transposed} {form}"
    op.emit(
        kernels.gemm, [a, op.packed(source, form, make), spec.bias, spec.residual, y], spec.m, spec.n, spec.k,
        *spec.activation.scalars, types=[a.native] * 5, statics={"kind": spec.activation.kind, **tile.statics}, work=spec.work,
    )  # fmt: skip


# --- Shapes
def _require_equal(op: Op, left: Dim, right: Dim) -> None:
    if not same(left, right):
        op.require(equal(left, right), f"the inner dimensions differ: {left} and {right}")


def _require_broadcast(op: Op, shape: Shape, out: Shape) -> None:
    for dim, wanted in zip(shape, out, strict=True):
        if not same(dim, 1) and not same(dim, wanted):
            op.require(select(equal(dim, 1), 1, equal(dim, wanted)), f"{dim} does not broadcast to {wanted}")


def _batch_loops(op: Op, batch_a: Shape, batch_b: Shape, spec: Product) -> tuple[list[Dim], list[Dim], list[Dim]]:
    """Batch dimensions and the steps of both operands along them, 0 where one is broadcast; neighbours are joined."""
    out = op.info(0).shape
    assert out is not None
    rank = max(len(batch_a), len(batch_b))
    wanted = out[:rank]
    loops: list[tuple[Dim, Dim, Dim]] = []
    steps = [_steps(op, shape, wanted, size) for shape, size in ((batch_a, spec.m * spec.k), (batch_b, spec.k * spec.n))]
    for dim, left, right in zip(wanted, *steps, strict=True):
        if same(dim, 1):
            continue
        if loops and same(loops[-1][1], left * dim) and same(loops[-1][2], right * dim):
            loops[-1] = (loops[-1][0] * dim, left, right)
        else:
            loops.append((dim, left, right))
    return [loop[0] for loop in loops], [loop[1] for loop in loops], [loop[2] for loop in loops]


def _steps(op: Op, shape: Shape, wanted: Shape, size: Dim) -> list[Dim]:
    """Elements from one matrix to the next along each batch dimension, 0 where the operand is broadcast."""
    padded = (*(1,) * (len(wanted) - len(shape)), *shape)
    _require_broadcast(op, padded, wanted)
    steps: list[Dim] = []
    for dim, full in zip(reversed(padded), reversed(wanted), strict=True):
        steps.append(0 if same(dim, 1) and not same(full, 1) else size if same(dim, full) else select(equal(dim, 1), 0, size))
        size = size * dim
    return steps[::-1]


def _expanded(
    op: Op, spec: Product, a: Tensor, b: Tensor, batch_a: Shape, batch_b: Shape
) -> tuple[Tensor, Tensor, list[Dim], list[Dim], list[Dim]]:
    """Operands written out to all batch dimensions: for broadcasts that change sides more often than the kernel has loops."""
    out = op.info(0).shape
    assert out is not None
    wanted = out[: max(len(batch_a), len(batch_b))]
    sizes = spec.m * spec.k, spec.k * spec.n
    full: list[Tensor] = []
    for operand, batch, size in ((a, batch_a, sizes[0]), (b, batch_b, sizes[1])):
        made = op.temporary(operand.dtype, (*wanted, size))
        target: list[Dim] = [1]
        for dim in reversed((*wanted[1:], size)):
            target.append(target[-1] * dim)
        emit_strided(op.lowering, op.node, operand, made, made.shape, [*_steps(op, batch, wanted, size), 1], target[::-1])
        full.append(made)
    return full[0], full[1], [product(wanted)], [sizes[0]], [sizes[1]]


def _rearranged(op: Op, x: Tensor, transpose: bool, batch_last: bool) -> Tensor:
    """A copy of x with its last two axes swapped, or, with `batch_last`, (m, batch..., k) brought into (batch..., m, k)."""
    rank = len(x.shape)
    order: Sequence[int] = range(rank)
    if batch_last and rank > 2:
        order = [*range(1, rank - 1), 0, rank - 1]
    if transpose and rank > 1:
        order = [*order[:-2], order[-1], order[-2]]
    if list(order) == list(range(rank)):
        return x
    from ort_lite_cpu.strided import emit_permute

    made = op.temporary(x.dtype, tuple(x.shape[axis] for axis in order))
    emit_permute(op.lowering, op.node, x, made, x.shape, list(order))
    return made
