"""The generator of models, which favors what earlier models do not cover."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import Any

from ort_lite.graph.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.record import Record
from ort_lite.testing.generator.chain import ChainDraft, Writer, chains
from ort_lite.testing.generator.coverage import Coverage
from ort_lite.testing.generator.draft import Draft, Known, NodeDraft, Rejected
from ort_lite.testing.generator.draft_proto import model_proto
from ort_lite.testing.generator.draw import DEEPEST, Draw
from ort_lite.testing.generator.functions import outline
from ort_lite.testing.generator.pattern_models import PatternDraft, patterns_of
from ort_lite.testing.generator.recipe import Recipe
from ort_lite.testing.generator.targets import GenerationTarget
from ort_lite.transform.contract import Transform
from ort_lite.transform.patterns import Pattern

OLDEST, NEWEST, USUAL_NEWEST = 7, 28, 24
"""Opsets of ai.onnx that models import; most import no later one than the last."""
OTHERS = (("ai.onnx.ml", 5), ("com.microsoft", 1), ("ai.onnx.preview.training", 1))
"""Other domains and their newest versions."""
ATTEMPTS = 6
"""How often a recipe is asked for a target before another one is taken."""
FUNCTIONS = 0.15
"""How often a model has a function, and one more."""
PATTERN_ATTEMPTS = 12
KIN_SHARE = 0.3
PATTERN_SHARE = 0.1
"""The share of nodes that come with a pattern of a transform."""
MOSTLY_CONSTANT = 0.15
"""The share of steered models whose operands are mostly constants, so that nodes are computed before the run."""
LENGTHS = ((1, 3), (1, 3), (2, 8), (4, 12), (4, 12), (13, 40))
"""Ranges of the number of nodes; each is as likely as the others."""
Covered = tuple[GenerationTarget, Mapping[str, Any]]
"""A target of a node, and the node's attributes."""


class GeneratedModel(Record, eq=False):
    """A valid model with one set of inputs. `target` is what it was generated for, `covered` the operator versions in it."""

    number: int
    target: GenerationTarget
    model: Any
    """A ModelProto."""
    feeds: Mapping[str, Any]
    covered: tuple[Covered, ...]


