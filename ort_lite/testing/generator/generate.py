"""The generator: model number n, steered at what earlier models lack."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from ort_lite.graph.graph import Node
from ort_lite.inference import ShapeRules
from ort_lite.record import Record
from ort_lite.testing.generator.coverage import Coverage
from ort_lite.testing.generator.draft import Draft, Known, NodeDraft, Rejected
from ort_lite.testing.generator.draw import Draw
from ort_lite.testing.generator.patterns import Chain, Pattern, patterns
from ort_lite.testing.generator.proto import model_proto
from ort_lite.testing.generator.recipe import Recipe
from ort_lite.testing.generator.targets import Target

OLDEST, NEWEST, USUAL_NEWEST = 7, 28, 24
"""Opsets of ai.onnx that models import; most import no later one than the last."""
OTHERS = (("ai.onnx.ml", 5), ("com.microsoft", 1), ("ai.onnx.preview.training", 1))
"""Other domains and their newest versions."""
ATTEMPTS = 6
"""How often a recipe is asked for a target before another one is taken."""
PATTERNS = 0.12
"""How often a chain of nodes that a transform matches comes instead of a node."""
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
        self, rules: ShapeRules, targets: Iterable[Target], recipes: Mapping[tuple[str, str], Recipe], seed: int = 0
    ) -> None:
        self.rules, self.recipes, self.seed = rules, recipes, seed
        self.coverage = Coverage(one for one in targets if (one.domain, one.op_type) in recipes and _reachable(one))
        self.rejections: Counter[tuple[Target, str]] = Counter()
        self.patterns: Mapping[str, Pattern] = patterns()
        self._alive: dict[tuple[str, int], list[Target]] = {}

    def model(
        self, number: int, operators: Collection[str] | None = None, transforms: Collection[str] = ()
    ) -> GeneratedModel | None:
        """Generate model `number`. With `operators` it has one of them, and their company is simple; with `transforms` it has nodes
        that one of these transforms matches, if there is a pattern of it.

        Returns None where the recipe of its target, or the pattern, failed.
        """
        rng = Random(f"{self.seed}/{number}")
        candidates = None if operators is None else [one for one in self.coverage.targets if one.operator in operators]
        target = self.coverage.next(rng, candidates)
        draft = Draft(self._opsets(target, rng), rng, self.rules)
        draft.special = rng.random() < 0.1
        length = rng.randint(*rng.choice(LENGTHS if operators is None and not transforms else LENGTHS[:3]))
        covered: list[tuple[Target, Mapping[str, Any]]] = []
        at = rng.randrange(length)
        for position in range(length):
            if position == at and not self._extend(draft, target, rng, covered):
                self.coverage.failures[target] += 1
                return None
            if position != at and rng.random() < PATTERNS:
                self._insert(draft, list(self.patterns), rng, covered)
            elif position != at:
                self._extend(draft, self._companion(draft, rng), rng, covered)
        if transforms and not self._insert(draft, [name for name in self.patterns if name in transforms], rng, covered):
            return None
        draft.outputs = self._outputs(draft, target, rng)
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

    def propose(self, draft: Draft, target: Target, rng: Random, covered: list[tuple[Target, Mapping[str, Any]]]) -> None:
        """Add a node of the target as its recipe draws it. Raises Rejected."""
        version = draft.opsets[target.domain]
        schema = self.rules.schemas.find(Node(target.op_type, [], [], domain=target.domain, version=version))
        if schema is None:
            raise Rejected(f"{target} has no schema")
        drawn = self.recipes[target.domain, target.op_type](Draw(draft, schema, target, rng))
        draft.append(target.op_type, drawn.inputs, drawn.attributes, drawn.outputs, target.domain, drawn.types)
        covered.append((target, drawn.attributes))

    def _insert(self, draft: Draft, names: Sequence[str], rng: Random, covered: list[tuple[Target, Mapping[str, Any]]]) -> bool:
        """Add the nodes of one of the patterns. Returns False where none of them fits."""
        identity = Target("", "Identity", 1)
        schema = self.rules.schemas.find(Node("Identity", [], [], version=draft.opsets[""]))
        assert schema is not None

        def by_recipe(draft: Draft, op_type: str, types: Mapping[str, str]) -> Known:
            alive = [one for one in self._of_opset("", draft.opsets[""]) if one.op_type == op_type]
            fitting = [one for one in alive if types.items() <= dict(one.types).items()]
            if not fitting:
                raise Rejected(f"no target is {op_type} of {types}")
            self.propose(draft, fitting[0], rng, covered)
            return draft.known(draft.nodes[-1].outputs[0])

        for _ in range(ATTEMPTS if names else 0):
            mark, count = draft.mark(), len(covered)
            try:
                self.patterns[rng.choice(names)](Chain(draft, Draw(draft, schema, identity, rng), by_recipe, rng))
            except Rejected:
                draft.reset(mark)
                del covered[count:]
            else:
                return True
        return False

    def _companion(self, draft: Draft, rng: Random) -> Target:
        """Another target of the draft's opsets: the rarest of a few."""
        domain = "" if rng.random() < 0.8 else rng.choice(sorted(draft.opsets))
        alive = self._of_opset(domain, draft.opsets[domain]) or self._of_opset("", draft.opsets[""])
        few = [rng.choice(alive) for _ in range(12)]
        return self.coverage.next(rng, few)

    def _of_opset(self, domain: str, opset: int) -> list[Target]:
        if (domain, opset) not in self._alive:
            self._alive[domain, opset] = [
                one for one in self.coverage.targets if one.domain == domain and one.since <= opset < one.until
            ]
        return self._alive[domain, opset]

    def _opsets(self, target: Target, rng: Random) -> dict[str, int]:
        most = USUAL_NEWEST if rng.random() < 0.85 else NEWEST
        opsets = {"": rng.randint(OLDEST, most)}
        opsets.update({domain: newest for domain, newest in OTHERS if domain == target.domain or rng.random() < 0.3})
        if target.domain == "":
            least, last = max(OLDEST, target.since), min(target.until - 1, NEWEST)
            opsets[""] = rng.randint(least, max(least, min(last, most)))
        else:
            opsets[target.domain] = min(target.until - 1, max(target.since, opsets.get(target.domain, target.since)))
        return opsets

    def _outputs(self, draft: Draft, target: Target, rng: Random) -> list[str]:
        """All results that no node reads, and in a third of the models a few of the others. At times one that is left out makes
        nodes without use, but not the target.
        """
        leaves, share = draft.leaves(), rng.choice((0.0, 0.0, 0.1))
        results = [name for node in draft.nodes for name in node.outputs if name and name not in leaves]
        others = [name for node in draft.nodes if node.op_type != target.op_type for name in node.outputs if name in leaves]
        if len(others) > 1 and rng.random() < 0.1:
            leaves.remove(rng.choice(others))
        return [*leaves, *(name for name in results if rng.random() < share)]


def _reachable(target: Target) -> bool:
    return target.domain != "" or target.until > OLDEST
