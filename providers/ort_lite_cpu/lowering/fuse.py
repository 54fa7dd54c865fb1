"""Pending expressions become kernels: one generated loop over the output, operands broadcast by strides.

The loop nest is cut down first: dimensions of 1 vanish, and neighbours that every operand walks contiguously (or not at all) are
joined, so that equal shapes give one flat loop whatever their rank. The text of the kernel depends on the structure alone; it is
compiled once a structure and cached on disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_lite.dtypes import itemsize
from ort_lite.native.digest import blake2b
from ort_lite.native.extents import Extent, Reach, walk
from ort_lite.native.spec import Spec
from ort_lite.record import Record, field
from ort_lite.shapes import product, same
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.costs import BYTE, linear_work
from ort_lite_cpu.kernels import elementwise as language
from ort_lite_cpu.lowering.broadcast import broadcast_step
from ort_lite_cpu.lowering.strided import contiguous
from ort_lite_cpu.lowering.tensor import Tensor, leaves_of, same_shape, scalar_constant
from ort_lite_cpu.types import HALVES, value_type

FUNCTION, DOUBLE = 0.1, 16
"""The cost from which a formula calls a function, and the factor for doubles, whose functions are computed one at a time."""


class FusedLoop(Record, frozen=False):
    """The call of a loop: see `Builder.emit`."""

    spec: Spec
    scalars: list[float | Dim]
    work: Dim
    touched: dict[str, Extent]
    inplace: tuple[int, int] | None


class _Loops(Record, frozen=False):
    """Dimensions, outermost first, and for each leaf its strides along them, in elements."""

    dims: list[Dim]
    strides: list[list[Dim]]


class _Text(Record, frozen=False):
    """The kernel under construction."""

    leaves: list[Tensor]
    scalars: list[float | Dim] = field(default_factory=list)
    scalar_lines: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    cost: float = 0.0


def leaves_in_memory(tensor: Tensor) -> list[Tensor]:
    """Return the leaves that the loop of a pending tensor reads from memory, not those that are its scalars."""
    return [leaf for leaf in leaves_of(tensor) if scalar_constant(leaf) is None]


def fuse(tensor: Tensor, leaves: Sequence[Tensor], stored: Sequence[Tensor], out: Tensor) -> FusedLoop:
    """Return the loop that computes a pending tensor into `out`. `stored` are its `leaves_in_memory`, as they lie there."""
    text = _Text(list(leaves))
    root = _write(text, tensor)
    loops, aligned = _loops(out, stored)
    source, scalars = _kernel(text, root, tensor.dtype, loops)
    spec = _spec(source, [*stored, out])
    whole = product(loops.dims)
    inplace = next((k for k, leaf in enumerate(stored) if leaf.dtype == out.dtype and aligned[k]), None)
    touched = {f"x{k}": whole if aligned[k] else _reach_of(loops.dims, own) for k, own in enumerate(loops.strides)} | {
        "y": whole
    }
    work = _work(whole, text, stored, out)
    return FusedLoop(spec, [*scalars, *text.scalars], work, touched, None if inplace is None else (len(stored), inplace))


# --- One operator alone, whatever is broadcast
def generic_spec(tensor: Tensor) -> Spec:
    """Return the spec of the loop for the last operation of a pending tensor, for operands of all shapes that are `spread`.

    Its text depends on the formula, the element types, and which operands have one element: there are as many as formulas.
    """
    return _generic(tensor)[0]


def generic_specs(tensor: Tensor) -> list[Spec]:
    """Return `generic_spec` of a pending tensor and of all that it is computed from, operands first."""
    assert tensor.pending is not None
    inner = [spec for operand in tensor.pending.operands if operand.pending is not None for spec in generic_specs(operand)]
    return [*inner, generic_spec(tensor)]


def generic(tensor: Tensor, stored: Sequence[Tensor], out: Tensor) -> FusedLoop:
    """Return the call of `generic_spec` for its operands `stored`, each of one element or spread, one after the other as in `out`."""
    spec, text = _generic(tensor)
    size = out.size
    alone = read_before(stored)
    touched: dict[str, Extent] = {f"x{k}": 1 if k in alone else size for k in range(len(stored))}
    touched["y"] = size
    inplace = next((k for k, leaf in enumerate(stored) if leaf.dtype == out.dtype and k not in alone), None)
    scalars = [size, *text.scalars]
    work = _work(size, text, stored, out)
    return FusedLoop(spec, scalars, work, touched, None if inplace is None else (len(stored), inplace))


def _generic(tensor: Tensor) -> tuple[Spec, _Text]:
    pending = tensor.pending
    assert pending is not None
    # A leaf of its own for each operand, whether or not two are one tensor.
    leaves = [Tensor(operand.dtype, operand.shape) for operand in pending.operands]
    text = _Text(leaves)
    root = _write(text, Tensor(tensor.dtype, tensor.shape, pending=pending.replace(operands=tuple(leaves))))
    alone = read_before(leaves)
    source, _ = _kernel(text, root, tensor.dtype, _Loops([tensor.size], [[0 if k in alone else 1] for k in range(len(leaves))]))
    return _spec(source, [*leaves, tensor]), text


def read_before(leaves: Sequence[Tensor]) -> set[int]:
    """Return the operands that are read once, before the loop. Never all: then the first is read in it, element by element."""
    alone = {k for k, leaf in enumerate(leaves) if same(leaf.size, 1)}
    return alone if len(alone) < len(leaves) else alone - {0}


def spread_strides(leaf: Tensor, out: Tensor) -> list[Dim] | None:
    """Return an operand's strides along the storage axes of `out`; None if a generic loop can read it in place."""
    whole = same_shape(leaf.shape, out.shape) and leaf.perm == out.perm
    return None if whole or same(out.size, 1) else _leaf_strides(out, leaf, out.perm or tuple(range(len(out.shape))))


