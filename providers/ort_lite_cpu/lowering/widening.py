"""Nodes of 16-bit floats around which no Cast stands, because their element type is known only in the run: they compute in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ort_lite.dtypes import Array, DType, to_numpy
from ort_lite.graph import Node, TensorType, Value
from ort_lite.inference import Info
from ort_lite.memory.recipes import derive
from ort_lite_cpu.lowering.conversion import convert
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.lowering.values import Open, Values
from ort_lite_cpu.registry import OperatorRegistration
from ort_lite_cpu.types import HALVES

_WIDE = "float32"


def lower(values: Values, registration: OperatorRegistration, node: Node, infos: Sequence[Info]) -> None:
    """Lower a node: as it is, or in float32 if its kernels take that and not its 16-bit floats. `infos` are those of its outputs."""
    if _takes_only_wide(values, registration, node):
        _lower_wide(values, registration.lower, node, infos)
    else:
        registration.lower(NodeLowering(values, node, infos))


def _takes_only_wide(values: Values, registration: OperatorRegistration, node: Node) -> bool:
    position = registration.typed_by
    value = node.inputs[position] if position < len(node.inputs) else None
    if value is None or _WIDE not in registration.types:
        return False
    dtype = values.inference.of(value).dtype
    return dtype in HALVES and dtype not in registration.types | registration.stepwise & values.options.steps


def _lower_wide(values: Values, function: Callable[[NodeLowering], None], node: Node, infos: Sequence[Info]) -> None:
    """Lower a copy of the node between values of its own, since other nodes may read those of the node in other types."""
    inputs = [None if value is None else _wide_input(values, value) for value in node.inputs]
    outputs = [None if value is None else Value(value.name) for value in node.outputs]
    copy = Node(
        node.op_type,
        inputs,
        outputs,
        list(node.attributes.values()),
        domain=node.domain,
        version=node.version,
        name=node.name,
        overload=node.overload,
    )
    try:
        function(NodeLowering(values, copy, [_wide(info) for info in infos]))
    except Open as error:
        originals = dict(zip(inputs, node.inputs, strict=True))
        raise Open(originals.get(error.value) or error.value, error.numbers) from None
    for value, wide, info in zip(node.outputs, outputs, infos, strict=True):
        if value is not None and wide is not None and wide in values.tensors:
            values.tensors[value] = _as(values, values.tensors[wide], info.dtype, values.remaining.get(value, 1))


def _wide_input(values: Values, value: Value) -> Value:
    info, tensor, wide = values.inference.of(value), values.tensor(value), Value(value.name, value.type)
    if tensor.dtype in HALVES and not tensor.ranked:
        raise Open(value)
    values.inference.infos[wide] = _wide(info)
    values.tensors[wide] = _as(values, tensor, _wide(info).dtype)
    return wide


def _wide(info: Info) -> Info:
    if info.dtype not in HALVES:
        return info
    constant = None if info.constant is None else derive(_widen, info.constant)
    return info.replace(type=TensorType(_WIDE, info.shape), constant=constant)


def _widen(array: Array) -> Array:
    return array.astype(to_numpy(_WIDE))


def _as(values: Values, tensor: Tensor, dtype: DType | None, readers: int = 1) -> Tensor:
    """Return the tensor in another element type, converted where it is read if there is one reader."""
    if dtype is None or tensor.dtype == dtype:
        return tensor
    result = convert(tensor, dtype)
    result.name = tensor.name
    if readers != 1 or not values.options.fusion:
        values.builder.materialize(result)
    return result
