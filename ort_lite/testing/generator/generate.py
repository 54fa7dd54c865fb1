"""The generator: model number n, steered at what earlier models lack."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import Any

from ort_lite.graph.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.record import Record
from ort_lite.testing.generator.coverage import Coverage
from ort_lite.testing.generator.draft import Draft, NodeDraft, Rejected
from ort_lite.testing.generator.draw import DEEPEST, Draw
from ort_lite.testing.generator.proto import model_proto
from ort_lite.testing.generator.recipe import Recipe
from ort_lite.testing.generator.targets import Target

OLDEST, NEWEST, USUAL_NEWEST = 7, 28, 24
"""Opsets of ai.onnx that models import; most import no later one than the last."""
OTHERS = (("ai.onnx.ml", 5), ("com.microsoft", 1), ("ai.onnx.preview.training", 1))
"""Other domains and their newest versions."""
ATTEMPTS = 6
"""How often a recipe is asked for a target before another one is taken."""
LENGTHS = ((1, 3), (1, 3), (2, 8), (4, 12), (4, 12), (13, 40))
"""Ranges of the number of nodes; each is as likely as the others."""


class GeneratedModel(Record, eq=False):
    """A valid model with one set of inputs. `target` is what it was steered at, `covered` the operator versions in it."""

    number: int
    target: Target
    model: Any
    """A ModelProto."""
    feeds: Mapping[str, Any]
    covered: tuple[tuple[Target, Mapping[str, Any]], ...]


class Generator:
    """Generates models of `targets`, whose operators need recipes. The same seed and the same calls give the same models.

    `rejections` counts proposals of recipes that the schemas or shape rules refused, by target and reason.
    """

    def __init__(
        self,
        rules: ShapeRules,
        targets: Iterable[Target],
        recipes: Mapping[tuple[str, str], Recipe],
        seed: int = 0,
        oldest: int = OLDEST,
    ) -> None:
        self.rules, self.recipes, self.seed, self.oldest = rules, recipes, seed, oldest
        self.coverage = Coverage(one for one in targets if (one.domain, one.op_type) in recipes and self._reachable(one))
        self.rejections: Counter[tuple[Target, str]] = Counter()
        self._alive: dict[tuple[str, int, bool], list[Target]] = {}

    def model(self, number: int, operators: Collection[str] | None = None) -> GeneratedModel | None:
        """Generate model `number`. With `operators` it has one of them, and their company is simple.

        Returns None where the recipe of its target failed.
        """
        rng = Random(f"{self.seed}/{number}")
        candidates = None if operators is None else [one for one in self.coverage.targets if one.operator in operators]
        target = self.coverage.next(rng, candidates)
        draft = Draft(self.opsets(target, rng), rng, self.rules)
        draft.special = rng.random() < 0.1
        length = rng.randint(*rng.choice(LENGTHS if operators is None else LENGTHS[:3]))
        covered: list[tuple[Target, Mapping[str, Any]]] = []
        at = rng.randrange(length)
        for position in range(length):
            if position == at and not self._extend(draft, target, rng, covered):
                self.coverage.failures[target] += 1
                return None
            if position != at:
                self._extend(draft, self._companion(draft, rng), rng, covered)
        draft.outputs = self._outputs(draft, rng)
        for one, attributes in covered:
            self.coverage.add(one, attributes)
        return GeneratedModel(number, target, model_proto(draft, rng), draft.feeds, tuple(covered))

    def _extend(
        self, draft: Draft, target: Target, rng: Random, covered: list[tuple[Target, Mapping[str, Any]]]
    ) -> list[NodeDraft]:
        """Add a node of the target, with what its operands need; nothing where the recipe fails."""
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
        target: Target,
        rng: Random,
        covered: list[tuple[Target, Mapping[str, Any]]],
        operands: Mapping[int, str] | None = None,
    ) -> None:
        """Add a node of the target as its recipe draws it, with `operands` at their positions. Raises Rejected."""
        version = draft.opsets[target.domain]
        schema = self.rules.schemas.find(Node(target.op_type, [], [], domain=target.domain, version=version))
        if schema is None:
            raise Rejected(f"{target} has no schema")
        inner: list[tuple[Target, Mapping[str, Any]]] = []

        def extend(body: Draft, count: int) -> None:
            for _ in range(count):
                self._extend(body, self._companion(body, rng), rng, inner)

        drawn = self.recipes[target.domain, target.op_type](Draw(draft, schema, target, rng, extend, operands))
        draft.append(target.op_type, drawn.inputs, drawn.attributes, drawn.outputs, target.domain, drawn.types)
        covered.extend([(target, drawn.attributes), *inner])

    def _companion(self, draft: Draft, rng: Random) -> Target:
        """Another target of the draft's opsets: the rarest of a few."""
        domain = "" if rng.random() < 0.8 else rng.choice(sorted(draft.opsets))
        flat = draft.depth >= DEEPEST or rng.random() < 0.5
        alive = self._of_opset(domain, draft.opsets[domain], flat) or self._of_opset("", draft.opsets[""], flat)
        few = [rng.choice(alive) for _ in range(12)]
        return self.coverage.next(rng, few)

    def _of_opset(self, domain: str, opset: int, flat: bool) -> list[Target]:
        """The targets of an opset; `flat`: without those of operators that have bodies."""
        key = (domain, opset, flat)
        if key not in self._alive:
            alive = [one for one in self.coverage.targets if one.domain == domain and one.since <= opset < one.until]
            self._alive[key] = [one for one in alive if not (flat and self._has_bodies(one))]
        return self._alive[key]

    def _has_bodies(self, target: Target) -> bool:
        schema = self.rules.schemas.find(Node(target.op_type, [], [], domain=target.domain, version=target.since))
        return schema is not None and "GRAPH" in schema.attributes.values()

    def opsets(self, target: Target, rng: Random) -> dict[str, int]:
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

    def _outputs(self, draft: Draft, rng: Random) -> list[str]:
        """All results that no node reads, and a few of the others."""
        leaves = draft.leaves()
        results = [name for node in draft.nodes for name in node.outputs if name and name not in leaves]
        return [*leaves, *(name for name in results if rng.random() < 0.1)]

    def _reachable(self, target: Target) -> bool:
        return target.domain != "" or target.until > self.oldest
