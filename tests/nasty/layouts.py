"""Providers that prefer channels-last, and do not take, compile or compute what they get then."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ort_lite.graph import Node
from ort_lite.provider import Capability, GraphView, Partition
from ort_lite.transform import NHWC_DOMAIN
from tests.nasty.cases import NASTY, nasty, ran
from tests.nasty.judging import Case, Table, crossed, table
from tests.partition.test_layout import _evaluate

POOLS = "MaxPool GlobalAveragePool"
Takes = Callable[[Node], bool]


def last(node: Node) -> bool:
    return node.domain == NHWC_DOMAIN


def images(takes: Takes, compute: Callable[[Partition, Sequence[Any]], Any] = _evaluate, **members: Any) -> Any:
    def claim(self: Any, view: GraphView) -> Any:
        return [Capability([node]) for node in view if node.op_type in (*POOLS.split(), "Transpose") and takes(node)]

    def compile_(self: Any, partitions: Sequence[Partition]) -> Any:
        return [lambda inputs, p=p: compute(p, inputs) for p in partitions]

    given: dict[str, Any] = {"get_capability": claim, "compile": compile_, "preferred_layout": lambda self, node: "NHWC"}
    return nasty(POOLS, **{**given, **members})


TAKES: dict[str, Takes] = {
    "everything": lambda node: True,
    "only-first": lambda node: not last(node),
    "only-last": last,
    "pools-only-last": lambda node: last(node) or node.op_type == "Transpose",
    "nothing": lambda node: False,
    "transposes": lambda node: node.op_type == "Transpose",
    "one-of-two": lambda node: node.op_type == "MaxPool",
    "one-of-two-last": lambda node: node.op_type == "GlobalAveragePool" or not last(node),
}
LAYOUTS: dict[str, Callable[[Any, Node], Any]] = {
    "last": lambda self, node: "NHWC",
    "first": lambda self, node: "NCHW",
    "none": lambda self, node: None,
    "of-one": lambda self, node: "NHWC" if node.op_type == "MaxPool" else None,
}


def forgets(partition: Partition, inputs: Sequence[Any]) -> Any:
    """Computes channels-last and returns it channels-first."""
    return [y.transpose(0, 3, 1, 2) if y.ndim == 4 else y for y in _evaluate(partition, inputs)]


def fails(partition: Partition, inputs: Sequence[Any]) -> Any:
    raise OSError("bus")


COMPUTES = {"forgets": forgets, "fails": fails, "wide": lambda p, inputs: [y.astype(np.float64) for y in _evaluate(p, inputs)]}


def moody() -> Takes:
    asked: list[int] = []

    def takes(node: Node) -> bool:
        asked.append(1)
        return len(asked) % 3 != 0

    return takes


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (takes, layout) in crossed(takes=TAKES, layout=LAYOUTS):
        yield f"takes-{name}", Case(lambda t=takes, y=layout: ran("image", images(t, preferred_layout=y), times=2))
    for name, (takes, compute) in crossed(
        takes={k: TAKES[k] for k in ("everything", "only-last", "only-first")}, compute=COMPUTES
    ):
        untaken = name.startswith("only-last")  # as it is nobody offers it: preferences are asked of what was taken
        yield f"computes-{name}", Case(lambda t=takes, c=compute: ran("image", images(t, c)), (NASTY,), either=untaken)
    for name, (takes, compute) in crossed(takes={"everything": TAKES["everything"]}, compute=COMPUTES):
        going_on = lambda t=takes, c=compute: ran("image", (images(t, c), {"on_run_error": "next"}))  # noqa: E731
        yield f"another-goes-on-{name}", Case(going_on)


CASES: Table = table([*_cases(), ("moody", Case(lambda: ran("image", images(moody()))))])
