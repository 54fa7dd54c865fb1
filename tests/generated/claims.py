"""The targets that the CPU provider claims, and generators of models with them."""

from collections.abc import Collection, Iterator
from functools import cache

from ort_lite.errors import OrtLiteError
from ort_lite.graph import Model, Node
from ort_lite.options import SessionOptions
from ort_lite.plugins import fusions, shape_rules, transforms
from ort_lite.plugins.selection import Selection
from ort_lite.session.settle import settle
from ort_lite.testing.generator import GenerationTarget, ModelGenerator, recipes, targets
from ort_lite.testing.generator.pattern_models import patterns_of
from ort_lite.transform.patterns import Pattern
from ort_lite_cpu.provider import CPUExecutionProvider

_COMPANY_NAMES = (
    "Abs Add Cast Concat Constant Equal Expand Gather Identity If Less Mul Neg Not Relu Reshape SequenceAt"
    " SequenceConstruct Slice Squeeze Sub Transpose Unsqueeze Where"
)
COMPANY = tuple(_COMPANY_NAMES.split())
"""Simple operators, which accompany those that models are steered at."""


@cache
def claimed_targets(names: frozenset[str] | None = None) -> tuple[GenerationTarget, ...]:
    """Every operator version with a schema, with each element type that the provider runs it in; only of `names`, if given.

    All take 3 s, once a process.
    """
    schemas, options = shape_rules().schemas, SessionOptions()
    alone = Selection((CPUExecutionProvider(),), listed=False)

    def claims(node: Node) -> bool:
        assert node.graph is not None
        try:
            settle(Model(graph=node.graph, opset_imports={}), alone, options)
        except OrtLiteError:
            return False
        return True

    operators = [one for one in schemas.operators() if names is None or ".".join(filter(None, one)) in names]
    return tuple(targets(schemas, operators, claims))


def generator(seed: int = 0, operators: Collection[str] = (), rewrites: Collection[str] = ()) -> ModelGenerator:
    """A generator of models that the CPU provider runs, with nodes that transforms look for.

    With `operators`, or names of transforms, it knows these alone, and the operators of `COMPANY`. Raises ValueError for names
    that are unknown, or for which there is no recipe.
    """
    known = [*transforms(), *fusions()]
    if not operators and not rewrites:
        return ModelGenerator(shape_rules(), claimed_targets(), recipes(), seed, known)
    patterns = patterns_of(known)
    if unknown := [name for name in rewrites if name not in patterns]:
        raise ValueError(f"{', '.join(unknown)}: expected some of {', '.join(patterns)}")
    inner = {name for rewrite in rewrites for pattern in patterns[rewrite] for name in _operators(pattern)}
    claimed = claimed_targets(frozenset({*COMPANY, *operators, *inner}))
    found = ModelGenerator(shape_rules(), claimed, recipes(), seed, [one for one in known if one.name in rewrites])
    known_operators = {target.operator for target in found.coverage.targets}
    if unknown := [name for name in operators if name not in known_operators]:
        raise ValueError(f"{', '.join(unknown)}: there is no recipe, or the CPU provider does not run it")
    return found


def _operators(pattern: Pattern) -> Iterator[str]:
    prefix = f"{pattern.domain}." if pattern.domain else ""
    yield from (f"{prefix}{name}" for name in pattern.op_types)
    for operand in pattern.operands:
        if isinstance(operand, Pattern):
            yield from _operators(operand)