def _spec(source: str, tensors: Sequence[Tensor]) -> Spec:
    name = "elementwise_" + blake2b(source.encode(), digest_size=6).hexdigest()
    return Spec.from_source(name, source.replace("NAME", name), language.__name__, [tensor.native for tensor in tensors])


def _reach_of(dims: Sequence[Dim], strides: Sequence[Dim]) -> Reach:
    """Return what the loops touch of a leaf. What does not move in the innermost loop is read before it."""
    loops = list(zip(dims, strides, strict=True))
    if loops and same(strides[-1], 0):
        loops.pop()
    return walk(0, *(number for pair in loops for number in pair))


def _work(size: Dim, text: _Text, stored: Sequence[Tensor], out: Tensor) -> Dim:
    """Return the work of the formulas and of what moves through memory: operands that are broadcast stay in the cache."""
    moved = itemsize(out.dtype) + sum(itemsize(leaf.dtype) for leaf in stored if same(leaf.size, out.size))
    return linear_work(size, text.cost + moved * BYTE)


def _write(text: _Text, tensor: Tensor, last: bool = True) -> str:
    """Add the lines that compute `tensor` for one element; returns the name of the result.

    Its number is that of a loop of its own, which `last` writes to memory: no product is fused with the sum of another operation,
    as the kernel is STRICT, and 16-bit floats are rounded.
    """
    known = text.names.get(id(tensor))
    if known is not None:
        return known
    name = text.names[id(tensor)] = f"t{len(text.names)}"
    pending = tensor.pending
    if pending is None:
        value = scalar_constant(tensor)
        if value is None:
            text.names[id(tensor)] = f"v{next(k for k, leaf in enumerate(text.leaves) if leaf is tensor)}"
        else:
            text.names[id(tensor)] = _scalar(text, value, tensor.dtype)
        return text.names[id(tensor)]
    operands = [_write(text, operand, last=False) for operand in pending.operands]
    first = pending.operands[0].dtype
    scalars = {f"s{k}": _scalar(text, value, first) for k, value in enumerate(pending.scalars)}
    formula = pending.formula.format(*operands, **scalars)
    if tensor.dtype in HALVES and not last:
        widen, narrow = HALVES[tensor.dtype]
        formula = f"{widen}({narrow}({formula}))"
    text.lines.append(f"{name} = {formula}")
    text.cost += pending.cost * (DOUBLE if tensor.dtype == "float64" and pending.cost >= FUNCTION else 1)
    return name


def _scalar(text: _Text, value: float | Dim, dtype: str) -> str:
    """Return a scalar parameter, converted once outside the loops to the type that values of `dtype` have."""
    number = len(text.scalars)
    text.scalars.append(value)
    if dtype == "bool":
        text.scalar_lines.append(f"c{number} = k{number} != 0")
    else:
        text.scalar_lines.append(f'c{number} = cast(k{number}, "{value_type(dtype)}")')
    return f"c{number}"


