"""A hash-chained log of a run: enough to execute the run again and to find the first step that differs."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.record import Record
from ort_lite.tools.machine.formal_machine import Machine, StepRecord

FORMAT = "ort-lite-trace-1"


class TracedStep(Record):
    """A step and the hash of everything up to it: the SHA-256 of the previous hash, the record, and the bytes it wrote."""

    record: StepRecord
    digest: str


class MachineTrace(Record):
    """The log of a run. `initial` is the hash of M before the first step: inputs, constants and zeros."""

    initial: str
    steps: tuple[TracedStep, ...]

    @property
    def digest(self) -> str:
        """Return the digest of the whole run, which is equal for equal runs."""
        return self.steps[-1].digest if self.steps else self.initial

    def to_json(self) -> str:
        """Return the trace as JSON."""
        rows = [[s.digest, *s.record.row()] for s in self.steps]
        return json.dumps({"format": FORMAT, "initial": self.initial, "steps": rows})

    @classmethod
    def from_json(cls, text: str) -> "MachineTrace":
        """Read a trace. Raises InvalidArgument if the text is not one."""
        try:
            data: Mapping[str, Any] = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']!r}, expected {FORMAT!r}")
            return cls(data["initial"], tuple(_step(row) for row in data["steps"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgument(f"not a trace: {error}") from error


def _step(row: Sequence[Any]) -> TracedStep:
    digest, index, node, op_type, kernel, reads, writes = row
    return TracedStep(StepRecord(index, node, op_type, kernel, tuple(reads), tuple(writes)), digest)


def record_trace(machine: Machine, check: bool = False) -> MachineTrace:
    """Run a machine from its first instruction to the end and return the trace. O(bytes written), plus O(N) per step with `check`."""
    initial = _initial(machine)
    steps: list[TracedStep] = []
    digest = initial
    while not machine.at_end:
        record = machine.step(check)
        digest = _chain(digest, record, machine)
        steps.append(TracedStep(record, digest))
    return MachineTrace(initial, tuple(steps))


def verify_trace(trace: MachineTrace, machine: Machine) -> None:
    """Execute the trace again on a machine at its first instruction.

    Raises InvalidArgument that names the first step whose reads, writes or results differ from the trace.
    """
    if _initial(machine) != trace.initial:
        raise InvalidArgument("the machine starts from another M than the trace: other inputs, constants or plan")
    digest = trace.initial
    for number, expected in enumerate(trace.steps):
        if machine.at_end:
            raise InvalidArgument(f"the trace has {len(trace.steps)} steps, the machine {len(machine)}")
        record = machine.step()
        digest = _chain(digest, record, machine)
        if digest != expected.digest:
            told = "other bytes" if record == expected.record else f"expected {expected.record}"
            raise InvalidArgument(f"step {number} came out otherwise: {record}; {told}")
    if not machine.at_end:
        raise InvalidArgument(f"the trace has {len(trace.steps)} steps, the machine {len(machine)}")


def _initial(machine: Machine) -> str:
    if machine.position:
        raise InvalidArgument(f"the machine stands at step {machine.position}; a trace begins at 0: make a new one")
    return machine.state.digest()


def _chain(digest: str, record: StepRecord, machine: Machine) -> str:
    made = hashlib.sha256(digest.encode())
    made.update(json.dumps(record.row()).encode())
    for name in record.writes:
        entry = machine.T[name]
        made.update(f"{name} {entry.offset} {entry.dtype} {list(entry.shape)}".encode())
        made.update(machine.state.M[entry.offset : entry.end].data)
    return made.hexdigest()
