"""Operators that inlined functions bring whatever a model imports, taken apart for a model of an older opset version."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.graph import Names, Node, Value

OLDEST = 7
"""Operands of arithmetic broadcast from here on."""


def older_form(node: Node, version: int) -> bool:
    """Puts nodes of opset `version` in the place of a newer one; False, with nothing done, where there are none for it. O(graph).

    What comes of HardSwish and LayerNormalization is what fusions compose them of.
    """
    form = _FORMS.get(node.op_type) if not node.domain and version >= OLDEST else None
    if form is None or node.graph is None or (made := form(_Before(node, version))) is None:
        return False
    made.type = node.output.type
    node.output.replace_all_uses_with(made)
    node.graph.remove(node)
    return True


class _Before:
    """Makes nodes in front of another one."""

    def __init__(self, node: Node, version: int) -> None:
        assert node.graph is not None
        self.node, self._version, self._graph, self._names = node, version, node.graph, Names(node.graph)

    def __call__(self, op_type: str, *inputs: Value, **attributes: Any) -> Value:
        made, name = Value(self._names(f"{self.node.output.name}_{op_type}")), self._names(f"{self.node.name}_{op_type}")
        node = Node(op_type, inputs, [made], attributes, version=self._version, name=name)
        return self._graph.insert_before(self.node, node).output


def _hard_swish(before: _Before) -> Value | None:
    (x,) = before.node.inputs
    assert x is not None
    return before("Mul", x, before("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _layer_normalization(before: _Before) -> Value | None:
    """Split a LayerNormalization; None if the rank of x is not known, or the mean or the deviation is used."""
    x, scale, *rest = before.node.inputs
    if x is None or scale is None or x.shape is None or x.dtype is None or len(before.node.outputs) > 1:
        return None
    rank = len(x.shape)
    axes = list(range(before.node.attr("axis", -1) % rank, rank))
    centred = before("Sub", x, before("ReduceMean", x, axes=axes, keepdims=1))
    variance = before("ReduceMean", before("Mul", centred, centred), axes=axes, keepdims=1)
    epsilon = before("Constant", value=np.array(before.node.attr("epsilon", 1e-5), to_numpy(x.dtype)))
    y = before("Mul", before("Div", centred, before("Sqrt", before("Add", variance, epsilon))), scale)
    bias = rest[0] if rest else None
    return y if bias is None else before("Add", y, bias)


_FORMS: dict[str, Callable[[_Before], Value | None]] = {
    "HardSwish": _hard_swish,
    "LayerNormalization": _layer_normalization,
}
