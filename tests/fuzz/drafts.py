"""A model in the making: one node, its operands and how they are brought, perhaps a node before and one behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from ort_lite.dtypes import Array
from tests.conformance.versions.cases import Input, Maybe
from tests.conformance.versions.models import type_of
from tests.conformance.versions.schemas import Key

NODE = "victim"
"""The name of the node that is tested: a refusal should say it."""
MOST_ELEMENTS = 4096
"""Of all arrays of a mutant together, so that it takes milliseconds."""
UNRANKED = "unknown rank"
OTHER_DOMAIN_OPSET = 21

At = tuple[int, int | None]
"""An array among the operands: position, and position in the sequence there."""


@dataclass
class Draft:
    """Arrays are never written to: who changes one puts another in its place."""

    key: Key
    inputs: list[Input]
    attributes: dict[str, Any]
    outputs: list[bool]
    constants: list[int]
    opset: int
    dims: list[str]
    """How each input declares its sizes, see `models.type_of`; UNRANKED: not even their number."""
    comparable: bool = False
    """Whether onnx.reference is right about the case, and so probably about its mutants."""
    optimised: bool = True
    threads: int = 1
    before: str = ""
    """An operator between the first input that is fed and the node."""
    behind: str = ""
    """One that reads the first output."""
    twins: dict[int, int] = field(default_factory=dict)
    """Operands that are the same value as an earlier one."""
    layouts: dict[int, str] = field(default_factory=dict)
    """How feeds lie in memory, where not contiguous."""
    declared: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Shapes that inputs declare although others come."""
    later: dict[str, Any] | None = None
    """The feeds of a second run of the same session."""
    story: list[str] = field(default_factory=list)

    def copied(self) -> Draft:
        return replace(
            self,
            inputs=[*self.inputs],
            attributes={**self.attributes},
            outputs=[*self.outputs],
            constants=[*self.constants],
            dims=[*self.dims],
            twins={**self.twins},
            layouts={**self.layouts},
            declared={**self.declared},
            story=[*self.story],
        )

    # --- arrays
    def arrays(self) -> Iterator[tuple[At, Array]]:
        for k, value in enumerate(self.inputs):
            inner = value.value if isinstance(value, Maybe) else value
            if isinstance(inner, np.ndarray):
                yield (k, None), inner
            elif isinstance(inner, list):
                yield from (((k, j), item) for j, item in enumerate(inner) if isinstance(item, np.ndarray))

    def put(self, at: At, array: Array) -> None:
        """Another array in that place. A second run, whose feeds were like those before, is given up."""
        self.later = None
        k, j = at
        value = self.inputs[k]
        inner = value.value if isinstance(value, Maybe) else value
        if j is not None:
            assert isinstance(inner, list)
            inner = [array if n == j else item for n, item in enumerate(inner)]
        else:
            inner = array
        self.inputs[k] = Maybe(inner, value.like) if isinstance(value, Maybe) else inner

    def size(self) -> int:
        return sum(array.size for _, array in self.arrays())

    def sizes(self) -> list[int]:
        """All dimensions there are: numbers near them steer to the edges of arrays."""
        return sorted({n for _, array in self.arrays() for n in array.shape} | {1})

    # --- the model
    def name(self, k: int) -> str:
        return "" if self.inputs[k] is None else f"in{self.twins.get(k, k)}"

    def fed(self) -> list[int]:
        """Positions of the inputs that are no initialisers."""
        return [
            k for k, value in enumerate(self.inputs) if value is not None and k not in self.twins and not self.is_constant(k)
        ]

    def is_constant(self, k: int) -> bool:
        return k in self.constants and isinstance(self.inputs[k], np.ndarray)

    def feeds(self) -> dict[str, Any]:
        return {f"in{k}": _laid(_plain(self.inputs[k]), self.layouts.get(k, "")) for k in self.fed()}

    def model(self) -> onnx.ModelProto:
        """Raises what onnx's helpers raise for what a model cannot even say."""
        infos = [helper.make_value_info(f"in{k}", self._type(k)) for k in self.fed()]
        initializers = [
            numpy_helper.from_array(value, f"in{k}")
            for k, value in enumerate(self.inputs)
            if k not in self.twins and self.is_constant(k) and isinstance(value, np.ndarray)
        ]
        nodes, results = self._nodes()
        graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in results], initializers)
        domain = self.key[0]
        imports = [helper.make_opsetid(domain, self.opset)]
        if domain:
            imports.append(helper.make_opsetid("", OTHER_DOMAIN_OPSET))
        return helper.make_model(graph, opset_imports=imports)

    def _type(self, k: int) -> onnx.TypeProto:
        value, dims = self.inputs[k], None if self.dims[k] == UNRANKED else self.dims[k]
        if k in self.declared and isinstance(value, np.ndarray):
            value = np.broadcast_to(np.zeros((), value.dtype), self.declared[k])
        return type_of(value, dims)

    def _nodes(self) -> tuple[list[onnx.NodeProto], list[str]]:
        domain, op_type, _ = self.key
        names = [self.name(k) for k in range(len(self.inputs))]
        results = [f"out{k}" if named else "" for k, named in enumerate(self.outputs)]
        nodes = []
        first = next((k for k in self.fed() if isinstance(self.inputs[k], np.ndarray)), None)
        if self.before and first is not None:
            nodes.append(_between(self.before, names[first], "before"))
            names = ["before" if name == f"in{first}" else name for name in names]
        node = helper.make_node(op_type, names, results, name=NODE, domain=domain)
        node.attribute.extend(_attribute(name, value) for name, value in self.attributes.items())
        nodes.append(node)
        if self.behind and results and results[0]:
            nodes.append(_between(self.behind, results[0], "behind"))
            results = ["behind", *results[1:]]
        return nodes, [name for name in results if name]


def _between(op_type: str, source: str, result: str) -> onnx.NodeProto:
    """One that reads `source` alone; "Add" reads it twice."""
    return helper.make_node(op_type, [source] * (2 if op_type in ("Add", "Mul") else 1), [result], name=result)


def _attribute(name: str, value: Any) -> AttributeProto:
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    if isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
        return helper.make_attribute(name, [within_int64(item) for item in value], attr_type=AttributeProto.INTS)
    return helper.make_attribute(name, within_int64(value) if isinstance(value, int) else value)


def within_int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))


def _plain(value: Input) -> Any:
    return value.value if isinstance(value, Maybe) else value


def _laid(value: Any, layout: str) -> Any:
    """The same elements in another place: every second one, backwards, by columns, unaligned."""
    if not isinstance(value, np.ndarray) or not layout:
        return value
    if layout == "columns":
        return np.asfortranarray(value)
    if layout == "backwards" and value.ndim:
        return np.ascontiguousarray(value[::-1])[::-1]
    if layout == "strided" and value.ndim:
        wide = np.zeros((*value.shape[:-1], 2 * value.shape[-1]), value.dtype)
        wide[..., ::2] = value
        return wide[..., ::2]
    if layout == "unaligned" and not value.dtype.hasobject:
        raw = np.zeros(value.nbytes + 1, np.uint8)
        made = raw[1:].view(value.dtype).reshape(value.shape)
        made[...] = value
        return made
    return value
