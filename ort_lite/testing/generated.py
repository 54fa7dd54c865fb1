"""Generated models for the kit: single operators, special numbers, small graphs, and several sizes in one session."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.graph.graph import Node
from ort_lite.graph.types import TensorType
from ort_lite.plugins import shape_rules
from ort_lite.provider.provider import GraphView
from ort_lite.record import Record
from ort_lite.testing.generator import GenerationTarget, ModelGenerator, recipes, targets
from ort_lite.testing.generator.arrays import cast, numbers
from ort_lite.testing.generator.draft import Draft, NodeDraft, Rejected
from ort_lite.testing.generator.draft_proto import model_proto
from ort_lite.testing.generator.names import describe
from ort_lite.testing.generator.pattern_models import operators_of, patterns_of
from ort_lite.testing.generator.targets import combinations, question
from ort_lite.transform.contract import Transform
from ort_lite.transform.patterns import Pattern

KINDS = ("attributes", "numbers", "graphs", "sizes")
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
NEWEST_OPSET = 1 << 20
PATTERNS, PATTERN_OPSET = 48, 18
"""Models of a pattern to choose from, and the opset of their nodes."""
ATTEMPTS = 4
"""How often a recipe is asked for a node before another one is taken."""
FOLLOWERS = ("2", "1", "21", "21", "21", "12", "22", "11", "2*", "1*", "*", "***")
"""Nodes behind the first one in a model of kind "graphs": elementwise ones of one tensor or of two, or any."""
Start = tuple[GenerationTarget, int]
"""The target and the number of a case of one operator."""
READERS = ("Add", "Max", "Min", "Mul", "Sub")
"""Operators that read an inner result of a pattern again."""
BROADCASTING = frozenset({"Add", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mul", "Pow", "Sub"})
SHARES = (0.35, 1.0, 0.0)
"""Shares of constants among operands, model by model: providers may take an operator with constants alone, or without."""

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38, -3e38, 1.0, -1.0, 0.5)
DENORMALS = (1e-40, -1e-40)
LARGE = (80.0, 90.0, 100.0, -1000.0, 0.0, 1000.0, -np.inf, 1.0)
_KEEP_DENORMALS_NAMES = "Abs Add Erf Exp HardSigmoid HardSwish LeakyRelu Neg Relu Sigmoid Softplus Tanh"
KEEP_DENORMALS = frozenset(_KEEP_DENORMALS_NAMES.split())
"""Their results are the same, within tolerances, on devices that take denormals for 0. Mul's are not: of 1e-40 and 3e38."""
PERIODIC = frozenset({"Cos", "Sin", "Tan"})
"""Beyond a few periods their results depend on the device."""
_ELEMENTWISE_NAMES = (
    "Acos Acosh Asin Asinh Atan Atanh Ceil Celu Clip Cosh Div Elu Equal Floor Gelu Greater GreaterOrEqual Identity IsInf"
    " IsNaN Less LessOrEqual Log Max Min Mish Mul Reciprocal Round Selu Shrink Sign Sinh Softsign Sqrt Sub"
    " ThresholdedRelu"
)
ELEMENTWISE = frozenset((*KEEP_DENORMALS, *PERIODIC, *_ELEMENTWISE_NAMES.split()))
ALONG_AXES = frozenset({"LogSoftmax", "Softmax"})
ROLES = {"1": ELEMENTWISE - BROADCASTING - {"Clip"}, "2": BROADCASTING}


class GeneratedCase(Record, eq=False):
    """A model with the inputs of its runs in one session. Sizes that differ between runs are open."""

    name: str
    kind: str
    model: Any
    """A ModelProto."""
    feeds: tuple[Mapping[str, Array], ...]
    constants: Mapping[str, Array]

    @property
    def nodes(self) -> Sequence[Any]:
        """Return the NodeProtos of the model's main graph, in order."""
        return list(self.model.graph.node)

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the operator types of the nodes, each once, in order."""
        return tuple(dict.fromkeys(node.op_type for node in self.nodes))

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the numbers of nodes, attributes and elements. The smaller of two failures is easier to understand."""
        arrays = [*self.constants.values(), *(array for feed in self.feeds for array in feed.values())]
        return len(self.nodes), sum(len(node.attribute) for node in self.nodes), sum(array.size for array in arrays)


