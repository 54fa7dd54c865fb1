"""Takes apart what ort_lite's transforms fused and OpenVINO does not know with every activation; it fuses by itself."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ort_lite.graph import Attr, Graph, Names, Node, Value

_DEFAULT = 17  # the opset version where no node of ai.onnx says one
_NAMES = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max")}


class _Step(NamedTuple):
    """A node to be; it reads what the one before computes, and then the operands."""

    op_type: str
    operands: Sequence[Value | None]
    attributes: Iterable[Attr] = ()


def unfuse(graph: Graph) -> None:
    """com.microsoft FusedConv and FusedGemm become Conv or Gemm, Add and the activation."""
    versions = Counter(node.version for node in graph if not node.domain)
    version = versions.most_common(1)[0][0] if versions else _DEFAULT
    fresh = Names(graph)
    for node in graph.nodes:
        if node.domain == "com.microsoft" and node.op_type in ("FusedConv", "FusedGemm"):
            _replace(graph, node, list(_steps(graph, node, version, fresh)), version, fresh)


def _replace(graph: Graph, node: Node, steps: list[_Step], version: int, fresh: Names) -> None:
    output = node.output
    node.replace_output(0, Value(""))
    before: list[Value | None] = []
    for k, step in enumerate(steps):
        made = output if k == len(steps) - 1 else Value(fresh(output.name), output.type)
        name = node.name if not k else fresh(node.name)
        new = Node(step.op_type, [*before, *step.operands], [made], list(step.attributes), version=version, name=name)
        graph.insert_before(node, new)
        before = [made]
    graph.remove(node)


def _steps(graph: Graph, node: Node, version: int, fresh: Names) -> Iterator[_Step]:
    kept = [attribute for name, attribute in node.attributes.items() if not name.startswith("activation")]
    count = 3  # what else a convolution reads is added to it
    yield _Step(node.op_type.removeprefix("Fused"), node.inputs[:count], kept)
    if len(node.inputs) > count:
        yield _Step("Add", node.inputs[count:])
    activation: str = node.attr("activation", "")
    if not activation:
        return
    numbers = node.attr("activation_params") or [
        node.attr(name) for name in ("activation_alpha", "activation_beta") if name in node.attributes
    ]
    if activation == "Clip" and version >= 11:
        limits = [Value(fresh("limit"), constant=np.array(number, np.float32)) for number in numbers]
        yield _Step(activation, [graph.add_initializer(limit) for limit in limits])
    else:
        names = _NAMES.get(activation, ())
        yield _Step(activation, (), [Attr.of(name, number) for name, number in zip(names, numbers, strict=False)])
