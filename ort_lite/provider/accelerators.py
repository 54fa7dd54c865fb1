"""Helpers for providers of accelerators: claims in units, numeric options, versions of saved formats."""

from collections.abc import Callable, Collection, Iterator, Sequence

from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Node
from ort_lite.provider.provider import Capability, ExecutionProvider, GraphView, Rejection
from ort_lite.record import Record


def claim_units(
    graph: GraphView,
    misfit: Callable[[Node], Rejection | None],
    unit: Callable[[Node, Collection[Node]], Sequence[Node]] = lambda node, free: [node],
) -> Iterator[Capability | Rejection]:
    """Return the answers of `get_capability`: one Capability per unit, and a Rejection for every other node.

    `misfit(node)` is why the accelerator cannot run it; None: it can. `unit(node, free)` lists the node and those of `free`, which no
    unit has so far, that are done in one with it: taken or lost together.
    """
    answers = {node: misfit(node) for node in graph}
    free = {node for node, wrong in answers.items() if wrong is None}
    for node, wrong in answers.items():
        if wrong is not None:
            yield wrong
        elif node in free:
            together = unit(node, free)
            free.difference_update(together)
            yield Capability(together)


claimed = claim_units
"""The name in earlier releases."""


def count(provider: ExecutionProvider, option: str, value: int | str) -> int:
    """Return a provider option as a number, 0 or more; users may write it as text. Raises ProviderError for others."""
    if not (str(value).isascii() and str(value).isdecimal()):
        raise ProviderError(f"{provider.name}: {option} is {value!r}; expected a number, 0 or more").about(
            provider=provider.name
        )
    return int(value)


class Format(Record):
    """The version of a format of saved programs, for `compatibility` and `check_compatibility`. Prints as "kind first.second".

    Increase `first` when older runtimes cannot run new programs, and `second` when something is added. A runtime runs programs
    with its own first number and at most its second.
    """

    kind: str
    first: int
    second: int

    def __str__(self) -> str:
        return f"{self.kind} {self.first}.{self.second}"

    def misfit(self, saved: str) -> str | None:
        """Return the reason why a program saved as `saved` cannot run here; None if it can."""
        start, _, second = saved.rpartition(".")
        if start == f"{self.kind} {self.first}" and second.isdecimal() and int(second) <= self.second:
            return None
        return f"it was compiled for {saved!r}; this runs {str(self)!r}"