class ModelGenerator:
    """Generates models of `targets`, whose operators need recipes. The same seed and calls give the same models.

    Some nodes follow the patterns of `transforms`. `rejections` counts the proposals that schemas or shape rules rejected, by
    target and reason.
    """

    def __init__(
        self,
        rules: ShapeRules,
        targets: Iterable[GenerationTarget],
        recipes: Mapping[tuple[str, str], Recipe],
        seed: int = 0,
        transforms: Iterable[Transform] = (),
        oldest: int = OLDEST,
    ) -> None:
        self.rules, self.recipes, self.seed, self.oldest = rules, recipes, seed, oldest
        self.coverage = Coverage(one for one in targets if (one.domain, one.op_type) in recipes and self._reachable(one))
        self.rejections: Counter[tuple[GenerationTarget, str]] = Counter()
        self.patterns = _patterns(transforms)
        """By transform: the patterns and the chain that add nodes which it matches."""
        self._alive: dict[tuple[str, int, bool], list[GenerationTarget]] = {}

    def model(
        self, number: int, operators: Collection[str] | None = None, transforms: Collection[str] | None = None
    ) -> GeneratedModel | None:
        """Generate model `number`. With `operators`, it has one of them among simple nodes.

        With `transforms`, it has the nodes of a pattern of one of them. Returns None if the recipe of its target failed.
        """
        rng = Random(f"{self.seed}/{number}")
        patterns = [one for name in (transforms or self.patterns) for one in self.patterns[name]]
        candidates = self._candidates(operators, patterns if transforms else ())
        target = self.coverage.next(rng, candidates)
        draft = Draft(self.opsets(target, rng), rng, self.rules)
        draft.special = rng.random() < (0.3 if operators or transforms else 0.1)
        if (operators or transforms) and rng.random() < MOSTLY_CONSTANT:
            draft.constant_share = 0.9
        covered: list[Covered] = []
        length = rng.randint(*rng.choice(LENGTHS[:3] if operators or transforms else LENGTHS))
        at = rng.randrange(length)
        for position in range(length):
            if position == at:
                grown = self._extend(draft, target, rng, covered)
                if not grown or (transforms and not self.add_pattern(draft, rng.choice(patterns), rng, covered)):
                    self.coverage.failures[target] += 1
                    return None
            elif patterns and rng.random() < PATTERN_SHARE:
                self.add_pattern(draft, rng.choice(patterns), rng, covered)
            else:
                self._extend(
                    draft, self._kin(draft, target, candidates or (), rng) or self._companion(draft, rng), rng, covered
                )
        draft.outputs = self._outputs(draft, target, rng)
        for one, attributes in covered:
            self.coverage.add(one, attributes)
        model = model_proto(draft, rng)
        while rng.random() < FUNCTIONS:
            outline(model, rng)
        return GeneratedModel(number, target, model, draft.feeds, tuple(covered))

    def _candidates(
        self, operators: Collection[str] | None, patterns: Collection[Pattern | Writer]
    ) -> list[GenerationTarget] | None:
        """Return the targets of the operators, or of the last operators of the patterns, or None for all."""
        names = {*(operators or ()), *(name for one in patterns if isinstance(one, Pattern) for name in one.op_types)}
        return [one for one in self.coverage.targets if one.operator in names] or None

    def _extend(self, draft: Draft, target: GenerationTarget, rng: Random, covered: list[Covered]) -> list[NodeDraft]:
        """Append a node of the target and what its operands need, or nothing if the recipe fails."""
        for _ in range(ATTEMPTS):
            mark = draft.mark()
            try:
                self.propose(draft, target, rng, covered)
            except Rejected as error:
                draft.reset(mark)
                self.rejections[target, str(error)[:160]] += 1
            else:
                return draft.nodes[mark[0] :]
        return []

    def propose(
        self,
        draft: Draft,
        target: GenerationTarget,
        rng: Random,
        covered: list[Covered],
        operands: Mapping[int, str] | None = None,
    ) -> None:
        """Append a node of the target by its recipe, with `operands` at their positions. Raises Rejected."""
        self._take(self._draw(draft, target, rng, operands), covered)

    def _draw(self, draft: Draft, target: GenerationTarget, rng: Random, operands: Mapping[int, str] | None = None) -> Draw:
        version = draft.opsets[target.domain]
        schema = self.rules.schemas.find(Node(target.op_type, [], [], domain=target.domain, version=version))
        if schema is None:
            raise Rejected(f"{target} has no schema")
        inner: list[Covered] = []

        def extend(body: Draft, count: int) -> None:
            for _ in range(count):
                self._extend(body, self._companion(body, rng), rng, inner)

        draw = Draw(draft, schema, target, rng, extend, operands)
        draw.covered = inner
        return draw

    def _take(self, draw: Draw, covered: list[Covered]) -> None:
        target = draw.target
        call = self.recipes[target.domain, target.op_type](draw)
        draw.draft.append(target.op_type, call.inputs, call.attributes, call.outputs, target.domain, call.types)
        covered.extend([(target, call.attributes), *draw.covered])

    def add_pattern(self, draft: Draft, pattern: Pattern | Writer, rng: Random, covered: list[Covered]) -> bool:
        """Append the nodes of a pattern or chain, or nothing if its recipes choose other operands each time."""

        def draws(domain: str, op_type: str, operands: Mapping[int, str]) -> list[Draw]:
            alive = self._of_opset(domain, draft.opsets.get(domain, 0), False)
            return [self._draw(draft, target, rng, operands) for target in alive if target.op_type == op_type]

        def by_recipe(op_type: str, types: Mapping[str, str]) -> Known:
            fitting = [draw for draw in draws("", op_type, {}) if types.items() <= draw.types.items()]
            if not fitting:
                raise Rejected(f"no target is {op_type} of {types}")
            self._take(fitting[0], covered)
            return draft.lookup(draft.nodes[-1].outputs[0])

        for _ in range(PATTERN_ATTEMPTS):
            mark, count = draft.mark(), len(covered)
            try:
                if isinstance(pattern, Pattern):
                    PatternDraft(draft, rng, draws, lambda draw: self._take(draw, covered)).add(pattern)
                else:
                    pattern(ChainDraft(draft, self._draw(draft, GenerationTarget("", "Identity", 1), rng), by_recipe, rng))
            except Rejected:
                draft.reset(mark)
                del covered[count:]
            else:
                return True
        return False

    def _kin(
        self, draft: Draft, target: GenerationTarget, candidates: Collection[GenerationTarget], rng: Random
    ) -> GenerationTarget | None:
        """Return another of the targets that a model is steered at, or the same one, which may read the same values."""
        alive = [one for one in candidates if one.since <= draft.opsets.get(one.domain, 0) < one.until]
        if not alive or rng.random() >= KIN_SHARE:
            return None
        return target if target in alive and rng.random() < 0.5 else rng.choice(alive)

    def _companion(self, draft: Draft, rng: Random) -> GenerationTarget:
        """Return another target of the draft's opsets, the rarest of a few. Raises Rejected."""
        domain = "" if rng.random() < 0.8 else rng.choice(sorted(draft.opsets))
        flat = draft.depth >= DEEPEST or rng.random() < 0.5
        alive = self._of_opset(domain, draft.opsets[domain], flat) or self._of_opset("", draft.opsets[""], flat)
        if not alive:
            raise Rejected("a generator without targets has no other nodes")
        few = [rng.choice(alive) for _ in range(12)]
        return self.coverage.next(rng, few)

    def _of_opset(self, domain: str, opset: int, flat: bool) -> list[GenerationTarget]:
        """Return the targets of an opset. `flat` leaves out operators that have bodies."""
        key = (domain, opset, flat)
        if key not in self._alive:
            alive = [one for one in self.coverage.targets if one.domain == domain and one.since <= opset < one.until]
            self._alive[key] = [one for one in alive if not (flat and self._has_bodies(one))]
        return self._alive[key]

    def _has_bodies(self, target: GenerationTarget) -> bool:
        schema = self.rules.schemas.find(Node(target.op_type, [], [], domain=target.domain, version=target.since))
        return schema is not None and "GRAPH" in schema.attributes.values()

    def opsets(self, target: GenerationTarget, rng: Random) -> dict[str, int]:
        """Draw the opsets of a model with the target."""
        most = USUAL_NEWEST if rng.random() < 0.85 else NEWEST
        opsets = {"": rng.randint(self.oldest, most)}
        opsets.update({domain: newest for domain, newest in OTHERS if domain == target.domain or rng.random() < 0.3})
        if target.domain == "":
            oldest = OLDEST if target.until > OLDEST else self.oldest
            least, last = max(oldest, target.since), min(target.until - 1, NEWEST)
            opsets[""] = rng.randint(least, max(least, min(last, most)))
        else:
            opsets[target.domain] = min(target.until - 1, max(target.since, opsets.get(target.domain, target.since)))
        return opsets

    def _reachable(self, target: GenerationTarget) -> bool:
        return target.domain != "" or target.until > self.oldest

    def _outputs(self, draft: Draft, target: GenerationTarget, rng: Random) -> list[str]:
        """Return all results that no node reads, and in a third of the models a few others.

        Sometimes one is left out, which makes nodes dead, but not the target.
        """
        leaves, share = draft.leaves(), rng.choice((0.0, 0.0, 0.1))
        results = [name for node in draft.nodes for name in node.outputs if name and name not in leaves]
        others = [name for node in draft.nodes if node.op_type != target.op_type for name in node.outputs if name in leaves]
        if len(others) > 1 and rng.random() < 0.1:
            leaves.remove(rng.choice(others))
        return [*leaves, *(name for name in results if rng.random() < share)]


def _patterns(transforms: Iterable[Transform]) -> dict[str, list[Pattern | Writer]]:
    listed = list(transforms)
    found: dict[str, list[Pattern | Writer]] = {name: [*patterns] for name, patterns in patterns_of(listed).items()}
    names = {one.name for one in listed}
    for name, writer in chains().items():
        if name in names:
            found.setdefault(name, []).append(writer)
    return found
