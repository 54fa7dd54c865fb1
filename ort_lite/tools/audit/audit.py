"""The audit of a model: what it reads and what it can cost."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from ort_lite.compat.ort_options import SessionOptions
from ort_lite.errors import OrtLiteError, format_error
from ort_lite.load.proto import pb, text
from ort_lite.load.source import read_source
from ort_lite.options.options import GraphOptimizationLevel
from ort_lite.partition.cost.work import sizes_of
from ort_lite.record import Record, asdict
from ort_lite.session.preparation import Arguments, prepare_until
from ort_lite.shapes.dims import symbols
from ort_lite.tools.audit.contents import FileRead, LoopBound, RegularExpression, files_of, loops_of, nodes_of, patterns_of
from ort_lite.tools.audit.memory import MemoryNeed, memory_need

_DEFAULT_DOMAIN = "ai.onnx"


class Audit(Record):
    """The files that a model reads, and what it can cost. Nothing of it has run.

    `operators` counts nodes, bodies and functions included, by "domain.Name" (without the domain for ONNX's own). `memory` is the
    need of a run at the sizes in `dims`, None if `doubt` says why the model cannot be understood.
    """

    path: str
    nbytes: int
    files: tuple[FileRead, ...]
    operators: Mapping[str, int]
    domains: Mapping[str, int]
    functions: int
    patterns: tuple[RegularExpression, ...]
    loops: tuple[LoopBound, ...]
    dims: Mapping[str, int]
    memory: MemoryNeed | None
    doubt: str

    @property
    def findings(self) -> list[str]:
        """Points that a careful user looks at: files that are refused, loops without a bound, and a model that does not load."""
        found = [f"file {file.location!r}: {file.refused}" for file in self.files if file.refused]
        found += [f"{loop.operator} {loop.node!r} has no bound: {loop.reason}" for loop in self.loops if _is_open(loop)]
        return found + ([f"the model cannot be analyzed: {self.doubt}"] if self.doubt else [])

    def as_dict(self) -> dict[str, Any]:
        """Return the audit as plain data; sizes in bytes."""
        plain = {name: getattr(self, name) for name in ("path", "nbytes", "functions", "doubt")}
        plain |= {name: dict(getattr(self, name)) for name in ("operators", "domains", "dims")}
        plain |= {name: [asdict(one) for one in getattr(self, name)] for name in ("files", "patterns", "loops")}
        memory = None if self.memory is None else asdict(self.memory) | {"total": self.memory.total}
        return plain | {"memory": memory, "findings": self.findings}


def _is_open(loop: LoopBound) -> bool:
    return loop.operator == "Loop" and loop.bound is None


def audit(path: str, dims: Mapping[str, int] | None = None, timeout: float = 0.0) -> Audit:
    """Audit a model's file.

    `dims` are sizes of free dimensions, 1 by default. `timeout` limits the analysis of shapes, in seconds; 0 is no limit. Raises
    NoSuchFile and InvalidProtobuf if the file is no model.
    """
    with closing(read_source(path)) as source:
        proto = source.proto
        nbytes = os.path.getsize(path)
        files, patterns, loops = files_of(proto, path), patterns_of(proto), loops_of(proto)
        operators = Counter(_operator(node.proto) for node in nodes_of(proto))
    sizes, memory, doubt = _need(path, dims or {}, timeout)
    domains = {text(entry.domain) or _DEFAULT_DOMAIN: entry.version for entry in proto.opset_import}
    return Audit(
        path=path,
        nbytes=nbytes,
        files=tuple(files),
        operators=dict(sorted(operators.items())),
        domains=domains,
        functions=len(proto.functions),
        patterns=tuple(patterns),
        loops=tuple(loops),
        dims=sizes,
        memory=memory,
        doubt=doubt,
    )


def _operator(node: "pb.NodeProto") -> str:
    domain = text(node.domain)
    return f"{domain}.{text(node.op_type)}" if domain not in ("", _DEFAULT_DOMAIN) else text(node.op_type)


def _need(path: str, dims: Mapping[str, int], timeout: float) -> tuple[dict[str, int], MemoryNeed | None, str]:
    """Return the sizes of free dimensions, the memory of a run, and why it is unknown."""
    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    options.creation_timeout = timeout
    try:
        graph = prepare_until("transform", path, options, Arguments(None)).loaded.model.graph
    except OrtLiteError as error:
        return dict(dims), None, format_error(error).splitlines()[0]
    sizes = {symbol.name: 1 for value in graph.inputs for symbol in symbols(value.shape or ())} | dict(dims)
    return sizes, memory_need(graph, sizes_of(sizes)), ""
