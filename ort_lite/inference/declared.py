"""Output types: what the model declares, merged with what inference finds, as onnxruntime merges them."""

from collections.abc import Collection, Sequence

from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType, Type
from ort_lite.shapes.dims import as_symbol, symbol
from ort_lite.shapes.expr import Dim


def merge_outputs(
    inputs: Sequence[Value], outputs: Sequence[Value], declared: Sequence[Type | None], unnamed_dims: dict[str, str]
) -> list[Type | None]:
    """Return the types of a graph's outputs, with a number, a name or nothing for each dimension. O(outputs).

    A number that inference finds replaces a declared name. A declared name replaces an inferred one. Inferred names count if an
    input has them. If two numbers differ, only the dimensions that agree stay. If the ranks differ, the declaration stays: where
    models declare another rank, onnxruntime mostly cannot infer it. Dimensions without a name join `unnamed_dims`.
    """
    types = (value.type for value in inputs)
    names = {str(dim) for type_ in types if isinstance(type_, TensorType) for dim in type_.shape or () if as_symbol(dim)}
    return [
        _merge(value, type_, names - unnamed_dims.keys(), unnamed_dims) for value, type_ in zip(outputs, declared, strict=True)
    ]


def _merge(value: Value, declared: Type | None, names: Collection[str], unnamed_dims: dict[str, str]) -> Type | None:
    inferred = value.type
    if not isinstance(inferred, TensorType):
        return inferred or declared
    before = declared.shape if isinstance(declared, TensorType) else None
    if inferred.shape is None:
        return TensorType(inferred.dtype, before)
    after = [dim if isinstance(dim, int) or str(dim) in names else None for dim in inferred.shape]
    if before is None:
        merged = after
    elif len(before) != len(after):
        return TensorType(inferred.dtype, before)
    else:
        old = [None if str(dim) in unnamed_dims else dim for dim in before]
        merged = _agreement(old, after) if any(map(_contradict, old, after)) else list(map(_better, old, after))
    written = [unnamed_dims.get(str(dim), "") for dim in before or [""] * len(merged)]
    shape = [
        _new_dim(f"{value.name}#{axis}", written[axis], unnamed_dims) if dim is None else dim for axis, dim in enumerate(merged)
    ]
    return TensorType(inferred.dtype, tuple(shape))


def _contradict(declared: Dim | None, inferred: Dim | None) -> bool:
    return isinstance(declared, int) and isinstance(inferred, int) and declared != inferred


def _agreement(declared: Sequence[Dim | None], inferred: Sequence[Dim | None]) -> list[Dim | None]:
    return [old if old == new else None for old, new in zip(declared, inferred, strict=True)]


def _better(declared: Dim | None, inferred: Dim | None) -> Dim | None:
    return inferred if declared is None or isinstance(inferred, int) else declared


def _new_dim(name: str, written: str, unnamed_dims: dict[str, str]) -> Dim:
    """Return a dimension without a name, for which the model writes "", "?" or "None". "#" keeps it apart from names of the loader."""
    unnamed_dims[name] = written
    return symbol(name)
