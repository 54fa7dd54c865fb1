"""Transforms that loop, make cycles, change types, drop outputs, raise and never end: of plugins, and as a provider's fusions."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ort_lite.errors import InvalidGraph
from ort_lite.graph import Graph, Node, Value
from ort_lite.plugins import plugins
from ort_lite.transform import Rewriter, Skip, Transform, graph_pass, op, rule
from tests.nasty.cases import NASTY, nasty, options, ran
from tests.nasty.judging import Case, Table, crossed, table

Act = Callable[[Rewriter, Node], Any]


def as_rule(act: Act) -> Transform:
    @rule(op("Neg", name="node"), level="basic", name="mischief")
    def mischief(rewriter: Rewriter, node: Node) -> Any:
        return act(rewriter, node)

    return mischief


def as_pass(act: Act) -> Transform:
    @graph_pass(level="basic", name="mischief")
    def mischief(graph: Graph, rewriter: Rewriter) -> Any:
        found = [node for node in graph.nodes if node.op_type == "Neg"]
        for node in found:
            rewriter.anchor = node
            act(rewriter, node)
        return len(found)

    return mischief


def through_a_plugin(transform: Transform, model: str) -> Any:
    class Plugin:
        __name__ = "nasty_plugin"

        @staticmethod
        def ort_lite_transforms() -> list[Transform]:
            return [transform]

    plugins.register_plugin(Plugin())
    return ran(model, with_=options("ORT_ENABLE_ALL"))


def as_fusion(transform: Transform, model: str) -> Any:
    provider = nasty("Abs Neg Relu Tanh Sub", fusions=lambda self: [transform])
    return ran(model, (provider, {"on_compile_error": "raise"}), with_=options("ORT_ENABLE_ALL"))


WAYS = {"plugin": through_a_plugin, "fusion": as_fusion}
FORMS = {"rule": as_rule, "pass": as_pass}


def untyped(thing: Any) -> Any:
    """For calls that type checkers would refuse."""
    return thing


def own_output(rewriter: Rewriter, node: Node) -> Any:
    """The node reads what it computes."""
    return rewriter.replace(node, rewriter.op("Neg", node.output))


def cycle(rewriter: Rewriter, node: Any) -> Any:
    """It reads what is computed from it."""
    (reader, *_) = node.output.readers
    node.inputs[0].replace_all_uses_with(reader.output)
    rewriter.touched[node] = None
    return rewriter.replace(node, rewriter.op("Neg", reader.output))


def undefined(rewriter: Rewriter, node: Node) -> Any:
    return rewriter.replace(node, rewriter.op("Neg", Value("nowhere")))


def stranger(rewriter: Rewriter, node: Node) -> Any:
    """An output of a node that is in no graph."""
    return rewriter.replace(node, Node("Neg", list(node.inputs), [Value("elsewhere", node.output.type)]).output)


def removed(rewriter: Rewriter, node: Node) -> Any:
    assert node.graph is not None
    node.graph.remove(node)


def wrong_inputs(rewriter: Rewriter, node: Node) -> Any:
    return rewriter.replace(node, rewriter.op("Neg", node.inputs[0], node.inputs[0])) if len(node.inputs) == 1 else Skip("done")


def drops_an_output(rewriter: Rewriter, node: Node) -> Any:
    assert node.graph is not None
    node.graph.set_outputs([])
    return rewriter.replace(node, rewriter.op("Neg", node.inputs[0]))


def renames_an_output(rewriter: Rewriter, node: Node) -> Any:
    assert node.graph is not None
    node.graph.outputs[0].name = "other"
    return rewriter.replace(node, rewriter.op("Sub", node.inputs[0], node.inputs[0]))


def retypes_an_output(rewriter: Rewriter, node: Node) -> Any:
    from ort_lite.graph import TensorType

    node.output.type = TensorType("float64", (3,))
    return rewriter.replace(node, rewriter.op("Tanh", node.inputs[0]))


def recursive(rewriter: Rewriter, node: Node) -> Any:
    return recursive(rewriter, node)


def raising(error: BaseException) -> Act:
    def act(rewriter: Rewriter, node: Node) -> Any:
        raise error

    return act


WHO = ("mischief",)
NODE = rf"mischief|NoSuchOperator|nowhere|Neg|Tanh|{NASTY}"
"""Where a node is what it says, but for its operator or type: whoever is to run it names it."""
# What it does; whether a right result will do as well.
ACTS: dict[str, tuple[Act, bool]] = {
    "raises": (raising(KeyError("oops")), False),
    "raises-ours": (raising(InvalidGraph("oops")), False),
    "raises-stop": (raising(StopIteration()), False),
    "raises-assertion": (raising(AssertionError()), False),
    "recurses": (recursive, False),
    "unknown-operator": (lambda r, n: r.replace(n, r.op("NoSuchOperator", n.inputs[0])), False),
    "unknown-domain": (lambda r, n: r.replace(n, r.op("Neg", n.inputs[0], domain="nowhere")), True),
    "unknown-version": (lambda r, n: r.replace(n, r.op("Neg", n.inputs[0], version=10**6)), True),
    "another-type": (lambda r, n: r.replace(n, r.op("Cast", n.inputs[0], to=11)), True),
    "another-shape": (lambda r, n: r.replace(n, r.op("Unsqueeze", n.inputs[0], r.constant(np.array([0])))), True),
    "own-output": (own_output, False),
    "cycle": (cycle, False),
    "undefined-input": (undefined, False),
    "stranger": (stranger, False),
    "removes-the-node": (removed, False),
    "too-many-inputs": (wrong_inputs, True),
    "no-input": (lambda r, n: r.replace(n, r.op("Neg")), False),
    "wrong-attribute": (lambda r, n: r.replace(n, r.op("Neg", n.inputs[0], axis=3)), True),
    "attribute-of-no-type": (lambda r, n: r.replace(n, r.op("Neg", n.inputs[0], axis=object())), False),
    "text-for-a-value": (lambda r, n: untyped(r).replace(n, "x"), False),
    "none-for-a-value": (lambda r, n: untyped(r).replace(n, None), False),
    "no-values": (lambda r, n: r.replace(n), True),
    "a-list-for-a-constant": (lambda r, n: r.replace(n, r.op("Add", n.inputs[0], untyped(r).constant([1]))), False),
    "objects-for-a-constant": (lambda r, n: r.replace(n, r.op("Add", n.inputs[0], r.constant(np.array([None])))), False),
    "folds-to-another-shape": (lambda r, n: r.fold(n, np.zeros(7, np.float32)), True),
    "skips": (lambda r, n: Skip("no"), True),
    "drops-an-output": (drops_an_output, False),
    "renames-an-output": (renames_an_output, False),
    "retypes-an-output": (retypes_an_output, True),
}
# Of a rule alone: what it returns.
RETURNED: dict[str, Any] = {"none": None, "true": True, "number": 3, "text": "done"}
# Of a pass alone: how many changes it says that it made.
COUNTED: dict[str, Any] = {"none": None, "text": "two", "list": [1], "below-0": -1, "float": 0.5}


def endless_rule(rewriter: Rewriter, node: Node) -> Any:
    return rewriter.replace(node, rewriter.op("Neg", node.inputs[0]))


def growing_rule(rewriter: Rewriter, node: Node) -> Any:
    twice = rewriter.op("Neg", rewriter.op("Neg", node.inputs[0]))
    return rewriter.replace(node, rewriter.op("Neg", twice))


@graph_pass(level="basic", name="mischief")
def endless_pass(graph: Graph, rewriter: Rewriter) -> int:
    return 1


def counting(answer: Any) -> Transform:
    @graph_pass(level="basic", name="mischief")
    def mischief(graph: Graph, rewriter: Rewriter) -> int:
        made: int = answer
        return made

    return mischief


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (way, form, (act, fine)) in crossed(way=WAYS, form=FORMS, act=ACTS):
        # A fusion's partition, and a pass that did nothing at all, may be right.
        names = (NODE,) if fine or "unknown" in name else WHO
        either = fine or (form is as_pass and name.endswith("no-values"))
        yield name, Case(lambda w=way, f=form, a=act: w(f(a), "chain"), names, either)
    for name, (way, answer) in crossed(way=WAYS, returned=RETURNED):
        yield f"returns-{name}", Case(lambda w=way, a=answer: w(as_rule(lambda r, n: a), "chain"), WHO)
    for name, (way, answer) in crossed(way=WAYS, counted=COUNTED):
        yield f"counts-{name}", Case(lambda w=way, a=answer: w(counting(a), "chain"), WHO)
    for name, (way, transform) in crossed(way=WAYS, endless={"rule": as_rule(endless_rule), "growing": as_rule(growing_rule)}):
        yield f"endless-{name}", Case(lambda w=way, t=transform: w(t, "chain"), warned="mischief")
    for name, way in WAYS.items():
        yield f"always-changes-{name}", Case(lambda w=way: w(endless_pass, "chain"))


CASES: Table = table(_cases())
