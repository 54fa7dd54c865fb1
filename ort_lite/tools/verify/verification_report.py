"""The findings of verification, as plain data that can be printed."""

from typing import Any

from ort_lite.record import Record, asdict
from ort_lite.tools.verify.compare import TensorReport


class Culprit(Record):
    """The first bad node of a partition, and the tensor that differs.

    `how` is "prefix" if the nodes up to it, compiled together, give a tensor that differs while those before it do not; it is
    "alone" if the node gives one by itself on the CPU's values.
    """

    node: str
    operator: str
    how: str
    tensor: TensorReport

    def as_dict(self) -> dict[str, Any]:
        """Return the culprit as plain data."""
        return {"node": self.node, "operator": self.operator, "how": self.how, "tensor": self.tensor.as_dict()}

    def __str__(self) -> str:
        found = "by itself" if self.how == "alone" else "with the nodes before it"
        return f"first bad node {self.operator} {self.node!r}, {found}: {self.tensor}"


class PartitionReport(Record):
    """The comparison of one partition. `skipped` says why it was not compared, at least in one of its `calls`; "" means that it
    was.

    `bisection` explains why there is no `culprit`.
    """

    name: str
    provider: str
    graph: str
    nodes: int
    calls: int = 0
    tensors: tuple[TensorReport, ...] = ()
    culprit: Culprit | None = None
    bisection: str = ""
    skipped: str = ""

    @property
    def ok(self) -> bool:
        """True if all tensors match."""
        return all(tensor.ok for tensor in self.tensors)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        tensors = [tensor.as_dict() for tensor in self.tensors]
        return asdict(self) | {"ok": self.ok, "tensors": tensors, "culprit": self.culprit.as_dict() if self.culprit else None}

    def __str__(self) -> str:
        where = f" in {self.graph}" if self.graph else ""
        verdict = "not looked into" if not self.tensors and self.skipped else "right" if self.ok else "WRONG"
        calls = "" if self.calls < 2 else f", {self.calls} calls"
        lines = [f"{self.name} ({self.provider}){where}: {verdict}, {self.nodes} nodes{calls}"]
        lines += [f"  {tensor}" for tensor in self.tensors]
        lines += [f"  {text}" for text in (self.culprit, self.bisection) if text]
        return "\n".join([*lines, *([f"  not looked into: {self.skipped}"] if self.skipped else [])])


class VerificationReport(Record):
    """The comparisons of all partitions of other providers, in execution order; those that did not run come last.

    `failed` is the error that ended the run, if one did.
    """

    partitions: tuple[PartitionReport, ...]
    failed: str = ""

    @property
    def ok(self) -> bool:
        """Return True if nothing that was compared differs."""
        return not self.wrong

    @property
    def wrong(self) -> tuple[PartitionReport, ...]:
        """Return the partitions that differ."""
        return tuple(partition for partition in self.partitions if not partition.ok)

    @property
    def omissions(self) -> tuple[PartitionReport, ...]:
        """Return the partitions that were not compared."""
        return tuple(partition for partition in self.partitions if partition.skipped)

    @property
    def first_nan(self) -> tuple[str, str] | None:
        """Return the partition and tensor with the first NaN that the CPU's result does not have, or None."""
        found = ((part.name, tensor.name) for part in self.partitions for tensor in part.tensors if tensor.nans)
        return next(found, None)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        nan = dict(zip(("partition", "tensor"), self.first_nan, strict=True)) if self.first_nan else None
        parts = [partition.as_dict() for partition in self.partitions]
        return {"ok": self.ok, "failed": self.failed, "first_nan": nan, "partitions": parts}

    def to_json(self, indent: int | None = 2) -> str:
        """Return the report as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=indent)

    def __str__(self) -> str:
        lines = [str(partition) for partition in self.partitions] or ["every node is on the CPU provider: nothing to verify"]
        if self.first_nan is not None:
            lines.append(f"the first NaN that the CPU does not have: {self.first_nan[1]!r} of {self.first_nan[0]}")
        return "\n".join([*lines, *([f"the run failed: {self.failed}"] if self.failed else [])])

    def __repr__(self) -> str:
        verdict = "OK" if self.ok else f"MISMATCH in {', '.join(part.name for part in self.wrong)}"
        failed = f"; the run failed: {self.failed}" if self.failed else ""
        skipped = f", {len(self.omissions)} not compared" if self.omissions else ""
        return f"{type(self).__name__}({verdict}; partitions: {len(self.partitions)}{skipped}{failed})"
