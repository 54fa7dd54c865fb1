"""docs/operators.md: what the CPU provider runs, by asking it about every operator version on every type that its schema allows.

    python -m tests.conformance.operator_table        writes the file

A question is a graph of one node, put to the provider through the framework, which may add Casts around floats of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import onnx.defs
import onnxruntime
from onnx.defs import OpSchema
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_native

from ort_lite.dtypes import DType, from_ort_name
from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Graph, MapType, Model, Node, OptionalType, SequenceType, TensorType, Type, Value
from ort_lite.options import SessionOptions
from ort_lite.plugins.selection import Selection
from ort_lite.session.settle import settle
from ort_lite.testing.generator.targets import combinations as bindings
from ort_lite.testing.generator.targets import question
from ort_lite_cpu.operators import FAMILIES, STRING_FAMILIES
from ort_lite_cpu.provider import CPUExecutionProvider
from ort_lite_cpu.registry import find
from ort_lite_transforms.schemas import FILES

FILE = Path(__file__).parents[2] / "docs" / "operators.md"
OWN, _ = FILES
MICROSOFT = "com.microsoft"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")

NO_ROW = {
    ("ai.onnx.preview.training", "Gradient"): "stands for the derivative of a graph, which is for a training framework to make"
}
"""Operators of the installed onnx that the provider does not run."""

NEVER = {("ai.onnx.ml", "CategoryMapper"): "one side is text, the other int64"}
"""Operators whose schema allows pairs of types, equal ones, that its text rules out."""

GROUPS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "integers": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "signed": ("int8", "int16", "int32", "int64"),
    "unsigned": ("uint8", "uint16", "uint32", "uint64"),
    "floats": ("float16", "bfloat16", "float32", "float64"),
    "halves": ("float16", "bfloat16"),
    "float32": ("float32",),
    "float64": ("float64",),
    "float8": ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "float8_e8m0fnu": ("float8_e8m0fnu",),
    "float6": ("float6_e2m3fn", "float6_e3m2fn"),
    "float4_e2m1fn": ("float4_e2m1fn",),
    "small integers": ("int4", "uint4", "int2", "uint2"),
    "complex": ("complex64", "complex128"),
    "string": ("string",),
}
"""Names of element types, in the order of the table; of two that overlap the wider one comes first."""

_WHOLE = frozenset({"signed", "unsigned", "halves", "float8", "float6", "small integers", "complex"})
"""Of these, members that are alone are listed where the group would stand."""

Types = dict[str, str]
"""Type variable -> what stands there, as the schema spells it."""


class Answer(NamedTuple):
    """What the framework and the provider made of a question. refused: the reason, "" where the node runs."""

    types: tuple[Type, ...]
    refused: str
    python: bool = False
    widened: bool = False


class Row(NamedTuple):
    domain: str
    op_type: str
    versions: tuple[int, ...]
    answers: tuple[Answer, ...]


def parsed(text: str) -> Type:
    """The type for a schema's spelling: "tensor(float)", "seq(map(int64, float))"."""
    kind, _, inner = text.partition("(")
    if kind == "seq":
        return SequenceType(parsed(inner[:-1]))
    if kind == "optional":
        return OptionalType(parsed(inner[:-1]))
    if kind == "map":
        key, value = inner[:-1].split(",", 1)
        return MapType(from_ort_name(key), parsed(value.strip()))
    return TensorType(from_ort_name(text), ())


def combinations(schema: OpSchema) -> Iterator[Types]:
    """One for each type of each type variable, the others at their default: float, int64, or the first by name."""
    allowed = {c.type_param_str: sorted(c.allowed_type_strs) for c in schema.type_constraints}
    usual = {
        name: next((t for t in ("tensor(float)", "tensor(int64)") if t in types), types[0]) for name, types in allowed.items()
    }
    if (schema.domain, schema.name) in NEVER:
        usual["T1"] = "tensor(string)"
        yield from (usual, {"T1": usual["T2"], "T2": usual["T1"]})
        return
    yield usual
    for name, types in allowed.items():
        yield from ({**usual, name: text} for text in types if text != usual[name])


