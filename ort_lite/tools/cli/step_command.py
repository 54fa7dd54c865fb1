"""`ort-lite step MODEL.onnx --until NODE`: step the formal machine, and print the tensors of the last step."""

from argparse import Namespace
from typing import Any

from ort_lite.errors import InvalidArgument, hint
from ort_lite.tools.cli import session_arguments
from ort_lite.tools.cli.feed_arguments import feeds_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text
from ort_lite.tools.cli.run_command import print_summaries, summary
from ort_lite.tools.machine import Machine, StepRecord


def main(arguments: Namespace) -> None:
    """Run `ort-lite step`."""
    session = session_arguments.session(arguments, arguments.model)
    machine = Machine(session, feeds_of(arguments, session.get_inputs()))
    _check_node(machine, arguments.until)
    records: list[StepRecord] = []
    tensors: list[dict[str, Any]] = []
    while not machine.at_end:
        records.append(machine.step(check=arguments.check))
        last = records[-1]
        if last.node == arguments.until:
            tensors = _tensors(machine, last)
            more = machine.instructions[machine.position :]
            if all(instruction.node.name != arguments.until for instruction in more):
                break
    if arguments.json:
        rows = [dict(zip(("index", "node", "op_type", "kernel", "reads", "writes"), r.row(), strict=True)) for r in records]
        print_json("step", {"bytes": machine.state.N, "instructions": len(machine), "steps": rows, "tensors": tensors})
        return
    columns = ("step", "operator", "node", "reads", "writes")
    print_table(columns, ([r.index, r.op_type, r.node, ", ".join(r.reads), ", ".join(r.writes)] for r in records), ["step"])
    print_text(
        f"{machine.position} of {len(machine)} instructions in {machine.state.N:,} bytes; G has {len(machine.state.G)} nodes"
    )
    if tensors:
        print_summaries(("tensor", "is", "offset"), tensors)


def _check_node(machine: Machine, name: str) -> None:
    names = [instruction.node.name for instruction in machine.instructions]
    if name and name not in names:
        told = "fused nodes have the names of their parts, joined by +"
        raise InvalidArgument(
            f"--until {name}: no instruction belongs to a node of this name{hint(name, names)} ({told}; all: leave --until out)"
        )


def _tensors(machine: Machine, record: StepRecord) -> list[dict[str, Any]]:
    """Return the tensors of the step's operands as they are now. If the step overwrote one, it shows the new contents."""
    return [
        {"tensor": name, "is": kind, "offset": machine.T[name].offset, **summary(machine.read(name))}
        for kind, names in (("read", record.reads), ("written", record.writes))
        for name in names
    ]
