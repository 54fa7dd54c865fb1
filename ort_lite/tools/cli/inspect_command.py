"""`ort-lite inspect MODEL.onnx`: show a model's inputs, operators, weights and the work of one run. Nothing is compiled."""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import InvalidGraph, NotImplemented, format_error, shorten
from ort_lite.graph.graph import Graph, Value
from ort_lite.graph.model import Model
from ort_lite.options.options import GraphOptimizationLevel
from ort_lite.partition.cost.work import Sizes, sizes_of
from ort_lite.session.metadata import NodeArg, node_args
from ort_lite.session.preparation import Arguments, prepare_until
from ort_lite.shapes.dims import symbols
from ort_lite.shapes.expr import Expr
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import dims_of, shapes_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text
from ort_lite.tools.view.facts import graph_work
from ort_lite.transform.contract import all_graphs

LARGEST = 10


def main(arguments: Namespace) -> None:
    """Run `ort-lite inspect`."""
    loaded, doubt = _load_with_types(arguments)
    inputs = node_args([value for value in loaded.graph.inputs if value.constant is None], loaded.unnamed_dims)
    dims = _dims(arguments, loaded.graph, inputs)
    report = {
        "model": _facts(loaded),
        "inputs": [_arg(arg) for arg in inputs],
        "outputs": [_arg(arg) for arg in node_args(loaded.graph.outputs, loaded.unnamed_dims)],
        "operators": dict(sorted(Counter(node.operator for node in loaded.graph.all_nodes()).items())),
        "weights": _weights(loaded.graph),
        "run": {"dims": dims, **_work(loaded.graph, sizes_of(dims)), "doubt": doubt},
    }
    if arguments.json:
        print_json("inspect", report)
    else:
        _show(report)


def _load_with_types(arguments: Namespace) -> tuple[Model, str]:
    """Return the model as it is in the file, with inferred types, and the reason if inference fails because the model is invalid."""
    plain = SessionOptions()
    plain.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    plain.creation_timeout = arguments.creation_timeout
    given = Arguments(session_arguments.providers(arguments))
    try:
        return prepare_until("transform", arguments.model, plain, given).loaded.model, ""
    except (InvalidGraph, NotImplemented) as error:
        return prepare_until("load", arguments.model, plain, given).loaded.model, format_error(error).splitlines()[0]


def _dims(arguments: Namespace, graph: Graph, inputs: Iterable[NodeArg]) -> dict[str, int]:
    """Return the sizes of free dimensions by name: those of --shape and --dim, and 1 for others."""
    found = {symbol.name: 1 for value in graph.inputs for symbol in symbols(value.shape or ())}
    shapes = shapes_of(arguments, list(inputs))
    for value in graph.inputs:
        for dim, size in zip(value.shape or (), shapes.get(value.name, ()), strict=False):
            if isinstance(dim, Expr):
                found[str(dim)] = size
    return {**found, **dims_of(arguments)}


def _facts(loaded: Model) -> dict[str, Any]:
    return {
        "graph": loaded.graph.name,
        "producer": f"{loaded.producer_name} {loaded.producer_version}".strip(),
        "ir_version": loaded.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(loaded.opset_imports.items())},
        "model_version": loaded.model_version,
        "functions": len(loaded.functions),
        "metadata": dict(sorted(loaded.metadata_props.items())),
    }


def _arg(arg: NodeArg) -> dict[str, Any]:
    return {"name": arg.name, "type": arg.type, "shape": arg.shape}


def _weights(graph: Graph) -> dict[str, Any]:
    found = [value for body in all_graphs(graph) for value in body.initializers.values() if value.constant is not None]
    by_type: dict[str, dict[str, int]] = {}
    for value in found:
        row = by_type.setdefault(str(value.dtype), {"tensors": 0, "elements": 0, "bytes": 0})
        row["tensors"] += 1
        row["elements"] += int(getattr(value.constant, "size", 0))
        row["bytes"] += _size(value)
    largest = sorted(found, key=lambda value: (-_size(value), value.name))[:LARGEST]
    return {
        "tensors": len(found),
        "elements": sum(row["elements"] for row in by_type.values()),
        "bytes": sum(row["bytes"] for row in by_type.values()),
        "by_type": dict(sorted(by_type.items())),
        "largest": [{"name": v.name, "type": str(v.type), "bytes": _size(v)} for v in largest],
    }


def _size(value: Value) -> int:
    return int(getattr(value.constant, "nbytes", 0))


def _work(graph: Graph, size: Sizes) -> dict[str, Any]:
    found = graph_work(graph, size)
    total = sum(found.operations.values())
    by_operator = {"operations_by_operator": dict(found.operations)}
    return {"operations": total, "bytes_of_results": found.nbytes, "unknown": found.unknown, **by_operator}


def _show(report: Mapping[str, Any]) -> None:
    facts = report["model"]
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    print_text(f"{facts['graph']}: IR version {facts['ir_version']}, {opsets}; producer: {facts['producer'] or 'not stated'}")
    for key, text in facts["metadata"].items():
        print_text(f"metadata {key}: {shorten(text, 200)}")
    rows = [(side[:-1], arg["name"], arg["type"], str(arg["shape"])) for side in ("inputs", "outputs") for arg in report[side]]
    print_table(("is", "name", "type", "shape"), rows)
    weights = report["weights"]
    print_text(f"\n{weights['tensors']} weights of {weights['elements']:,} elements, {weights['bytes']:,} bytes; the largest:")
    print_table(("name", "type", "bytes"), [(w["name"], w["type"], f"{w['bytes']:,}") for w in weights["largest"]], ("bytes",))
    run = report["run"]
    sizes = ", ".join(f"{name} = {size}" for name, size in run["dims"].items())
    more = f"; sizes of {run['unknown']} nodes are not known before a run" if run["unknown"] else ""
    print_text(f"\na run{f' with {sizes}' if sizes else ''}: {run['operations'] / 1e9:.4g} GFLOP{more}")
    if run["doubt"]:
        print_text(f"shapes are not known: {run['doubt']}")
    counts = run["operations_by_operator"]
    order = sorted(report["operators"], key=lambda name: (-counts.get(name, 0), name))
    print_table(
        ("operator", "nodes", "GFLOP"),
        [(name, report["operators"][name], f"{counts[name] / 1e9:.4g}" if name in counts else "") for name in order],
        ("nodes", "GFLOP"),
    )
