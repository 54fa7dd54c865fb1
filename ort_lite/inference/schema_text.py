"""Schemas as text: one line an operator version, read when a model has the operator.

    Clip-13 input:T min:T? max:T? -> output:T | T=@7
    Concat-13 inputs:T*1 -> concat_result:T | T=@12 | axis:INT! ; moves
    Loop-11 M:I? cond:B? v_initial:V*0~ -> v_final_and_scan_outputs:V*1~ | V=@3 I=int64 B=bool | body:GRAPH!

Operands are name:type, where the type is a variable or a type itself. `?` is one that may be left out, `*n` the last one, n times or
more, with `~` each of a type of its own. Behind the type of an input may stand its shape, `[N,C,H,W]`
(`ort_lite.inference.shape_templates`). Variables follow, each with the types that it may stand for, spelled as element types are
(`float32`, `seq(float32)`, `optional(seq(int8))`, `map(string,float32)`, `sparse_tensor(float32)`); then attributes, `!` those
that must be there, and what values they may have: `>=1` (each, of a list), `=LEFT/RIGHT` one of these, `=type` the number of an
element type, `=type0` that or 0.
`!` after the version: deprecated. Traits of the operator (`ort_lite.inference.traits`) stand behind `;`: `moves`, `host=1,2`.
In a file, a version without traits has those of the version before it. One without shapes has them too, for operands of the same
names. `@7 float16/float32` names a set of types, and `[ai.onnx 28]` begins the operators of a domain, sorted by name; with a number
it has all of them, up to that opset.
"""

from collections.abc import Callable, Iterable, Mapping

from ort_lite.record import Record, field

_TRAITS = " ; "


class FormalParameter(Record):
    """A formal input or output. `type` is a type variable or a type; `option` is "single", "optional" or "variadic"."""

    name: str
    type: str
    option: str = "single"
    homogeneous: bool = True
    least: int = 1
    """Of a variadic one: how many there must be."""


class Operands(Record):
    """All formal inputs, or outputs; between `least` and `most` of them may be given."""

    formal: tuple[FormalParameter, ...]
    least: int
    most: int

    @staticmethod
    def of(formal: Iterable[FormalParameter]) -> "Operands":
        """Collect the operands of a schema."""
        given = tuple(formal)
        least = most = 0
        for one in given:
            if one.option == "variadic":
                least, most = most + one.least, UNLIMITED
            else:
                most += 1
                least = most if one.option == "single" else least
        return Operands(given, least, most)

    def at(self, index: int) -> FormalParameter:
        """The one that the operand at a position is of: the last may stand for many."""
        return self.formal[min(index, len(self.formal) - 1)]


UNLIMITED = 1 << 30


class OpSchema(Record, eq=False):
    """The ONNX schema of one version of an operator: operands, type variables, attributes (name -> kind: "INT", "GRAPH", ...)."""

    domain: str
    op_type: str
    since: int
    inputs: Operands
    outputs: Operands
    types: Mapping[str, frozenset[str]]
    attributes: Mapping[str, str]
    required: tuple[str, ...]
    deprecated: bool
    limits: Mapping[str, str] = field(default_factory=dict)
    """Attribute -> what its value may be, as written in the text: ">=1", "=LEFT/RIGHT", "=type", "=type0"."""
    traits: str = ""
    """As written in the text, for `parse_traits`."""
    shapes: str = ""
    """The inputs as written in the text that states their shapes, for `parse_templates`."""

    def types_of(self, operand: FormalParameter) -> frozenset[str]:
        """Return the types that an operand may have."""
        return self.types.get(operand.type) or frozenset({operand.type})

    def __str__(self) -> str:
        return f"{self.domain}{'.' if self.domain else ''}{self.op_type}-{self.since}"


def op_schema(
    text: str, domain: str = "", types_of: Callable[[str], frozenset[str]] | None = None, shapes: str = ""
) -> OpSchema:
    """The schema that a line of text says; `types_of` knows the sets of types that it names, `shapes` is another line, which states
    those of the inputs.
    """
    shapes = (shapes or text).partition(" -> ")[0]
    text, _, traits = text.partition(_TRAITS)
    head, _, rest = text.partition(" ")
    operands, types, attributes = ([part.split() for part in rest.split(" | ")] + [[], []])[:3]
    arrow = operands.index("->")
    name, _, since = head.rstrip("!").rpartition("-")
    kinds = dict(one.split(":", 1) for one in attributes)
    limits = {}
    for key, kind in kinds.items():
        if (at := _limit_at(kind)) > 0:
            kinds[key], limits[key] = kind[:at], kind[at:]
    return OpSchema(
        domain,
        name,
        int(since),
        Operands.of(map(_operand, operands[:arrow])),
        Operands.of(map(_operand, operands[arrow + 1 :])),
        {variable: (types_of or _types)(spelled) for variable, spelled in (one.split("=") for one in types)},
        {key: kind.rstrip("!") for key, kind in kinds.items()},
        tuple(key for key, kind in kinds.items() if kind.endswith("!")),
        head.endswith("!"),
        limits,
        traits,
        shapes if "[" in shapes else "",
    )