def asked(schema: OpSchema, types: Types) -> Answer:
    """Whether the node runs, all its inputs and outputs given."""
    inputs = [Value(p.name, parsed(types.get(p.type_str, p.type_str))) for p in schema.inputs]
    outputs = [Value(f"{p.name} out", parsed(types.get(p.type_str, p.type_str))) for p in schema.outputs]
    return answered(Node(schema.name, inputs, outputs, domain=schema.domain, version=schema.since_version, name="node"))


def answered(node: Node) -> Answer:
    types = tuple(value.type for value in (*node.inputs, *node.outputs) if value is not None and value.type is not None)
    if node.graph is None:
        Graph("g").append(node)
    graph = node.graph
    assert graph is not None
    graph.set_outputs(value for value in node.outputs if value is not None)
    try:
        settle(Model(graph=graph, opset_imports={}), Selection((_provider(),), listed=False), SessionOptions())
    except NotSupported as error:
        return Answer(types, str(error))
    registration = find(node)
    return Answer(types, "", registration is not None and registration.python, widened=len(list(graph)) > 1)


@cache
def _provider() -> CPUExecutionProvider:
    return CPUExecutionProvider()


@cache
def schemas() -> tuple[OpSchema, ...]:
    found = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain in DOMAINS]
    return tuple(sorted(found, key=lambda s: (s.domain, s.name, s.since_version)))


@cache
def rows() -> tuple[Row, ...]:
    """One for every operator of the installed onnx but NO_ROW, then those that the provider has besides."""
    by_operator: dict[tuple[str, str], list[OpSchema]] = {}
    for schema in schemas():
        by_operator.setdefault((schema.domain, schema.name), []).append(schema)
    known = [
        Row(*key, tuple(s.since_version for s in found), tuple(asked(s, types) for s in found for types in combinations(s)))
        for key, found in by_operator.items()
        if key not in NO_ROW
    ]
    return (*known, *(_beside(*key) for key in sorted({*FAMILIES, *STRING_FAMILIES} - by_operator.keys())))


def _beside(domain: str, op_type: str) -> Row:
    """An operator of which onnx has no schema: asked with the types that onnxruntime.txt allows."""
    schema = OWN.schema(domain, op_type, 1)
    answers = [answered(question(schema, types)) for types in bindings(schema)]
    return Row(domain, op_type, (1,), tuple(answer for answer in answers if not answer.refused))


@cache
def microsoft_kernels() -> Mapping[str, frozenset[DType]]:
    """The operators of com.microsoft that onnxruntime has a kernel of for CPUs, and the element types that it takes."""
    schemas_by_name = {one.name: one for one in onnxruntime_native.get_all_operator_schema() if one.domain == MICROSOFT}
    found: dict[str, frozenset[DType]] = {}
    for kernel in onnxruntime_native.get_all_opkernel_def():
        if kernel.domain == MICROSOFT and kernel.provider == "CPUExecutionProvider":
            schema = schemas_by_name[kernel.op_name]
            allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
            used = {operand.typeStr for operand in (*schema.inputs, *schema.outputs)}
            texts = {text for name in used for text in kernel.type_constraints.get(name) or allowed.get(name) or [name]}
            types = _element_types(parsed(text.removeprefix("sparse_")) for text in texts)
            found[kernel.op_name] = found.get(kernel.op_name, frozenset()) | types
    return dict(sorted(found.items()))


# --- The text
def _element_types(types: Iterable[Type]) -> set[DType]:
    return {type_.dtype for type_ in types if isinstance(type_, TensorType)}


def grouped(dtypes: set[DType]) -> str:
    """Names of whole groups, and of what is left."""
    names, left = [], set(dtypes)
    for name, members in GROUPS.items():
        if left.issuperset(members):
            names.append(name)
            left.difference_update(members)
        elif name in _WHOLE:
            names.extend(member for member in members if member in left)
            left.difference_update(members)
    assert not left, f"{left} are in no group"
    return ", ".join(names)