class Cases:
    """Generates cases. Each depends only on its kind, target and number, and is created once for all providers."""

    def __init__(self) -> None:
        self._generator = ModelGenerator(shape_rules(), (), recipes(), oldest=1)
        self._drawn: dict[tuple[Any, ...], GeneratedCase | None] = {}

    @property
    def operators(self) -> tuple[tuple[str, str], ...]:
        """Return the operators with recipes, as (domain, name), except those that draw random numbers."""
        return tuple(one for one in self._generator.recipes if one[1] not in RANDOM)

    def targets(self, domain: str, op_type: str) -> list[GenerationTarget]:
        """Return all versions and types of an operator: first each version with the usual types, the newest first."""
        found = list(targets(self._generator.rules.schemas, [(domain, op_type)], lambda node: True))
        first = {one.since: one for one in reversed(found)}  # that of each version has the usual types
        return sorted(found, key=lambda one: (one is not first[one.since], -one.since))

    def usual(self, domain: str, op_type: str) -> list[GenerationTarget]:
        """Return the versions of an operator with the usual types."""
        found = self.targets(domain, op_type)
        return found[: len({one.since for one in found})]

    def alone(self, kind: str, target: GenerationTarget, number: int) -> GeneratedCase | None:
        """Return a model of one node with feeds and initializers, or None if its recipe fails."""
        return self._once(self._alone, kind, (target, number))

    def company(self, start: Start, number: int, others: tuple[GenerationTarget, ...]) -> GeneratedCase | None:
        """Return a model with the node of a single-operator case and nodes of `others`, most of which read the last result."""
        return self._once(self._company, start, number, others)

    def of_patterns(
        self, transforms: Iterable[Transform], readers: Sequence[str] = ()
    ) -> Iterator[Iterator[GeneratedCase | None]]:
        """Return models of the nodes that each pattern of the transforms matches, None for those whose recipes fail.

        In some of them an inner result is an output too, or is read by one of `readers`, which are elementwise operators of two
        tensors.
        """
        for name, several in patterns_of(transforms, of_provider=True).items():
            for k, pattern in enumerate(several):
                given = f"{name}/{k}", pattern, tuple(readers)
                yield (self._once(self._of_pattern, *given, number) for number in range(PATTERNS))

    def view(self, domain: str, op_type: str) -> GraphView:
        """Return a view of one node of the newest version with the usual types and no known shapes."""
        schema = self._generator.rules.schemas.find(Node(op_type, [], [], domain=domain, version=NEWEST_OPSET))
        assert schema is not None, op_type
        node = question(schema, next(iter(combinations(schema))))
        assert node.graph is not None
        return GraphView(node.graph, rules=self._generator.rules)

    # --- helpers
    def _once(self, make: Callable[..., GeneratedCase | None], *given: Any) -> GeneratedCase | None:
        """Return the case that `make` gives for these arguments. It is made on the first call."""
        key = make.__name__, *given
        if key not in self._drawn:
            self._drawn[key] = make(*given)
        return self._drawn[key]

    def _draft(self, kind: str, start: Start) -> Draft | None:
        """Return a draft of one node with feeds and initializers. The same arguments give the same draft."""
        target, number = start
        rng = Random(f"{kind}/{target}/{number}")
        draft = Draft(self._generator.opsets(target, rng), rng, self._generator.rules)
        draft.constant_share, draft.plain = SHARES[number % len(SHARES)], True
        if kind == "numbers":
            draft.contents = special_numbers(target.op_type)
        return draft if self._append(draft, target, rng, {}) else None

    def _alone(self, kind: str, start: Start) -> GeneratedCase | None:
        draft = self._draft(kind, start)
        if draft is None:
            return None
        if kind == "numbers" and max((array.size for array in draft.feeds.values()), default=0) < len(SPECIAL):
            return None
        draft.outputs = draft.leaves()
        return _case(kind, draft, " of special numbers" * (kind == "numbers"))

    def _company(self, start: Start, number: int, others: Sequence[GenerationTarget]) -> GeneratedCase | None:
        draft = self._draft("attributes", start)
        if draft is None or (number % 4 and _is_thin(draft)):
            return None  # few of the first results
        draft.plain = False
        target = start[0]
        words = repr(start).replace(type(target).__name__, "Target", 1)  # a class that is renamed would draw other models
        rng = Random(f"graphs/{words}/{number}")
        alive = defaultdict(list)
        for one in others:
            if one.since <= draft.opsets.get(one.domain, 0) < one.until and _akin(one, target):
                alive[one.op_type].append(one)
        for role in FOLLOWERS[number % len(FOLLOWERS)]:
            fitting = [op_type for op_type in alive if op_type in ROLES.get(role, alive)] or list(alive)
            if fitting:
                follower = rng.choice(alive[rng.choice(fitting)])
                last = [name for node in draft.nodes[-2:] for name in node.outputs if name][-2:]
                self._append(draft, follower, rng, self._operands(draft, follower, rng.choice([*last, *last[-1:] * 3]), rng))
        leaves = draft.leaves()
        draft.outputs = [
            name for node in draft.nodes for name in node.outputs if name in leaves or (name and rng.random() < 0.2)
        ]
        return _case("graphs", draft)

    def _of_pattern(self, name: str, pattern: Pattern, readers: tuple[str, ...], number: int) -> GeneratedCase | None:
        operators = operators_of(pattern)
        usual = [target for one in self.operators if one[1] in operators for target in self.usual(*one)]
        generator = ModelGenerator(self._generator.rules, usual, self._generator.recipes, oldest=1)
        rng = Random(f"{name}/{number}")
        draft = Draft({"": PATTERN_OPSET, "com.microsoft": 1}, rng, generator.rules)
        draft.constants_only, draft.plain = number % 3 != 2, True
        added = generator.add_pattern(draft, pattern, rng, []) and not any(map(_cuts, draft.nodes))
        if not added or (number % 4 != 3 and _is_thin(draft)):
            return None
        inner = [name for node in draft.nodes[:-1] for name in node.outputs if name]
        if number % 4 == 1 and inner and readers:
            self._read_again(draft, rng.choice(inner), rng.choice(readers))
        draft.outputs = [*draft.leaves(), *(inner if number % 4 == 2 else ())]
        return _case("graphs", draft)

    def _read_again(self, draft: Draft, name: str, reader: str) -> None:
        """Append a node that reads the last result and another one, if possible."""
        with suppress(Rejected):
            draft.append(reader, [draft.leaves()[0], name])

    def _operands(self, draft: Draft, follower: GenerationTarget, name: str, rng: Random) -> Mapping[int, str]:
        """Return a value to read and, for operators of two tensors that broadcast, another one on either side."""
        known = draft.lookup(name)
        if follower.op_type not in BROADCASTING or known.shape is None or not isinstance(known.type, TensorType):
            return {0: name}
        alike = [one.name for one in draft.values.values() if one.type == known.type]
        other = rng.choice(alike)
        if rng.random() < 0.6:
            array = numbers(rng, _broadcast(known.shape, rng), known.type.dtype)
            other = (draft.feed(array) if rng.random() < 0.5 else draft.constant(array)).name
        return {0: name, 1: other} if rng.random() < 0.6 else {0: other, 1: name}

    def _append(self, draft: Draft, target: GenerationTarget, rng: Random, operands: Mapping[int, str]) -> bool:
        """Append a node of the target with these operands, or with operands that its recipe draws, if possible."""
        for attempt in range(ATTEMPTS):
            mark = draft.mark()
            try:
                self._generator.propose(draft, target, rng, [], operands if attempt < ATTEMPTS - 1 else {})
            except Rejected:
                draft.reset(mark)
                continue
            if not _cuts(draft.nodes[-1]):
                return True
            draft.reset(mark)
        return False


