"""Nodes as the patterns of a provider's fusions look for them."""

from collections.abc import Iterable, Iterator
from random import Random

import numpy as np

from ort_lite.testing.generator.draft import Draft, Rejected
from ort_lite.testing.generator.generate import Generator
from ort_lite.testing.generator.targets import Target
from ort_lite.transform import NHWC_DOMAIN
from ort_lite.transform.contract import LocalRule, Transform
from ort_lite.transform.patterns import Operand, Pattern


def patterns_of(transforms: Iterable[Transform]) -> Iterator[tuple[str, Pattern]]:
    """List the patterns of rules, each with a name."""
    for transform in transforms:
        for k, pattern in enumerate(transform.patterns if isinstance(transform, LocalRule) else ()):
            yield f"{transform.name}, pattern {k + 1}", pattern


class PatternDraft:
    """Adds the nodes of a pattern to a draft. `usual` has the versions of each operator with their usual types."""

    def __init__(self, generator: Generator, draft: Draft, usual: dict[str, list[Target]], rng: Random) -> None:
        self._generator, self._draft, self._usual, self._rng = generator, draft, usual, rng
        self._names: dict[str, str] = {}
        """The pattern's names for operands -> the values that the nodes read."""

    def append(self, pattern: Pattern) -> str:
        """Add the nodes and return the name of the result. Raises Rejected, for nodes of a domain of the provider's own too."""
        known = sorted(name for name in pattern.op_types if name in self._usual)
        if not known or pattern.domain not in ("", NHWC_DOMAIN):
            raise Rejected("no recipe has the operators of the pattern")
        operands = {k: name for k, operand in enumerate(pattern.operands) if (name := self._operand(operand))}
        opset = self._draft.opsets[""]
        target = next((one for one in self._usual[self._rng.choice(known)] if one.since <= opset < one.until), None)
        if target is None:
            raise Rejected("the opset has no such operator")
        self._generator.propose(self._draft, target, self._rng, [], operands)
        node = self._draft.nodes[-1]
        for operand, name in zip(pattern.operands, node.inputs, strict=False):
            if isinstance(operand, str):
                self._names.setdefault(operand, name)
        return node.outputs[0]

    def _operand(self, operand: Operand) -> str:
        """The operand that the pattern demands; "" where the recipe may choose."""
        if isinstance(operand, Pattern):
            return self.append(operand)
        if isinstance(operand, int | float):
            return self._draft.constant(np.array(operand, np.float32)).name
        return self._names.get(operand, "") if isinstance(operand, str) else ""
