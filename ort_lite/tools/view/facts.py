"""Facts about a model as a whole: its origin, its size, the work of one run, and its providers."""

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import version

from ort_lite._version import __version__
from ort_lite.graph.graph import Graph, Value
from ort_lite.graph.model import Model
from ort_lite.native.cpu import host
from ort_lite.partition.cost.work import Sizes, nbytes, operations, sizes_of
from ort_lite.record import Record

Facts = list[tuple[str, str]]

_STEPS = (1000, "", "k", "M", "G", "T", "P")
_BYTES = (1024, " bytes", " KiB", " MiB", " GiB", " TiB", " PiB")


def facts_of(model: Model | None, graph: Graph, values: Iterable[Value], dims: Mapping[str, int]) -> Facts:
    """Return the facts as pairs of label and text.

    `model` is as it is in the file, `graph` as it runs. `values` are all its values, `dims` the known sizes of free dimensions.
    """
    constants = [value.constant for value in values if value.constant is not None]
    facts = [] if model is None else _origin(model)
    facts.append(("Nodes", f"{sum(1 for _ in graph.all_nodes()):,}"))
    facts.append(("Parameters", _short(sum(constant.size for constant in constants), _STEPS)))
    facts.append(("Weights", _short(sum(constant.nbytes for constant in constants), _BYTES)))
    if (count := _operations(graph, dims)) is not None:
        facts.append(("Operations of a run", _short(count, _STEPS)))
    facts.append(("Processor", host().name))
    packages = ", ".join(f"{name} {version(name)}" for name in ("onnx", "numba", "numpy"))
    facts.append(("Versions", f"ort_lite {__version__}, {packages}, Python {platform.python_version()}"))
    return facts


def _origin(model: Model) -> Facts:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {number}" for domain, number in model.opset_imports.items())
    producer = f"{model.producer_name} {model.producer_version}".strip()
    said = [("Producer", producer), ("Opsets", opsets), ("IR version", str(model.ir_version))]
    return [(label, text) for label, text in said if text]


def _operations(graph: Graph, dims: Mapping[str, int]) -> int | None:
    """Return the number of operations, or None if sizes are not known before the run."""
    found = graph_work(graph, sizes_of(dims))
    return None if found.unknown else sum(found.operations.values())


def _short(number: int, scale: tuple[int, str, str, str, str, str, str]) -> str:
    """Format a number with three digits, such as "1.24 M"."""
    step, *units = scale
    value, place = float(number), 0
    while value >= step and place < len(units) - 1:
        value, place = value / step, place + 1
    unit = units[place]
    return f"{value:.3g}{unit if unit.startswith(' ') else f' {unit}'.rstrip()}" if place else f"{number}{unit}"


class GraphWork(Record):
    """The work of one run of a graph. Nodes of bodies count once."""

    operations: Mapping[str, int]
    """By operator, the most first; those that have some."""
    nbytes: int
    """Of what nodes compute."""
    unknown: int
    """Nodes whose sizes only the data tells, which are not counted."""


def graph_work(graph: Graph, size: Sizes) -> GraphWork:
    """Return the work of a graph. O(nodes), bodies included."""
    counts: Counter[str] = Counter()
    moved = unknown = 0
    for node in graph.all_nodes():
        try:
            if any(value is not None and value.shape is None for value in (*node.inputs, *node.outputs)):
                raise KeyError(node.name)
            counts[node.operator] += round(operations(node, size))
            moved += sum(nbytes(value, size) for value in node.outputs)
        except KeyError:
            unknown += 1
    return GraphWork({name: count for name, count in counts.most_common() if count}, moved, unknown)
