"""The values of a model, computed node by node without optimization."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_lite.options import GraphOptimizationLevel, SessionOptions
from ort_lite.session.session import Session
from ort_lite.testing.generator.reduction.graphs import Feeds, copy, reads, replace
from ort_lite.testing.generator.reduction.protos import array_of, declaration, output

Evaluate = Callable[[Any, Feeds], Sequence[Any] | None]
"""(model, feeds) -> outputs, or None if it does not run."""


def evaluate(model: Any, feeds: Feeds) -> Sequence[Any] | None:
    """Run a model with the CPU provider, in this process."""
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with Session(model.SerializeToString(), options, providers=["CPUExecutionProvider"]) as session:
                return session.run(None, dict(feeds))
        except Exception:  # noqa: BLE001  whatever it raises, the value is not known
            return None


def values_of(model: Any, feeds: Feeds, run: Evaluate) -> dict[str, Any]:
    """Return the values of a model: feeds, initializers and results. Those that depend on a node that cannot run are absent."""
    values = {one.name: array_of(one) for one in model.graph.initializer}
    values.update(feeds)
    declared = {value.name: value for value in model.graph.input}
    for node in model.graph.node:
        names = list(dict.fromkeys(reads(node)))
        if all(name in values for name in names):
            single = _single(model, node, names, values, declared)
            outputs = None if single is None else run(single, {name: values[name] for name in names})
            values.update(zip((name for name in node.output if name), outputs or (), strict=False))
    return values


def _single(model: Any, node: Any, names: Sequence[str], values: Feeds, declared: Feeds) -> Any:
    """Return the node as a model, whose inputs are all values that the node reads."""
    inputs = [declared[name] if name in declared else declaration(name, values[name]) for name in names]
    if any(one is None for one in inputs):
        return None
    single = copy(model)
    replace(single.graph.node, [node])
    replace(single.graph.input, inputs)
    replace(single.graph.output, [output(name) for name in node.output if name])
    del single.graph.initializer[:], single.graph.value_info[:]
    return single