def how(row: Row) -> str:
    """native, or Python with the types for which it is, and the types that are computed in a wider one."""
    python = [answer for answer in row.answers if answer.python]
    wide = {d for a in row.answers if a.widened for d in _element_types(a.types) if d in ("float16", "bfloat16")}
    if len(python) == len(row.answers):
        return "Python"
    parts = ["native"]
    if python:
        others = {d for a in row.answers if not a.python for d in _element_types(a.types)}
        parts.append(
            f"Python for {grouped(_element_types(t for a in python for t in a.types) - others) or 'what is no tensor'}"
        )
    if wide:
        parts.append(f"{grouped(wide)} as float32")
    return "; ".join(parts)


def line(row: Row) -> str:
    return f"| {' | '.join((row.op_type, ' '.join(map(str, row.versions)), takes(row), how(row)))} |"


def takes(row: Row) -> str:
    """The element types that a row's operator takes, and sequences, optionals and maps."""
    types = [type_ for answer in row.answers for type_ in answer.types]
    kinds = ((SequenceType, "sequences"), (OptionalType, "optionals"), (MapType, "maps"))
    names = [grouped(_element_types(types)), *(name for kind, name in kinds if any(isinstance(type_, kind) for type_ in types))]
    return ", ".join(filter(None, names))


def microsoft_lines() -> list[str]:
    """Every operator of com.microsoft that onnxruntime has a kernel of for CPUs, or the provider."""
    own = {row.op_type: row for row in rows() if row.domain == MICROSOFT}
    kernels = microsoft_kernels()
    lines = []
    for name in sorted({*own, *kernels}):
        theirs = grouped(set(kernels[name])) if name in kernels else "no kernel"
        ours = (takes(own[name]), how(own[name])) if name in own else ("no kernel", "")
        lines.append(f"| {name} | {theirs} | {' | '.join(ours)} |")
    return lines


_HEAD = """# Operators

What `CPUExecutionProvider` runs. Made by `python -m tests.conformance.operator_table`, which asks the provider about every
operator version of onnx {version}, on every element type that its schema allows; a test compares. Versions are those in which
the operator changed: a model with any opset may have it. None is left to an operator's function body.

*native* is compiled code. *Python* is a step between two runs of it: text, sequences, maps, optionals; a classifier that is
native puts labels that are text in their places by such a step; a search calls its native body between such steps.
*as float32* is computed in that type, between Casts. Dropout in training mode is Python. Names of several types:

{groups}
"""


_MICROSOFT = """
onnxruntime {version} has kernels of {kernels} operators for CPUs; {both} of them run here. Both columns list the types of all operands.
"""


def table() -> str:
    """The whole file."""
    groups = "\n".join(f"- {name}: {', '.join(members)}" for name, members in GROUPS.items() if len(members) > 1)
    parts = [_HEAD.format(version=onnx.__version__, groups=groups)]
    for domain in dict.fromkeys(row.domain for row in rows()):
        mine = sorted((row for row in rows() if row.domain == domain), key=lambda row: row.op_type)
        head, lines = ("operator | versions | element types | runs", list(map(line, mine)))
        text = ""
        if domain == MICROSOFT:
            head, lines = "operator | onnxruntime takes | ort-lite takes | runs", microsoft_lines()
            counts = len(lines), sum("| no kernel |" not in text for text in lines)
            text = _MICROSOFT.format(version=onnxruntime.__version__, kernels=counts[0], both=counts[1])
        parts.append("\n".join([f"## {domain or 'ai.onnx'}\n{text}", f"| {head} |", "| --- | --- | --- | --- |", *lines, ""]))
    left_out = "\n".join(f"- {domain}.{name} {reason}." for (domain, name), reason in NO_ROW.items())
    parts.append(f"## Not run\n\n{left_out}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
