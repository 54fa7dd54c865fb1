"""Keys and values that exporters put behind a past become the past of Attention, which can append to it in place."""

import math

from ort_lite.graph import Node, Value
from ort_lite.transform import Done, Rewriter, Skip, op, rule


@rule(op("Attention", "q", "k", op("Concat", "past_v", "new_v", name="values"), ..., name="root"), level="extended")
def append_past(rewriter: Rewriter, q: Value, k: Value, past_v: Value, new_v: Value, values: Node, root: Node) -> Done | Skip:
    """Attention(q, Concat(past_k, k), Concat(past_v, v)) gets the pasts as inputs, and has both Concats as outputs.

    The keys may be scaled by a constant, which becomes part of Attention's scale.
    """
    if root.version < 23 or len(root.outputs) > 1 or len(root.inputs) > 4:
        return Skip(f"{root} has a past, lengths or scores already")
    if root.attr("is_causal", 0) or any(root.attr(f"{side}_window_size", -1) != -1 for side in ("left", "right")):
        return Skip(f"{root} counts keys by their positions, which a past moves")
    keys, factor = _split_factor(rewriter, k)
    scale = float(root.attr("scale", 0.0))
    if factor != 1 and (not scale or not math.isfinite(factor) or not factor):
        return Skip(f"{root} has no scale of its own")
    concat = keys.producer
    if concat is None or concat.op_type != "Concat" or concat.domain or len(concat.inputs) != 2 or concat is values:
        return Skip(f"{keys.name} is no past with new rows behind it")
    past_k, new_k = concat.inputs
    for node, past, only in ((concat, past_k, root if keys is k else k.producer), (values, past_v, root)):
        if reason := _why_not(node, past, only):
            return Skip(reason)
    assert past_k is not None
    if past_k.shape is None or past_v.shape is None or past_k.shape[:3] != past_v.shape[:3]:
        return Skip(f"{past_k.name} and {past_v.name} are not known to have the same rows")
    mask = root.inputs[3] if len(root.inputs) > 3 else None
    given = (q, new_k, new_v, mask, past_k, past_v)
    made = rewriter.node("Attention", given, outputs=3, like=root, scale=scale * factor if scale else None)
    y, present_k, present_v = made.outputs
    assert y is not None and present_k is not None and present_v is not None
    pairs = ((root, y), (concat, present_k), (values, present_v))
    if any(node.output.type != value.type for node, value in pairs):
        return Skip(f"{made} is not known to have the shapes of {root}, {concat} and {values}")
    for node, value in pairs:
        done = rewriter.replace(node, value)
        assert isinstance(done, Done)
    return Done()


def _split_factor(rewriter: Rewriter, k: Value) -> tuple[Value, float]:
    """Return the keys and their factor, 1 unless nothing but a multiplication by a constant number reads them."""
    node = k.producer
    if node is None or node.op_type != "Mul" or node.domain or k.dtype != "float32" or len(k.uses) != 1 or k.is_graph_output():
        return k, 1.0
    for x, factor in (node.inputs, node.inputs[::-1]):
        number = rewriter.number(factor)
        if x is not None and isinstance(number, float) and x.shape == k.shape:
            return x, number
    return k, 1.0


def _why_not(concat: Node, past: Value | None, reader: Node | None) -> str:
    """Return why the Concat is not the present of a cache, or ""."""
    if past is None or past.producer is not None or past.constant is not None:
        return f"{concat} begins with no input"
    if concat.attr("axis") not in (2, -2) or concat.output.shape is None or len(concat.output.shape) != 4:
        return f"{concat} is not along the rows of (batch, heads, rows, size)"
    if concat.output.readers != [reader] or len(concat.output.uses) > 1:
        return f"{concat.output.name} has other readers"
    return "" if concat.output.is_graph_output() else f"{concat.output.name} is no output"