def _limit_at(kind: str) -> int:
    """Return the position of the limit in `INTS!>=1`; -1: there is none."""
    at = kind.find("=")
    return at - 1 if kind[at - 1] == ">" else at


def _operand(text: str) -> FormalParameter:
    name, _, kind = text.partition("[")[0].partition(":")
    if kind.endswith("?"):
        return FormalParameter(name, kind[:-1], "optional")
    if "*" not in kind:
        return FormalParameter(name, kind)
    kind, _, least = kind.partition("*")
    return FormalParameter(name, kind, "variadic", not least.endswith("~"), int(least.rstrip("~")))


def _types(text: str) -> frozenset[str]:
    return frozenset(text.split("/"))


class SchemaFile:
    """The schemas of a text file, read when somebody first asks. Its mappings are filled alike by every thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines: dict[str, list[str]] | None = None
        self._sets: dict[str, str] = {}
        self._types: dict[str, frozenset[str]] = {}
        self._ready: dict[str, OpSchema] = {}
        self._complete: dict[str, int] = {}

    def versions(self, domain: str, op_type: str) -> Iterable[int]:
        """Return the versions of the operator that have a schema here."""
        return self._versions(domain, op_type).keys()

    def operators(self) -> Iterable[tuple[str, str]]:
        """All operators, by domain and name."""
        return {(domain, line.partition("-")[0]): None for domain, lines in self._read().items() for line in lines}

    def operators_with(self, trait: str, domain: str) -> Iterable[str]:
        """The operators of a domain of which a version states the trait; one with a value is spelled as in the text."""
        lines = (line.partition(_TRAITS) for line in self._read().get(domain, ()) if trait in line)
        return {schema.partition("-")[0] for schema, _, traits in lines if trait in traits.split()}

    def schema(self, domain: str, op_type: str, since: int) -> OpSchema:
        """Return the schema of a version that `versions` lists."""
        lines = self._versions(domain, op_type)
        line = lines[since]
        found = self._ready.get(domain + line)
        if found is None:
            traits = shapes = ""
            for version, text in lines.items():  # older first
                if version <= since:
                    traits = text.partition(_TRAITS)[2] or traits
                    shapes = text if "[" in text else shapes
            text = f"{line.partition(_TRAITS)[0]}{_TRAITS}{traits}"
            found = self._ready[domain + line] = op_schema(text, domain, self._types_of, shapes)
        return found

    def complete(self) -> Mapping[str, int]:
        """Domains of which it has all operators, and up to which opset."""
        self._read()
        return self._complete

    def _versions(self, domain: str, op_type: str) -> dict[int, str]:
        """The lines of an operator: they stand together, and those of a domain are sorted by operator."""
        lines, start = self._read().get(domain, ()), f"{op_type}-"
        k, end = 0, len(lines)
        while k < end:  # as bisect_left, whose module takes as long to import as 25 operators to find
            middle = (k + end) // 2
            k, end = (middle + 1, end) if lines[middle] < start else (k, middle)
        found = {}
        while k < len(lines) and lines[k].startswith(start):
            head, _, _ = lines[k].partition(" ")
            found[int(head[len(start) :].rstrip("!"))] = lines[k]
            k += 1
        return found

    def _types_of(self, text: str) -> frozenset[str]:
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = _types(self._sets.get(text, text))
        return found

    def _read(self) -> dict[str, list[str]]:
        if self._lines is not None:
            return self._lines
        with open(self.path, encoding="utf-8") as file:
            head, *sections = file.read().split("\n[")
        for line in head.splitlines():
            if line[0] == "@":
                name, _, types = line.partition(" ")
                self._sets[name] = types
        lines: dict[str, list[str]] = {}
        for section in sections:
            head, *own = section.splitlines()
            name, _, limit = head.rstrip("]").partition(" ")
            lines[domain := "" if name == "ai.onnx" else name] = own
            if limit:
                self._complete[domain] = int(limit)
        self._lines = lines
        return lines