def _is_thin(draft: Draft) -> bool:
    """Return True if the first result is empty or has an axis of one element, which hides many errors."""
    return min(draft.lookup(draft.leaves()[0]).shape or (2,)) < 2


def _cuts(node: NodeDraft) -> bool:
    """Return True if a window has negative pads, which ONNX forbids and the CPU provider allows."""
    return node.op_type != "Pad" and any(size < 0 for size in node.attributes.get("pads") or ())


def _broadcast(shape: Sequence[int], rng: Random) -> tuple[int, ...]:
    """Return the shape of another operand: the same shape, a channel, a row, a scalar or a wider one."""
    channel = (*shape[1:2], *[1] * (len(shape) - 2)) if len(shape) > 2 else tuple(shape[-1:])
    same, row = tuple(shape), tuple(shape[-1:])
    return rng.choice([same, same, same, same, channel, row, row, row, (), (2, *shape)])


def _akin(target: GenerationTarget, other: GenerationTarget) -> bool:
    """Return True if two targets share an element type."""
    return not {kind for _, kind in target.types}.isdisjoint(kind for _, kind in other.types)


def special_numbers(op_type: str) -> Any:
    """Return contents for operands whose results are the same on all devices."""
    special: tuple[float, ...] = LARGE if op_type in ALONG_AXES else SPECIAL
    if op_type in PERIODIC:
        special = tuple(x for x in special if not 100 < abs(x) < np.inf)
    if op_type in KEEP_DENORMALS:
        special += DENORMALS

    def contents(rng: Random, shape: Sequence[int], dtype: str) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        found = [x for _ in range(count // len(special) + 1) for x in rng.sample(special, len(special))]
        return cast(np.array(found[:count]).reshape(shape), dtype)

    return contents


def _case(kind: str, draft: Draft, note: str = "") -> GeneratedCase | None:
    """Return the draft as a case, or None if an input or output is not a tensor."""
    if not draft.feeds or any(not isinstance(array, np.ndarray) for array in draft.feeds.values()):
        return None
    if not all(isinstance(draft.lookup(name).type, TensorType) for name in draft.outputs):
        return None
    model = model_proto(draft, draft.rng, "fixed")
    return GeneratedCase(describe(draft) + note, kind, model, (dict(draft.feeds),), dict(draft.constants))
