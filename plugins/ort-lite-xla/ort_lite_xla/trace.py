"""Tracing: runs the lowerings of a partition's nodes, on JAX tracers, or on NumPy arrays where contents must be known."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ort_lite.errors import RuntimeException
from ort_lite.graph import Graph, Node, Value
from ort_lite_xla.registry import Array, XlaLowering, XlaOp, find

PRODUCTS = frozenset({"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul"})
"""Operators that compute in bfloat16 if the provider's precision is bf16."""
Known = dict[Value, np.ndarray[Any, Any]]


class Guard(NamedTuple):
    """A PaddingMask, with the symbol whose true size it needs."""

    operand: int
    axis: int
    fill: str
    symbol: str


class TracedValues:
    """The values computed so far. `known` has contents, `data` tracers; a value may have both."""

    def __init__(self, known: Known, data: dict[Value, Array], sizes: Mapping[str, Array]) -> None:
        self.known, self.data, self.sizes = known, data, sizes

    def contents(self, value: Value) -> np.ndarray[Any, Any]:
        """Return the contents of a value, which must be known."""
        found = self.known.get(value)
        if found is None:
            assert value.constant is not None, "get_capability declines operands that cannot be known"
            return value.constant
        return found

    def tracer(self, value: Value) -> Array:
        """Return the tracer of a value, created from its contents if need be."""
        found = self.data.get(value)
        if found is None:
            found = self.data[value] = jnp.asarray(self.contents(value))
        return found


def trace(
    nodes: Sequence[Node],
    values: TracedValues,
    needed: frozenset[Value],
    guards: Mapping[Node, Sequence[Guard]],
    who: str,
    vendor: bool = False,
    rounds: bool = False,
) -> None:
    """Compute all outputs of the nodes, with kernels of the `vendor` if there are some.

    If it `rounds`, products of float32 round their operands and results to bfloat16. Raises RuntimeException naming the node whose
    operands do not fit.
    """

    def compute(body: Graph) -> list[Array]:
        trace(body.nodes, values, needed, guards, who, vendor, rounds)
        return [values.tracer(value) for value in body.outputs]

    for node in nodes:
        lowering = find(node)
        assert lowering is not None, "get_capability declines what has no lowering"
        try:
            with np.errstate(all="ignore"):  # ONNX does not warn of 1 / 0
                results = _results(node, lowering, values, needed, guards.get(node, ()), vendor, rounds, compute)
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            shapes = ", ".join("(left out)" if v is None else f"{v.name!r} {_shape(values, v)}" for v in node.inputs)
            raise RuntimeException(f"{node} ({who}): {error}; operands are {shapes}") from error
        for value, result in zip(node.outputs, results, strict=False):
            if value is not None:
                if isinstance(result, np.ndarray | np.generic):
                    values.known[value] = np.asarray(result)
                else:
                    values.data[value] = result


def _results(
    node: Node,
    lowering: XlaLowering,
    values: TracedValues,
    needed: frozenset[Value],
    guards: Sequence[Guard],
    vendor: bool,
    rounds: bool,
    compute: Callable[[Graph], list[Array]],
) -> tuple[Array, ...]:
    known = {
        k: values.contents(value) for k in lowering.contents if k < len(node.inputs) and (value := node.inputs[k]) is not None
    }
    on_host = any(value in needed for value in node.outputs)
    operands: list[Array] = []
    for k, value in enumerate(node.inputs):
        if value is None:
            operands.append(None)
        elif on_host and node.op_type not in ("Shape", "Size"):
            operands.append(values.contents(value))
        else:
            operands.append(known[k] if k in known else values.tracer(value))
    for guard in guards:
        operands[guard.operand] = apply_guard(operands[guard.operand], guard, values.sizes)
    rounds = rounds and not on_host and node.op_type in PRODUCTS
    if rounds:
        operands = [_convert(x, np.float32, jnp.bfloat16) for x in operands]
    results = lowering.function(XlaOp(node, known, np if on_host else jnp, vendor, compute), *operands)
    listed = tuple(results) if isinstance(results, tuple | list) else (results,)
    if rounds and node.outputs[0] is not None and node.outputs[0].dtype == "float32":
        return tuple(_convert(x, jnp.bfloat16, np.float32) for x in listed)
    return listed


def _convert(x: Array, source: Any, target: Any) -> Array:
    """Return x in the target type if it has the source type."""
    return x if x is None or x.dtype != source else x.astype(target)


def apply_guard(x: Array, guard: Guard, sizes: Mapping[str, Array]) -> Array:
    """Return x with `fill` past the true size along the axis, or indices below 0 counted from the true end."""
    size = sizes[guard.symbol]
    if guard.fill == "from end":
        return jnp.where(x < 0, x + size.astype(x.dtype), x)
    if guard.fill == "column from end":
        column = np.arange(x.shape[-1]) == guard.axis
        return jnp.where((x < 0) & column, x + size.astype(x.dtype), x)
    place = jnp.arange(x.shape[guard.axis], dtype=np.int32).reshape([-1 if k == guard.axis else 1 for k in range(x.ndim)])
    return jnp.where(place < size, x, _fill(guard.fill, x.dtype))


def _fill(name: str, dtype: Any) -> Array:
    """Return the neutral element of sums (zero), products (one), maxima (lowest) or minima (highest)."""
    if name in ("zero", "one") or dtype == np.bool_:
        return np.array(name in ("one", "highest")).astype(dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array(-np.inf if name == "lowest" else np.inf).astype(dtype)
    limits = np.iinfo(dtype)
    return np.array(limits.min if name == "lowest" else limits.max, dtype)


def _shape(values: TracedValues, value: Value) -> str:
    found = values.data.get(value)
    if found is None:
        found = values.known.get(value, value.constant)
    return "unknown" if found is None else f"{found.dtype}{list(found.shape)}"