def _loops(out: Tensor, leaves: Sequence[Tensor]) -> tuple[_Loops, list[bool]]:
    """Return the loop nest, and for each leaf whether it lies element by element as the output does."""
    dims = list(out.storage_shape)
    order = out.perm or tuple(range(len(out.shape)))
    strides = [_leaf_strides(out, leaf, order) for leaf in [*leaves, out]]
    kept = [k for k, dim in enumerate(dims) if not same(dim, 1)]
    merged = _Loops([], [[] for _ in strides])
    for k in kept:
        if merged.dims and all(same(s[-1], own[k] * dims[k]) for s, own in zip(merged.strides, strides, strict=True)):
            merged.dims[-1] = merged.dims[-1] * dims[k]
            for s, own in zip(merged.strides, strides, strict=True):
                s[-1] = own[k]
        else:
            merged.dims.append(dims[k])
            for s, own in zip(merged.strides, strides, strict=True):
                s.append(own[k])
    own = merged.strides.pop()  # the output's: contiguous
    return merged, [steps == own and same(leaf.size, out.size) for steps, leaf in zip(merged.strides, leaves, strict=True)]


def _leaf_strides(out: Tensor, leaf: Tensor, order: Sequence[int]) -> list[Dim]:
    """Return strides of a leaf along the output's storage axes; 0 where it is broadcast, an expression where that is open."""
    lead = len(out.shape) - len(leaf.shape)
    steps = dict(zip(leaf.perm or range(len(leaf.shape)), contiguous(leaf.storage_shape), strict=True))
    return [
        0 if axis < lead else broadcast_step(leaf.shape[axis - lead], out.shape[axis], steps[axis - lead]) for axis in order
    ]


def _kernel(text: _Text, root: str, dtype: str, loops: _Loops) -> tuple[str, list[Dim]]:
    """Return (source, scalars before those of the expression)."""
    rank = len(loops.dims)
    dims: list[Dim] = loops.dims if rank else [1]
    strides: list[list[Dim]] = loops.strides if rank else [[0] for _ in loops.strides]
    outer = len(dims) - 1
    parameters = [f"n{k}" for k in range(len(dims))]
    scalars: list[Dim] = list(dims)
    before, inside = [], []
    for leaf, (tensor, own) in enumerate(zip(text.leaves, strides, strict=True)):
        offset = []
        for k in range(outer):
            if not same(own[k], 0):
                parameters.append(f"q{leaf}_{k}")
                scalars.append(own[k])
                offset.append(f"i{k} * q{leaf}_{k}")
        base = " + ".join(offset) or "0"
        if same(own[outer], 0):
            before.append(f"v{leaf} = {_load(tensor.dtype, f'fetch(x{leaf}, {base})')}")
            continue
        step = "j"
        if not same(own[outer], 1):
            parameters.append(f"q{leaf}")
            scalars.append(own[outer])
            step = f"j * q{leaf}"
        before.append(f"o{leaf} = {base}")
        inside.append(f"v{leaf} = {_load(tensor.dtype, f'fetch(x{leaf}, o{leaf} + {step})')}")
    pointers = [f"x{k}: Ptr" for k in range(len(text.leaves))] + ["y: Ptr"]
    kinds = [f"k{k}: {'float' if isinstance(v, float) else 'int'}" for k, v in enumerate(text.scalars)]
    head = ", ".join([*pointers, *(f"{p}: int" for p in parameters), *kinds, "part: int", "parts: int"])
    lines = ["@native(fastmath=STRICT)", f"def NAME({head}) -> int:", *_indent(text.scalar_lines, 1)]
    inner = [*inside, *text.lines, f"put(y, at + j, {_store(dtype, root)})"]
    if outer == 0:
        lines += [*_indent(["at = 0", *before, "for j in span(n0, part, parts):"], 1), *_indent(inner, 2)]
    else:
        lines += _indent([f"for row in span({' * '.join(f'n{k}' for k in range(outer))}, part, parts):"], 1)
        lines += _indent([*_indices(outer), f"at = row * n{outer}", *before, f"for j in range(n{outer}):"], 2)
        lines += _indent(inner, 3)
    return "\n".join([*lines, "    return OK", ""]), scalars


def _indices(outer: int) -> list[str]:
    """Return i0, ..., of row number `row` of the outer dimensions."""
    lines = ["rest = row"]
    for k in reversed(range(1, outer)):
        lines += [f"i{k} = rest % n{k}", f"rest = rest // n{k}"]
    return [*lines, "i0 = rest"]


def _load(dtype: str, text: str) -> str:
    if dtype == "bool":
        return f"{text} != 0"
    return f"{HALVES[dtype][0]}({text})" if dtype in HALVES else text


def _store(dtype: str, name: str) -> str:
    if dtype == "bool":
        return f'cast({name}, "u8")'
    return f"{HALVES[dtype][1]}({name})" if dtype in HALVES else name


def _indent(lines: Sequence[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]
