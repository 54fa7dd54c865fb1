"""Checks that keep a program inside its own memory: every kernel call is compared with its operands when lowered.

A call that does not fit its kernel (scalars missing or of the wrong kind, an operand of another element type than the kernel
reads) is a TypeError: a mistake of the operator's author, whatever the model. What a kernel may touch of each operand
(`ort_lite.native.extents`) must lie in the operand's bytes. For sizes that are numbers this is settled here, for open ones mostly
too, because both sides are the same expression; what is left becomes a requirement, looked at once for each shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.graph import Node
from ort_lite.native.extents import Contract, Extent, Reach, contract, within
from ort_lite.native.spec import Spec
from ort_lite.shapes.expr import Dim
from ort_lite_cpu.lowering.lowered import Requirement
from ort_lite_cpu.lowering.tensor import Tensor
from ort_lite_cpu.types import WIDTHS


def native_types(operands: Sequence[Tensor | None]) -> list[str]:
    """Return pointer types of operands; one that is left out, which nobody reads, has that of the first that is not."""
    other = next(tensor.native for tensor in operands if tensor is not None)
    return [other if tensor is None else tensor.native for tensor in operands]


class OperandCheck:
    """The operand checks of one program."""

    def __init__(self) -> None:
        self._fitting: set[Any] = set()
        """Calls that were found to fit, whatever the open dimensions are."""

    def check(
        self,
        node: Node,
        spec: Spec,
        operands: Sequence[Tensor | None],
        scalars: Sequence[Dim | float],
        touched: Mapping[str, Extent],
        parts: int,
    ) -> Sequence[Requirement]:
        """Return what the call, in up to `parts`, still requires. Raises TypeError, or InvalidArgument that names the node.

        The same call of the same kernel over as many bytes, as in a network's next layer, is not looked at twice.
        """
        key = None
        if spec.function is not None and not touched:
            contract(spec.function).check_scalars(scalars)  # before the look-up: 1 and 1.0 are equal
            memory = [None if tensor is None else (tensor.native, _nbytes(tensor)) for tensor in operands]
            key = spec, tuple(scalars), tuple(memory), parts
            if key in self._fitting:
                return ()
        _check_numbers(node, scalars)
        left = _reaching(node, spec, operands, *_extents(spec, scalars, touched, parts))
        if key is not None and not left:
            self._fitting.add(key)
        return left


def _check_numbers(node: Node, scalars: Sequence[Dim | float]) -> None:
    numbers = [scalar for scalar in scalars if type(scalar) is int]
    if numbers and not -(1 << 63) <= min(numbers) <= max(numbers) < 1 << 63:
        raise InvalidArgument(f"{node} (CPUExecutionProvider): {max(numbers, key=abs)} is no 64-bit integer").about(node)


def _reaching(
    node: Node, spec: Spec, operands: Sequence[Tensor | None], names: Sequence[str], extents: Sequence[Extent]
) -> list[Requirement]:
    """Return a requirement for each operand of which it is not known that the extent lies in its bytes."""
    if len(operands) != len(names):
        raise TypeError(f"{node}: {len(operands)} operands came for kernel {spec.name}, it has {', '.join(names)}")
    left = []
    for name, tensor, extent, native in zip(names, operands, extents, spec.types, strict=True):
        if tensor is None:
            continue
        assert tensor.buffer is not None, f"{node}: operand {name!r} of kernel {spec.name} is not in memory"
        if tensor.native != native:
            raise TypeError(f"{node}: operand {name!r} of kernel {spec.name} is {tensor.native} ({tensor.dtype}), not {native}")
        inside = within(extent, tensor.buffer.nbytes, WIDTHS[native])
        if not isinstance(inside, int) or inside != 1:
            message, numbers = _beyond(spec, name, tensor, extent)
            left.append(Requirement(node, inside, message, numbers))
    return left


def _nbytes(tensor: Tensor) -> Dim:
    return -1 if tensor.buffer is None else tensor.buffer.nbytes


def _extents(
    spec: Spec, scalars: Sequence[Dim | float], touched: Mapping[str, Extent], parts: int
) -> tuple[Sequence[str], Sequence[Extent]]:
    """Return (names of the pointers, the extent of each)."""
    if spec.function is None:
        return list(touched), list(touched.values())
    made: Contract = contract(spec.function)
    found = made.reaches(scalars, dict(spec.statics), parts)
    left = [name for name, extent in zip(made.pointers, found, strict=True) if extent is None]
    if left != list(touched):
        raise TypeError(f"kernel {made.name} leaves the extents of {left} to its caller, who said those of {list(touched)}")
    return made.pointers, [
        touched[name] if extent is None else extent for name, extent in zip(made.pointers, found, strict=True)
    ]


def _beyond(spec: Spec, name: str, tensor: Tensor, extent: Extent) -> tuple[str, tuple[Dim, ...]]:
    """Return the message of a requirement, and its numbers."""
    assert tensor.buffer is not None
    low, high = (extent.low, extent.high) if isinstance(extent, Reach) else (0, extent)
    kernel = spec.name.partition("<")[0].rpartition(".")[2]
    what = f"{name!r} ({tensor.name!r}, {tensor.dtype})".replace("{", "{{").replace("}", "}}")
    message = f"kernel {kernel} would touch elements {{0}} to {{1}} of its operand {what}, which has {{2}} bytes"
    return message, (low, high, tensor.buffer.nbytes)
