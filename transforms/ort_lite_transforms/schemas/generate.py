"""Writes `onnx.txt` from the installed onnx: `python -m ort_lite_transforms.schemas.generate`.

Needed when onnx brings a new opset. `ort_lite.inference.schema_text` says what a line means. Traits and the shapes of inputs are
written by hand, in the lines of the file, which keep them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from onnx import defs

from ort_lite.dtypes import from_ort_name
from ort_lite_transforms.schemas.limits import limit

FILE = Path(__file__).with_name("onnx.txt")
HEAD = "# Made from the schemas of package onnx, but for traits and shapes: python -m ort_lite_transforms.schemas.generate"
COMPLETE = ("", "ai.onnx.ml")
"""Domains in which an operator that onnx does not know is a mistake; the others are open."""
_SHARED = 24  # characters from which a set of types gets a number

_Option = defs.OpSchema.FormalParameterOption


def table(schemas: Iterable[defs.OpSchema], text: str) -> str:
    """The text of the file for the schemas: sets of types, then a section for each domain. Lines of `text` keep traits and shapes."""
    written = _parse_lines(text)
    ordered = sorted(schemas, key=lambda schema: (schema.domain, schema.name, schema.since_version))
    sets = {one for schema in ordered for one in map(_types, schema.type_constraints) if len(one) >= _SHARED}
    numbers = {one: f"@{number}" for number, one in enumerate(sorted(sets))}
    lines = [HEAD, *(f"{number} {one}" for one, number in numbers.items())]
    for domain in dict.fromkeys(schema.domain for schema in ordered):
        own = [schema for schema in ordered if schema.domain == domain]
        limit = f" {max(schema.since_version for schema in own)}" if domain in COMPLETE else ""
        lines.append(f"[{domain or 'ai.onnx'}{limit}]")
        for schema in own:
            shapes, traits = written.get((domain, f"{schema.name}-{schema.since_version}"), ({}, ""))
            lines.append(line(schema, numbers, shapes) + traits)
    return "\n".join(lines) + "\n"


def line(schema: defs.OpSchema, numbers: dict[str, str], shapes: Mapping[str, str]) -> str:
    """`Clip-13 input:T[...] min:T?[#] max:T?[#] -> output:T | T=@7`."""
    inputs = " ".join(one + shapes.get(one.partition(":")[0], "") for one in _operands(schema.inputs))
    outputs = " ".join(_operands(schema.outputs))
    types = " ".join(f"{one.type_param_str}={numbers.get(_types(one), _types(one))}" for one in schema.type_constraints)
    attributes = " ".join(
        f"{name}:{_attribute_kind(attribute)}{'!' * attribute.required}{limit(schema.name, name, _attribute_kind(attribute))}"
        for name, attribute in sorted(schema.attributes.items())
    )
    parts = [f"{inputs} -> {outputs}".strip(), types, attributes]
    while not parts[-1]:
        parts.pop()
    return f"{schema.name}-{schema.since_version}{'!' * schema.deprecated} {' | '.join(parts)}"


def _parse_lines(text: str) -> dict[tuple[str, str], tuple[dict[str, str], str]]:
    """Return what people wrote into the lines of a file, by domain and version, ("", "Clip-13"): shapes by input, and traits with
    their bar.
    """
    found = {}
    for section in text.split("\n[")[1:]:
        head, *lines = section.splitlines()
        name = head.rstrip("]").partition(" ")[0]
        for schema, bar, traits in (one.partition(" ; ") for one in lines):
            version, _, rest = schema.partition(" ")
            operands = (operand.partition("[") for operand in rest.partition("-> ")[0].split())
            shapes = {operand.partition(":")[0]: bracket + shape for operand, bracket, shape in operands if bracket}
            found["" if name == "ai.onnx" else name, version.rstrip("!")] = shapes, bar + traits
    return found


def _operands(parameters: Sequence[defs.OpSchema.FormalParameter]) -> Iterator[str]:
    for one in parameters:
        mark = "?" if one.option == _Option.Optional else ""
        if one.option == _Option.Variadic:
            mark = f"*{one.min_arity}" + "~" * (not one.is_homogeneous)
        yield f"{one.name}:{_kind(one.type_str)}{mark}"


def _attribute_kind(attribute: defs.OpSchema.Attribute) -> str:
    return str(attribute.type).rpartition(".")[2]


def _types(constraint: defs.OpSchema.TypeConstraintParam) -> str:
    return "/".join(sorted(map(_kind, constraint.allowed_type_strs)))


def _kind(text: str) -> str:
    """`seq(tensor(float))` -> `seq(float32)`, `map(int64, double)` -> `map(int64,float64)`; names of variables stay."""
    text = text.replace(" ", "")
    if text.startswith("map("):
        key, value = text[4:-1].split(",")
        return f"map({key},{from_ort_name(value)})"
    if text.startswith("seq(map("):
        return f"seq({_kind(text[4:-1])})"
    return re.sub(r"tensor\(\w+\)", lambda found: from_ort_name(found[0]), text)


if __name__ == "__main__":
    FILE.write_text(table(defs.get_all_schemas_with_history(), FILE.read_text(encoding="utf-8")), encoding="utf-8")
