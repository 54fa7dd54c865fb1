"""The check of a node's operands against the shapes that its schema states, at load and where a provider lowers the node.

Dims that are open fit everywhere at load. A provider gives `require`, and gets a condition for each pair of dims that are not known
to be equal: what is known costs a run nothing.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from ort_lite.graph.graph import Node
from ort_lite.inference.shape_rules import Info
from ort_lite.inference.shape_templates import AxisAttribute, DimFormula, OperandTemplate, ShapeTemplate
from ort_lite.record import Record
from ort_lite.shapes.dims import Shape, ceildiv, equal, less, product, select
from ort_lite.shapes.expr import Dim, modulo


class Require(Protocol):
    """Adds a condition on sizes that a run must meet; {0}, {1}, ... in the message stand for the numbers."""

    def __call__(self, condition: Dim, message: str, *numbers: Dim) -> None: ...


Refuse = Callable[[str], Exception]
_Size = tuple[Dim, str]
"""A number, and where it is from, for messages."""


def check_operands(
    node: Node,
    templates: Sequence[OperandTemplate | None],
    operands: Sequence[Info | None],
    refuse: Refuse,
    require: Require | None = None,
) -> None:
    """Raises `refuse(message)` for operands that do not fit the templates, of which the last one may stand for many.

    `require` is called for what only a run tells; without it, that fits.
    """
    if templates:
        _Agreement(node, operands, refuse, require).check(templates)


class _Operand(Record):
    """An operand whose shape is known, with the template and the form of it that the shape has."""

    index: int
    name: str
    template: OperandTemplate
    form: ShapeTemplate
    shape: Shape

    def __str__(self) -> str:
        return f"input {self.index} ({self.template.name}, {_escape(repr(self.name))})"

    def axis(self, at: int) -> str:
        """Return words for a dimension, by its place from the front or the end."""
        return f"dimension {at % len(self.shape)} of {self}"


class _Agreement:
    """The sizes that names and runs are bound to so far."""

    def __init__(self, node: Node, operands: Sequence[Info | None], refuse: Refuse, require: Require | None) -> None:
        self.node, self.operands, self.refuse, self.require = node, operands, refuse, require
        self.sizes: dict[str, _Size] = {}
        self.open: set[str] = set()
        """Names of dimensions that only a run tells, so that their defaults do not hold."""
        self.runs: dict[str, tuple[Shape, str]] = {}

    def check(self, templates: Sequence[OperandTemplate | None]) -> list[_Operand]:
        """Bind names first, then look at what is made of them. Returns the operands that have templates and known shapes."""
        last, found = len(templates) - 1, []
        for index, operand in enumerate(self.operands):
            template, value = templates[min(index, last)], self.node.inputs[index]
            if template is None or value is None:
                continue
            if operand is None or operand.shape is None:
                self.open.update(name for form in template.forms for _, name in form.names)
                continue
            form = self._form(index, value.name, template, operand.shape)
            found.append(_Operand(index, value.name, template, form, operand.shape))
        for one in found:
            self._bind(one)
        for one in found:
            if not one.form.broadcast:
                self._check_sizes(one)
        for one in found:
            if one.form.broadcast:
                self._check_broadcast(one)
            if one.template.low or one.template.high or one.template.is_axis:
                self._check_elements(one)
        return found

    def _check_sizes(self, one: _Operand) -> None:
        for at, formula in one.form.formulas:
            self._check_formula(one, at, formula)
        for at, divisor in one.form.multiples:
            self._check_multiple(one, at, divisor.text, self._value(divisor))
        for at, formulas in one.form.choices:
            self._check_choice(one, at, formulas)

    def _state(self, condition: Dim, message: str, *numbers: Dim) -> None:
        """Refuse what does not hold, and require what is open."""
        if isinstance(condition, int):
            if not condition:
                raise self.refuse(message.format(*numbers))
        elif self.require is not None:
            self.require(condition, message, *numbers)

    def _is_settled(self, condition: Dim) -> bool:
        """Return True if nothing is to be stated, so that no message need be made."""
        return condition != 0 if isinstance(condition, int) else self.require is None

    # --- forms
    def _form(self, index: int, name: str, template: OperandTemplate, shape: Shape) -> ShapeTemplate:
        """Return the form that the attributes and the rank choose."""
        forms = [form for form in template.forms if form.condition and self._holds(form.condition)]
        forms = forms or [form for form in template.forms if not form.condition]
        rank = len(shape)
        for form in forms:
            if form.broadcast or rank == form.rank or (form.run is not None and rank > form.rank):
                return form
            if form.one_element and not rank:
                return form
        who = f"input {index} ({template.name}, {name!r})"
        if forms[0].one_element:
            raise self.refuse(f"{who} has shape {_text(shape)}, rank {rank}; it should be one element")
        ranks = " or ".join(f"{form.rank}{' or more' * (form.run is not None)}" for form in forms)
        raise self.refuse(f"{who} has rank {rank}; it should have {ranks}, {' or '.join(f'[{form.text}]' for form in forms)}")

    def _holds(self, condition: str) -> bool:
        name, _, value = condition.partition("=")
        return bool(self.node.attr(name) == int(value))

    def _bind(self, one: _Operand) -> None:
        """Bind names to sizes, or compare these with what the names are bound to."""
        form, shape = one.form, one.shape
        for axis in form.axes:
            self._bind_axis(one, axis)
        for name, formula in form.values:
            value = self._value(formula)
            if value is not None:
                self.sizes.setdefault(name, (value[0], f" by the attribute {formula.text}"))
        if form.broadcast:
            return
        if form.one_element and shape and not self._is_settled(equal(product(shape), 1)):
            self._state(equal(product(shape), 1), f"{one} has {{0}} elements; it should be one element", product(shape))
        for at, name in form.names:
            self._bind_name(one, at, name)
        if form.run:
            end = len(shape) - (form.rank - form.run_at)
            self._bind_run(one, form.run, shape[form.run_at : end])

    def _bind_name(self, one: _Operand, at: int, name: str) -> None:
        dim, known = one.shape[at], self.sizes.get(name) or self._attribute(name)
        if known is not None:
            self._compare(one, at, known, name)
            if isinstance(known[0], int) or not isinstance(dim, int):
                return  # a number tells more than an expression
        if self.require is not None or isinstance(dim, int):
            self.sizes[name] = dim, f", {one.axis(at)}"
        else:
            self.open.add(name)

    def _bind_axis(self, one: _Operand, axis: AxisAttribute) -> None:
        given = self.node.attr(axis.attribute, axis.default)
        for value in given if isinstance(given, list | tuple) else () if given is None else (given,):
            at = self._axis(value, len(one.shape) + axis.more, axis.attribute if value is given else "axis")
            if axis.size and isinstance(given, int):
                self._bind_name(one, at, axis.size)

    def _axis(self, value: int, rank: int, name: str = "axis") -> int:
        if not -rank <= value < max(rank, 1):
            raise self.refuse(f"{name} {value} is out of range [{-rank}, {rank})")
        return value + rank if value < 0 else value

    def _bind_run(self, one: _Operand, run: str, dims: Shape) -> None:
        known = self.runs.get(run)
        if known is None:
            self.runs[run] = dims, str(one)
            return
        others, origin = known
        if len(dims) != len(others):
            raise self.refuse(f"{one} has shape {_text(one.shape)}; it should have {_text(others)} as {origin} has")
        for at, other in enumerate(others, one.form.run_at):
            self._compare(one, at, (other, f" in {origin}"), "it")

    # --- sizes
    def _compare(self, one: _Operand, at: int, known: _Size, text: str) -> None:
        """State that a dim is the number that `text` stands for."""
        dim, (size, origin) = one.shape[at], known
        if dim == size:
            return
        condition = equal(dim, size)
        if not self._is_settled(condition):
            but = f"but {text} is {{1}}{origin}" if origin else "it should be {1}"
            self._state(condition, f"{one.axis(at)} is {{0}}, {but}", dim, size)

    def _attribute(self, name: str) -> _Size | None:
        """Return the value of an attribute, or of a word that stands for one; None: there is none."""
        if name == "rank":
            first = self.operands[0]
            return None if first is None or first.shape is None else (len(first.shape), " by the rank of input 0")
        if name == "directions":
            return 1 + (self.node.attr("direction") == "bidirectional"), " by the attribute direction"
        name, _, default = name.partition(":")
        given = self.node.attr(name, int(default) if default else None)
        return (given, " by the attribute") if isinstance(given, int) else None

    def _number(self, factor: str) -> _Size | None:
        if factor.isdigit():
            return int(factor), ""
        name = factor.partition(":")[0]
        return self.sizes.get(name) or (None if name in self.open else self._attribute(factor))

    def _value(self, formula: DimFormula) -> _Size | None:
        """Return the sum of the terms; its origin is that of the last factor. None: a name has no value yet."""
        total: Dim = 0
        origin = ""
        for sign, factors, divisors in formula.terms:
            known, below = [self._number(one) for one in factors], [self._number(one) for one in divisors]
            top, bottom = [one for one in known if one is not None], [one for one in below if one is not None]
            if len(top) < len(known) or len(bottom) < len(below):
                return None
            number, divisor = product(size for size, _ in top), product(size for size, _ in bottom)
            total += sign * (ceildiv(number, divisor) if divisors else number)
            origin = next((text for _, text in reversed(top) if text), origin)
        return total, origin

    def _check_formula(self, one: _Operand, at: int, formula: DimFormula) -> None:
        value = self._value(formula)
        if value is not None:
            self._compare(one, at, value, formula.text)
        elif len(formula.terms) == 1 and (self.require is not None or isinstance(one.shape[at], int)):
            self._solve(one, at, formula)

    def _solve(self, one: _Operand, at: int, formula: DimFormula) -> None:
        """Bind the only factor of a product that has no value yet: the dim is a multiple of the others."""
        [(_, factors, divisors)] = formula.terms
        unknown = [factor for factor in factors if self._number(factor) is None]
        if divisors or len(unknown) != 1:
            return
        known = [(factor, size) for factor in factors if (size := self._number(factor)) is not None]
        divisor, origin = product(size for _, (size, _) in known), next((text for _, (_, text) in known if text), "")
        if divisor != 0:
            self._check_multiple(one, at, "*".join(factor.partition(":")[0] for factor, _ in known), (divisor, origin))
            self.sizes[unknown[0]] = one.shape[at] // divisor, f" by {one.axis(at)}"

    def _check_multiple(self, one: _Operand, at: int, text: str, divisor: _Size | None) -> None:
        if divisor is None or divisor[0] == 0:
            return
        dim, (number, origin) = one.shape[at], divisor
        condition = equal(modulo(dim, number), 0)
        if not self._is_settled(condition):
            self._state(condition, f"{one.axis(at)} is {{0}}, no multiple of {text}, which is {{1}}{origin}", dim, number)

    def _check_choice(self, one: _Operand, at: int, formulas: Sequence[DimFormula]) -> None:
        values = [self._value(formula) for formula in formulas]
        sizes, dim = [value[0] for value in values if value is not None], one.shape[at]
        if len(sizes) < len(values) or dim in sizes:
            return
        condition: Dim = 0
        for size in sizes:
            condition = select(equal(dim, size), 1, condition)
        if not self._is_settled(condition):
            expected = " or ".join(f"{{{k}}}" for k in range(1, len(sizes) + 1))
            self._state(condition, f"{one.axis(at)} is {{0}}; it should be {expected}", dim, *sizes)

    def _check_broadcast(self, one: _Operand) -> None:
        """State that each dim, from the last one, is 1 or the one that it is broadcast to."""
        form, shape = one.form, one.shape
        dims, origin = self.runs.get(form.run, (None, "")) if form.run else (self._expected_dims(form), "")
        if dims is None:
            return
        if len(shape) > len(dims):
            raise self.refuse(
                f"{one} has shape {_text(shape)}, rank {len(shape)}; it should broadcast to {_text(dims)}{origin and ' of '}{origin}"
            )
        for at, full in enumerate(dims[len(dims) - len(shape) :]):
            dim = shape[at]
            if full is None or dim == full or dim == 1:
                continue
            condition = select(equal(dim, 1), 1, equal(dim, full))
            if not self._is_settled(condition):
                self._state(
                    condition, f"{one.axis(at)} is {{0}}; it should broadcast to {{1}}{origin and ' of '}{origin}", dim, full
                )

    def _expected_dims(self, form: ShapeTemplate) -> list[Dim | None]:
        dims: list[Dim | None] = [None] * form.rank
        for at, name in form.names:
            known = self.sizes.get(name) or self._attribute(name)
            dims[at] = None if known is None else known[0]
        for at, formula in form.formulas:
            value = self._value(formula)
            dims[at] = None if value is None else value[0]
        return dims

    # --- elements
    def _check_elements(self, one: _Operand) -> None:
        """State that the elements that are known lie within their limits."""
        elements = self._elements(one.index)
        if one.template.is_axis:
            first = self.operands[0]
            for element in elements:
                if first is not None and first.shape is not None and isinstance(element, int):
                    self._axis(element, len(first.shape))
            return
        low = self._value(one.template.low) if one.template.low else None
        high = self._value(one.template.high) if one.template.high else None
        least, most = low and low[0], high and high[0]
        for element in elements:
            above: Dim = 1 if least is None else 1 - less(element, least)
            below: Dim = 1 if most is None else 1 - less(most, element)
            if self._is_settled(above) and self._is_settled(below):
                continue
            limits = [(least, "{1} or more"), (most, "{2} or less")]
            expected = (
                "from {1} to {2}" if None not in (least, most) else next(text for limit, text in limits if limit is not None)
            )
            message = f"{one} has the element {{0}}; it should be {expected}"
            self._state(above * below, message, element, 0 if least is None else least, 0 if most is None else most)

    def _elements(self, index: int) -> Sequence[Dim]:
        """Return the elements that are known; of a large constant, the least and the greatest one."""
        operand = self.operands[index]
        if operand is None:
            return ()
        array = operand.constant
        if operand.contents is not None:
            return operand.contents
        return (int(array.min()), int(array.max())) if array is not None and array.size and array.dtype.kind in "iu" else ()


def _text(shape: Sequence[Dim | None]) -> str:
    return f"[{', '.join('_' if dim is None else str(dim) for dim in shape)}]"


def _escape(text: str) -> str:
    """Return text that `str.format` gives back as it was."""
    return text.replace("{", "{{").replace("}", "}}")
