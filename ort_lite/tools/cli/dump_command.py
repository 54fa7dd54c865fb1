"""`ort-lite dump MODEL.onnx --stage STAGE`: show a model after one stage of the pipeline."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.graph.graph import Graph, Value
from ort_lite.graph.model import Model
from ort_lite.partition.assignment import COLUMNS, Assignment
from ort_lite.session.explanation import Explanation
from ort_lite.session.preparation import Arguments, prepare_until
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text


def main(arguments: Namespace) -> None:
    """Run `ort-lite dump`."""
    if arguments.stage in ("compile", "plan"):
        _dump_compiled_model(arguments)
        return
    given = Arguments(session_arguments.providers(arguments))
    prepared = prepare_until(arguments.stage, arguments.model, session_arguments.options(arguments), given)
    if prepared.assignment is not None:
        _show_assignment(prepared.assignment, arguments.json)
        return
    if prepared.report is not None and not arguments.json:
        print_text(prepared.report)
    _show_graph(prepared.loaded.model, arguments.stage, arguments.json)


def _show_graph(loaded: Model, stage: str, as_json: bool) -> None:
    if as_json:
        print_json("dump", {"stage": stage, "opset_imports": loaded.opset_imports, **_graph(loaded.graph)})
    else:
        print_text(loaded.graph)


def _graph(graph: Graph) -> dict[str, Any]:
    return {
        "name": graph.name,
        "inputs": [_value(value) for value in graph.inputs],
        "outputs": [_value(value) for value in graph.outputs],
        "initializers": [_value(value) for value in graph.initializers.values()],
        "nodes": [
            {
                "name": node.name,
                "operator": node.operator,
                "inputs": [None if value is None else value.name for value in node.inputs],
                "outputs": [None if value is None else _value(value) for value in node.outputs],
                "bodies": [_graph(body) for body in node.subgraphs()],
            }
            for node in graph
        ],
    }


def _value(value: Value) -> dict[str, str]:
    return {"name": value.name, "type": str(value.type)}


def _show_assignment(assignment: Assignment, as_json: bool) -> None:
    if as_json:
        print_json("dump", {"stage": "partition", **assignment.as_dict()})
        return
    print_table(COLUMNS, assignment.table())
    for note in assignment.notes():
        print_text(note)


def _dump_compiled_model(arguments: Namespace) -> None:
    """Print the compiled partitions in execution order, or their memory plans, which need a run."""
    session = session_arguments.session(arguments, arguments.model)
    if arguments.stage == "plan":
        session.run(None, feeds_of(arguments, session.get_inputs()))
        _show_plans(session, arguments.json)
    else:
        fused = session._stage_results.compiled.fused
        done = {name: [str(change) for change in copy.changes] for name, copy in fused.items()}
        _show_partitions(session.explain(), done, arguments.json)


def _show_partitions(explanation: Explanation, fusions: Mapping[str, Sequence[str]], as_json: bool) -> None:
    columns = ("partition", "device", "nodes", "inputs", "outputs", "facts")
    rows = [
        (
            p.name,
            str(p.provider.device),
            len(p.nodes),
            [value.name for value in p.inputs],
            [value.name for value in p.outputs],
            dict(explanation.facts.get(p.name, {})),
        )
        for p in explanation.assignment.partitions
    ]
    if as_json:
        found = [{**dict(zip(columns, row, strict=True)), "fusions": fusions.get(str(row[0]), [])} for row in rows]
        print_json("dump", {"stage": "compile", "partitions": found})
        return
    print_table(columns, ([_text(cell) for cell in row] for row in rows), ("nodes",))
    for name, changes in fusions.items():
        for change in changes:
            print_text(f"{name}: {change}")


def _show_plans(session: InferenceSession, as_json: bool) -> None:
    plans = session.memory_plans()
    texts = {p.name: str(plans.get(p.name, "states no plan")) for p in session.explain().assignment.partitions}
    if as_json:
        print_json("dump", {"stage": "plan", "memory_plans": texts})
    for name, text in () if as_json else texts.items():
        print_text(f"{name}: {text}")


def _text(cell: Any) -> str:
    if isinstance(cell, dict):
        return ", ".join(f"{key} {value}" for key, value in cell.items())
    return ", ".join(cell) if isinstance(cell, list) else str(cell)
