"""Descriptive names of generated models."""

from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy
from ort_lite.testing.generator.draft import Draft, NodeDraft


def describe(draft: Draft) -> str:
    """Describe a model: "Gemm(3x5, const 5x4) transB=1, opset 13", or its nodes with names, then the operands."""
    opsets = ", ".join(f"{domain or 'opset'} {draft.opsets[domain]}" for domain in sorted({one.domain for one in draft.nodes}))
    if len(draft.nodes) == 1:
        return f"{_call(draft, draft.nodes[0], {name: _operand(draft, name) for name in draft.values})}, {opsets}"
    nodes = "; ".join(
        f"{', '.join(filter(None, node.outputs))} = {_call(draft, node, {name: name for name in draft.values})}"
        for node in draft.nodes
    )
    operands = ", ".join(f"{name} {_operand(draft, name)}" for name in (*draft.inputs, *draft.constants))
    return f"{nodes} with {operands}; gives {', '.join(draft.outputs)}; {opsets}"


def _call(draft: Draft, node: NodeDraft, names: dict[str, str]) -> str:
    operands = ", ".join(names[name] if name else "-" for name in node.inputs)
    attributes = "".join(f" {name}={_value(value)}" for name, value in sorted(node.attributes.items()))
    return f"{node.op_type}({operands}){attributes}"


def _operand(draft: Draft, name: str) -> str:
    constant = draft.constants.get(name)
    array = constant if constant is not None else draft.feeds.get(name)
    text = _array(array) if isinstance(array, np.ndarray) else draft.lookup(name).kind
    return text if constant is None else f"const {text}"


def _array(array: Array) -> str:
    """Describe an array: "2x3", "bool 4", "0-d", or the elements of a few integers. float32 is not named."""
    if array.dtype == np.int64 and array.ndim == 1 and array.size <= 8:
        return str(array.tolist())
    shape = "x".join(map(str, array.shape)) or "0-d"
    dtype = from_numpy(array.dtype)
    return shape if dtype == "float32" else f"{dtype} {shape}"


def _value(value: Any) -> str:
    if isinstance(value, Draft):
        return f"{{{'; '.join(node.op_type for node in value.nodes)}}}"
    return _array(value) if isinstance(value, np.ndarray) else str(value).replace(" ", "")
