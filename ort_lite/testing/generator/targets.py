"""Targets of generated models: an operator version with an element type for each type variable."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ort_lite.dtypes import BITS, itemsize
from ort_lite.graph.graph import Graph, Node, Value
from ort_lite.inference.schema import Schemas
from ort_lite.inference.schema_text import OpSchema
from ort_lite.record import Record
from ort_lite.testing.generator.draft import type_of

NEWEST = 1 << 30
USUAL = ("float32", "int64")
"""The kinds of a type variable while another one varies, where the schema allows it."""


class GenerationTarget(Record):
    """An operator version. `types` binds each type variable of its schema to a kind, such as ("T", "float32")."""

    domain: str
    op_type: str
    since: int
    types: tuple[tuple[str, str], ...] = ()
    until: int = NEWEST
    """The first opset with a newer version of the operator."""

    @property
    def operator(self) -> str:
        """Return the operator with its domain unless that is the default one, such as "com.microsoft.Gelu"."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    def __str__(self) -> str:
        return f"{self.operator}-{self.since} {', '.join(f'{variable}={kind}' for variable, kind in self.types)}".rstrip()


def targets(
    schemas: Schemas, operators: Iterable[tuple[str, str]], claims: Callable[[Node], bool]
) -> Iterator[GenerationTarget]:
    """Yield the combinations of the operators (domain, name) that a provider `claims`.

    The types of one variable vary while the others have a usual one. Deprecated versions are left out, and operators on sparse
    tensors, which no node here makes.
    """
    for domain, op_type in operators:
        versions = schemas.versions(Node(op_type, [], [], domain=domain, version=1))
        for since, until in zip(versions, [*versions[1:], NEWEST], strict=True):
            schema = schemas.find(Node(op_type, [], [], domain=domain, version=since))
            if schema is None or schema.deprecated or _is_sparse(schema):
                continue
            for types in combinations(schema):
                if claims(question(schema, types)):
                    yield GenerationTarget(domain, op_type, since, tuple(sorted(types.items())), until)


def _is_sparse(schema: OpSchema) -> bool:
    return any(kind.startswith("sparse_tensor(") for kinds in schema.types.values() for kind in kinds)


def combinations(schema: OpSchema) -> Iterator[Mapping[str, str]]:
    """Yield bindings of a schema's type variables: all to usual types, then each to each of its other types.

    A variable that follows another one (`FOLLOWS`) has the type that fits, and the two of BitCast have the same width.
    """
    if schema.op_type == "BitCast":
        yield from _of_one_width(schema)
        return
    follower, leader, function = FOLLOWS.get((schema.domain, schema.op_type), ("", "", str))
    free = {name: kinds for name, kinds in schema.types.items() if name != follower}
    usual = {name: next((one for one in USUAL if one in kinds), min(kinds)) for name, kinds in free.items()}
    for types in (
        usual,
        *({**usual, name: kind} for name in sorted(free) for kind in sorted(free[name]) if kind != usual[name]),
    ):
        if not follower:
            yield types
        elif (kind := function(types[leader])) in schema.types[follower]:
            yield {**types, follower: kind}


def _of_one_width(schema: OpSchema) -> Iterator[Mapping[str, str]]:
    """Pair each type with another one of its width, so that both variables have each type once."""
    widths: dict[int, list[str]] = {}
    for kind in sorted(schema.types["T1"]):
        widths.setdefault(width(kind), []).append(kind)
    for kinds in widths.values():
        for source, target in zip(kinds, [*kinds[1:], kinds[0]], strict=True):
            yield {"T1": source, "T2": target}


def width(dtype: str) -> int:
    """Return the number of bits of an element."""
    return BITS.get(dtype, 8 * itemsize(dtype))


def _sequence(kind: str) -> str:
    return f"seq({kind})"


def _optional(kind: str) -> str:
    return f"optional({kind})"


def _element(kind: str) -> str:
    return kind.removeprefix("optional(")[:-1] if kind.startswith("optional(") else kind


FOLLOWS: Mapping[tuple[str, str], tuple[str, str, Callable[[str], str]]] = {
    **{
        ("", op_type): ("S", "T", _sequence)
        for op_type in ("SequenceConstruct", "SequenceInsert", "SequenceAt", "SplitToSequence", "ConcatFromSequence")
    },
    ("com.microsoft", "GridSample"): ("T2", "T1", str),
    ("com.microsoft", "MatMulInteger16"): ("T3", "T1", lambda kind: kind.replace("16", "32")),
    ("", "Optional"): ("O", "V", _optional),
    ("", "OptionalGetElement"): ("V", "O", _element),
}
"""Operators with a type variable that follows from another one, and how."""


def question(schema: OpSchema, types: Mapping[str, str]) -> Node:
    """Return a node with all inputs and outputs and no known shapes, to ask a provider about."""
    inputs = [Value(one.name, type_of(types.get(one.type, one.type))) for one in schema.inputs.formal]
    outputs = [Value(f"{one.name} out", type_of(types.get(one.type, one.type))) for one in schema.outputs.formal]
    node = Node(schema.op_type, inputs, outputs, domain=schema.domain, version=schema.since, name="node")
    graph = Graph("question")
    graph.append(node)
    graph.set_outputs(value for value in node.outputs if value is not None)
    return node
