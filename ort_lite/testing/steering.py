"""The choice of generated models for a provider: the versions and types that it claims, alone and in company."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

from ort_lite.testing.generated import ALONG_AXES, ELEMENTWISE, KINDS, READERS, Cases, GeneratedCase, Start
from ort_lite.testing.generator import GenerationTarget
from ort_lite.transform.contract import Transform

MOST = 480
"""Models of all operators together, unless the kit is given another number."""
QUOTAS = {"attributes": 64, "numbers": 8, "graphs": 64, "sizes": 8}
"""Models of an operator, where there are few operators."""
LEAST = {"attributes": 1, "numbers": 2, "graphs": 1, "sizes": 1}
"""Models of an operator, where there are many. Of Max one model may have one operand, which shows nothing of NaN beside a number."""
OF_PATTERN = 8
"""Models of each pattern that a provider fuses."""
TRIES, FIRST_TRIES = 3, 12
"""Models of a combination of types until the provider is taken not to have it: one for each share of constants; more of the usual
types, since the provider may decline many attributes.
"""

Takes = Callable[[GeneratedCase], Collection[str]]
"""The operators of the nodes that a provider takes, if any."""
Operator = tuple[str, str]


class Steering:
    """Chooses about `most` cases of `operators` of which a provider `takes` some.

    `resize` returns a case with runs of other sizes, if possible.
    """

    def __init__(
        self,
        cases: Cases,
        operators: Sequence[Operator],
        takes: Takes,
        resize: Callable[[GeneratedCase], GeneratedCase | None],
        most: int = MOST,
    ) -> None:
        self._cases, self._operators, self._takes, self._resize = cases, operators, takes, resize
        share = min(1.0, most / (sum(QUOTAS.values()) * max(len(operators), 1)))
        self._quotas = {kind: max(LEAST[kind], round(QUOTAS[kind] * share)) for kind in KINDS}
        self._draws = {"attributes": self._alone, "numbers": self._numbers, "graphs": self._graphs, "sizes": self._sizes}
        self._drawn: dict[str, list[GeneratedCase]] = {}
        self._names: set[tuple[str, str]] = set()
        self._taken: dict[Operator, list[Start]] = {}

    def draw(self, kind: str) -> list[GeneratedCase]:
        """Return the cases of a kind."""
        if kind not in self._drawn:
            self._drawn[kind] = list(chain.from_iterable(map(self._draws[kind], self._operators)))
        return self._drawn[kind]

    def of_patterns(self, transforms: Iterable[Transform]) -> list[GeneratedCase]:
        """Return cases of the transforms' patterns whose operators the provider claims completely."""
        found: list[GeneratedCase] = []
        readers = [name for name in READERS if ("", name) in self._operators]
        for drawn in self._cases.of_patterns(transforms, readers):
            found += islice((case for case in drawn if case is not None and self._accept(case, whole=True)), OF_PATTERN)
        return found

    def _alone(self, operator: Operator) -> Iterator[GeneratedCase]:
        """Return models of one node, which go through the claimed versions and types."""
        targets = self._cases.targets(*operator)
        self._taken[operator] = []
        tried: Counter[GenerationTarget] = Counter()
        taken: Counter[object] = Counter()
        tries = {target.types: TRIES for target in targets} | {target.types: FIRST_TRIES for target in targets[:1]}
        count = 0
        while count < self._quotas["attributes"] and sum(tried.values()) < 2 * self._quotas["attributes"] + TRIES * len(
            targets
        ):
            alive = [
                one for one in targets if (taken[one] or tried[one] < TRIES) and (taken[one.types] or tries[one.types] > 0)
            ]
            if not alive:
                break
            target = min(alive, key=tried.__getitem__)
            number = tried[target]
            tried[target] += 1
            case = self._cases.alone("attributes", target, number)
            if case is not None and self._accept(case):
                taken.update((target, target.types))
                self._taken[operator].append((target, number))
                count += 1
                yield case
            else:
                tries[target.types] -= 1

    def _starts(self, operator: Operator) -> list[Start]:
        """Return the claimed cases. An operator that is claimed only in company, or not at all, has some with the usual types."""
        self.draw("attributes")
        return self._taken[operator] or [(target, number) for number in range(TRIES) for target in self._cases.usual(*operator)]

    def _targets(self, operator: Operator) -> list[GenerationTarget]:
        """Return the claimed versions and types."""
        return list(dict.fromkeys(target for target, _ in self._starts(operator)))

    def _numbers(self, operator: Operator) -> Iterator[GeneratedCase]:
        domain, op_type = operator
        if domain or op_type not in ELEMENTWISE | ALONG_AXES:
            return
        floats = [target for target in self._targets(operator) if "float32" in dict(target.types).values()]
        numbers = range(TRIES * self._quotas["numbers"])
        yield from self._some(
            "numbers", (self._cases.alone("numbers", target, number) for number in numbers for target in floats)
        )

    def _graphs(self, operator: Operator) -> Iterator[GeneratedCase]:
        """Return models of the usual types; every fourth one has any types."""
        company = tuple(target for one in self._operators for target in self._targets(one))
        every = self._starts(operator)
        usual = [start for start in every if start[0].types == every[0][0].types]
        turns = (every if number % 4 == 3 else usual for number in range(4 * self._quotas["graphs"]))
        drawn = (self._cases.company(turn[number % len(turn)], number, company) for number, turn in enumerate(turns))
        yield from self._some("graphs", drawn)

    def _sizes(self, operator: Operator) -> Iterator[GeneratedCase]:
        """Return cases of one node and of several nodes with runs of other sizes."""
        alone, graphs = (
            [case for case in self.draw(kind) if operator[1] in case.operators] for kind in ("attributes", "graphs")
        )
        some = [*_some(alone, 2 * self._quotas["sizes"]), *_some(graphs, self._quotas["sizes"])]
        yield from self._some("sizes", map(self._resize, some))

    def _some(self, kind: str, drawn: Iterator[GeneratedCase | None]) -> Iterator[GeneratedCase]:
        count = 0
        for case in drawn:
            if count == self._quotas[kind]:
                return
            if case is not None and self._accept(case):
                count += 1
                yield case

    def _accept(self, case: GeneratedCase, whole: bool = False) -> bool:
        """Return True for a new case of which the provider claims a node, or all operators if `whole`."""
        if (case.kind, case.name) in self._names:
            return False
        taken = {*self._takes(case)}
        if not taken or (whole and not taken.issuperset(case.operators)):
            return False
        self._names.add((case.kind, case.name))
        return True


def _some(cases: Sequence[GeneratedCase], count: int) -> Sequence[GeneratedCase]:
    """Return `count` items from all parts of the list."""
    return cases[:: max(1, len(cases) // count)]
