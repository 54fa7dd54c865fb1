"""Complex numbers in operators that move or sum elements, where their own kernels lack them: real and imaginary parts apart."""

from collections.abc import Sequence
from typing import Any

from ort_lite.dtypes import COMPLEX
from ort_lite.graph import TensorType
from ort_lite.inference import Info
from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.lowering.strided import emit_strided_copy
from ort_lite_cpu.lowering.tensor import Tensor, pairs
from ort_lite_cpu.registry import find_native, operator
from ort_lite_cpu.types import PARTS


@operator("Col2Im", types=COMPLEX)
def by_parts(op: NodeLowering) -> None:
    """Compute the real parts of the outputs from those of the inputs by the node's own kernel, then the imaginary parts.

    Right for what is linear in its complex inputs: sums, copies and interpolation. Reductions of Scatter are not: the kernel has
    them for pairs.
    """
    values, node = op.values, op.node
    native = find_native(node)
    assert native is not None
    if op.attr("reduction", "none") != "none":
        native.lower(op)
        return
    given = {value: op.raw(k) for k, value in enumerate(node.inputs) if value is not None}
    inputs = [value for value, tensor in given.items() if tensor.dtype in COMPLEX]
    whole = {value: op.store(values.tensor(value)) for value in inputs}
    infos = {value: values.inference.of(value) for value in inputs}
    parts: list[list[Tensor | None]] = []
    try:
        for part in range(2):
            for value in inputs:
                values.tensors[value] = _take_part(op, whole[value], part)
                values.inference.infos[value] = _as_part(infos[value])
            lower = _Imaginary if part else NodeLowering
            native.lower(lower(values, node, [_as_part(op.info(k)) for k in range(len(node.outputs))]))
            parts.append([None if value is None else values.builder.store(values.tensors[value]) for value in node.outputs])
    finally:
        values.tensors.update(whole)
        values.inference.infos.update(infos)
    for k, made in enumerate(zip(*parts, strict=True)):
        _join(op, k, made)


class _Imaginary(NodeLowering):
    """The node for imaginary parts: a number that an attribute says is real."""

    def attr(self, name: str, default: Any = None) -> Any:
        return 0.0 if name == "extrapolation_value" else super().attr(name, default)


def _as_part(info: Info) -> Info:
    type_ = info.type
    return Info(TensorType(PARTS[type_.dtype], type_.shape)) if isinstance(type_, TensorType) and type_.dtype in PARTS else info


def _take_part(op: NodeLowering, x: Tensor, part: int) -> Tensor:
    made = op.temporary(PARTS[x.dtype], x.shape)
    emit_strided_copy(op, pairs(x), made, (x.size,), [2], [1], part)
    return made


def _join(op: NodeLowering, index: int, parts: Sequence[Tensor | None]) -> None:
    if op.wants(index):
        y = op.output(index)
        for part, made in enumerate(parts):
            assert made is not None
            emit_strided_copy(op, made, pairs(y), (y.size,), [1], [2], 0, part)
