"""Two Casts in a row become one, or none, where the first loses nothing."""

from ort_lite.dtypes import FLOATS, INTEGERS
from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule

# Types that hold every value of the key.
_WIDER: dict[str, frozenset[str]] = {
    "bool": FLOATS | INTEGERS,
    "uint8": FLOATS | INTEGERS - {"int8"},
    "int8": FLOATS | {"int16", "int32", "int64"},
    "uint16": frozenset({"uint32", "int32", "uint64", "int64", "float32", "float64"}),
    "int16": frozenset({"int32", "int64", "float32", "float64"}),
    "uint32": frozenset({"uint64", "int64", "float64"}),
    "int32": frozenset({"int64", "float64"}),
    "float16": frozenset({"float32", "float64"}),
    "bfloat16": frozenset({"float32", "float64"}),
    "float32": frozenset({"float64"}),
}


@rule(op("Cast", op("Cast", "x", name="inner"), name="outer"), level="basic")
def merge_casts(rewriter: Rewriter, x: Value, inner: Node, outer: Node) -> Done | Skip:
    """Cast(Cast(x, a), b) is Cast(x, b), and x itself where b is the type of x, if a holds every value of that type."""
    middle = inner.output.dtype
    if x.dtype is None or middle not in _WIDER.get(x.dtype, ()):
        return Skip(f"{x.dtype} to {middle} may lose something")
    if outer.output.dtype == x.dtype:
        return rewriter.replace(outer, x)
    return rewriter.replace(outer, rewriter.op("Cast", x, like=outer))
