"""Placement rules: which provider is to run which nodes, as the user says it.

    session = ort_lite.InferenceSession(
        "model.onnx",
        providers=["MyExecutionProvider"],
        placement_rules=[
            place("CPUExecutionProvider", operator=("NonMaxSuppression", "TopK")),
            place("MyExecutionProvider", name="encoder.*", hard=True),
            place("CPUExecutionProvider", where=lambda node: node.output.shape == ()),
        ],
    )

A node that a rule matches is shown to the rule's providers alone, in the session's order. Where none of them takes it, a hard rule
is an error and a soft one gives way. Rules see nodes as transforms left them, bodies included; a node that was fused has the
names of its parts, joined by "+", and each is matched.
"""

from collections.abc import Callable, Collection

from ort_lite.errors import InvalidArgument
from ort_lite.graph.graph import Node
from ort_lite.record import Record


class PlacementRule(Record):
    """`matches` is asked about every node; `text` is how messages and `explain()` call the rule."""

    providers: tuple[str, ...]
    matches: Callable[[Node], bool]
    hard: bool = False
    text: str = ""

    def __str__(self) -> str:
        return f"{'hard' if self.hard else 'soft'} rule {self.text} -> {' or '.join(self.providers)}"


def place(
    *providers: str,
    name: str | None = None,
    operator: str | Collection[str] | None = None,
    domain: str | None = None,
    dtype: str | Collection[str] | None = None,
    where: Callable[[Node], bool] | None = None,
    hard: bool = False,
) -> PlacementRule:
    """Nodes for which all that is said holds go to one of the providers: names as `explain()` shows them ("Name#2" is the second
    instance; "Name" all of them).

    `name`: a pattern as of file names. `dtype`: the element type of some input or output. `where`: a predicate over the Node,
    whose values know their shapes. Raises InvalidArgument when no provider or nothing to match is given.
    """
    given = {"name": name, "operator": operator, "domain": domain, "dtype": dtype, "where": where}
    said = {key: value for key, value in given.items() if value is not None}
    if not providers or not said:
        raise InvalidArgument("place: expected a provider's name, and at least one of name, operator, domain, dtype, where")
    from fnmatch import fnmatchcase

    operators, dtypes = _several(operator), _several(dtype)

    def matches(node: Node) -> bool:
        return (
            (name is None or any(fnmatchcase(part, name) for part in (node.name, *node.name.split("+"))))
            and (operators is None or node.op_type in operators)
            and (domain is None or node.domain == domain)
            and (dtypes is None or any(v is not None and v.dtype in dtypes for v in (*node.inputs, *node.outputs)))
            and (where is None or bool(where(node)))
        )

    return PlacementRule(tuple(providers), matches, hard, ", ".join(f"{key}={_text(value)}" for key, value in said.items()))


def _several(given: str | Collection[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset([given] if isinstance(given, str) else given)


def _text(value: object) -> str:
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value) if isinstance(value, str) else "|".join(sorted(value)) if isinstance(value, Collection) else str(value)
