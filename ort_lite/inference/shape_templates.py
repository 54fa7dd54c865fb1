"""Shapes that operands have together, as schemas state them behind an operand's type.

    RoiAlign-10 X:T1[N,C,H,W] rois:T1[R,4] batch_indices:T2[R]=0..N-1 -> Y:T1 | ...

A name is one number wherever it occurs in the line, as is the name of an attribute. `group:1` is 1 where there is none.

- `4*hidden_size`, `P:0+S`, `K*bits/8` are formulas; `/` rounds up. `M%group` is M, a multiple of group. `1|B` is one of the two.
- `_` is any number, `...` any number of dims, `D...` dims that are equal wherever they occur.
- `#` is one element, of rank 0 or 1; `#...` is one of any rank.
- `[~D...]`, `[~M,N]` broadcast to these dims. Where all operands are `[~D...]`, they broadcast with each other.
- `[B,H,S,E][B,S,W]` are two forms, told apart by their rank; `[M,K]transA=1[K,M]` is the second where the attribute is 1.
- `@axis` among the dims is an attribute that is an axis, or a list of them, `S@axis:0` names the size there (0: the default), and
  `@+axis` is an axis of a result with one axis more. `H=heads` gives a name a value.
- `=0..N-1` are the limits of elements; `=axis` are axes of the first input.

`rank` is that of the first input, `directions` 2 where the attribute `direction` is "bidirectional", else 1.
"""

from functools import cache

from ort_lite.record import Record

Term = tuple[int, tuple[str, ...], tuple[str, ...]]
"""A sign, factors and divisors."""


class DimFormula(Record):
    """A sum of terms, and its text without defaults. `name` is the only factor of a formula that is nothing but a name."""

    text: str
    terms: tuple[Term, ...]
    name: str = ""


class AxisAttribute(Record):
    """An attribute that is an axis: the name of the size there, the default, and how many axes more the result has."""

    attribute: str
    size: str
    default: int | None
    more: int


class ShapeTemplate(Record):
    """One form of an operand: what its dims are, from the front and, behind a run of dims (`...`), from the end."""

    text: str
    condition: str
    """An attribute and its value, `transA=1`, where the form holds; "": it holds elsewhere."""
    rank: int
    """Without the dims of the run."""
    run: str | None
    """The name of the run, "" if it has none; None: there is no run."""
    run_at: int
    broadcast: bool
    one_element: bool
    names: tuple[tuple[int, str], ...]
    formulas: tuple[tuple[int, DimFormula], ...]
    multiples: tuple[tuple[int, DimFormula], ...]
    choices: tuple[tuple[int, tuple[DimFormula, ...]], ...]
    axes: tuple[AxisAttribute, ...]
    values: tuple[tuple[str, DimFormula], ...]


class OperandTemplate(Record):
    """The forms of an operand's shape, and the limits of its elements; None: there is no limit."""

    name: str
    forms: tuple[ShapeTemplate, ...]
    low: DimFormula | None
    high: DimFormula | None
    is_axis: bool

    @property
    def is_free(self) -> bool:
        """Return True if there is nothing to check."""
        return all(form.text == "..." for form in self.forms) and not (self.low or self.high or self.is_axis)


def parse_templates(text: str) -> dict[str, OperandTemplate]:
    """Read the operands of a schema, by name; those that state no shape are left out."""
    found = {}
    for operand in text.split():
        head, bracket, shape = operand.partition("[")
        if bracket:
            name = head.partition(":")[0]
            found[name] = _operand(name, shape)
    return found


def _operand(name: str, text: str) -> OperandTemplate:
    shapes, _, limits = text.rpartition("]")
    forms = []
    condition = ""
    for part in shapes.split("["):
        inside, _, following = part.partition("]")
        forms.append(_template(inside, condition))
        condition = following
    low, dots, high = limits.removeprefix("=").partition("..")
    return OperandTemplate(
        name,
        tuple(forms),
        _formula(low) if dots and low else None,
        _formula(high) if dots and high else None,
        limits == "=axis",
    )


def _template(text: str, condition: str) -> ShapeTemplate:
    items = text.removeprefix("~").split(",") if text else []
    dims = [item for item in items if "@" not in item and "=" not in item]
    marks = [at for at, item in enumerate(dims) if item.endswith("...")]
    run_at = marks[0] if marks else len(dims)
    rank = len(dims) - len(marks)
    places = [(at if at < run_at else at - len(dims), item) for at, item in enumerate(dims) if at not in marks and item != "_"]
    plain = [(at, item) for at, item in places if "|" not in item and item != "#"]
    formulas = [(at, _formula(item.partition("%")[0])) for at, item in plain]
    return ShapeTemplate(
        text,
        condition,
        rank,
        dims[run_at][:-3].removeprefix("#") if marks else None,
        run_at,
        text.startswith("~"),
        text in {"#", "#..."},
        tuple((at, formula.name) for at, formula in formulas if formula.name),
        tuple((at, formula) for at, formula in formulas if not formula.name),
        tuple((at, _formula(item.partition("%")[2])) for at, item in plain if "%" in item),
        tuple((at, tuple(map(_formula, item.split("|")))) for at, item in places if "|" in item),
        tuple(_axis(item) for item in items if "@" in item),
        tuple((name, _formula(value)) for name, mark, value in (item.partition("=") for item in items) if mark),
    )


def _axis(text: str) -> AxisAttribute:
    size, _, attribute = text.partition("@")
    name, _, default = attribute.lstrip("+").partition(":")
    return AxisAttribute(name, size, int(default) if default else None, int(attribute[0] == "+"))


@cache
def _formula(text: str) -> DimFormula:
    terms = []
    for part in text.replace("-", "+-").removeprefix("+").split("+"):
        factors, _, divisors = part.removeprefix("-").partition("/")
        sign = -1 if part[0] == "-" else 1
        terms.append((sign, tuple(factors.split("*")), tuple(divisors.split("*")) if divisors else ()))
    sign, factors_, divisors_ = terms[0]
    single = len(terms) == len(factors_) == sign == 1 and not divisors_ and not factors_[0].isdigit()
    shown = "".join(part if not at else part.lstrip("0123456789") for at, part in enumerate(text.split(":")))
    return DimFormula(shown, tuple(terms), factors_[0] if single else "")
