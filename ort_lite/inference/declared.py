"""Output types: what the model declares, merged with what inference finds, as onnxruntime merges them."""

from collections.abc import Collection, Sequence

from ort_lite.graph.graph import Graph
from ort_lite.graph.types import TensorType, Type
from ort_lite.inference.inference import Inference
from ort_lite.inference.shape_rules import Info, ShapeRules
from ort_lite.shapes.dims import as_symbol, symbol
from ort_lite.shapes.expr import Dim


def merge_outputs(
    graph: Graph, declared: Sequence[Type | None], unnamed_dims: dict[str, str], rules: ShapeRules
) -> list[Type | None]:
    """Return the types of a graph's outputs, with a number, a name or nothing for each dimension. O(nodes).

    A number that inference finds replaces a declared name, unless ONNX's own inference does not find it. A declared name replaces
    an inferred one. Inferred names count if an input has them. If two numbers differ, only the dimensions that agree stay. If the
    ranks differ, the declaration stays: where models declare another rank, onnxruntime mostly cannot infer it. Dimensions without
    a name join `unnamed_dims`.
    """
    types = (value.type for value in graph.inputs)
    names = {str(dim) for type_ in types if isinstance(type_, TensorType) for dim in type_.shape or () if as_symbol(dim)}
    named = names - unnamed_dims.keys()
    inferred = [value.type for value in graph.outputs]
    if any(map(_replaces_name, declared, inferred)) and _goes_beyond_onnx(graph, rules):
        inputs = [Info(value.type) for value in graph.inputs]
        found = Inference(rules, inferred=True, like_onnx=True).run(graph, inputs)
        inferred = [_without_more(type_, info.type) for type_, info in zip(inferred, found, strict=True)]
    outputs = zip(graph.outputs, declared, inferred, strict=True)
    return [_merge(value.name, before, after, named, unnamed_dims) for value, before, after in outputs]


def _replaces_name(declared: Type | None, inferred: Type | None) -> bool:
    """Return True if inference has a number for a dimension with a declared name."""
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType):
        return False
    pairs = zip(declared.shape or (), inferred.shape or (), strict=False)
    return any(not isinstance(old, int) and isinstance(new, int) for old, new in pairs)


def _goes_beyond_onnx(graph: Graph, rules: ShapeRules) -> bool:
    return any(rule.beyond_onnx for node in graph if (rule := rules.find(node)) is not None)


def _without_more(type_: Type | None, found: Type | None) -> Type | None:
    """Return the type with only those numbers that ONNX's own inference finds too; other dimensions are left open."""
    if not isinstance(type_, TensorType) or not isinstance(found, TensorType) or type_.shape is None or found.shape is None:
        return type_
    pairs = zip(type_.shape, found.shape, strict=True)
    return type_.replace(shape=tuple(other if isinstance(dim, int) else dim for dim, other in pairs))


def _merge(
    name: str, declared: Type | None, inferred: Type | None, names: Collection[str], unnamed_dims: dict[str, str]
) -> Type | None:
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
    shape = [_new_dim(f"{name}#{axis}", written[axis], unnamed_dims) if dim is None else dim for axis, dim in enumerate(merged)]
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
