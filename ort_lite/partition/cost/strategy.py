"""Strategies behind the partitioner: what becomes of the greedy assignment."""

from typing import Any, Protocol

from ort_lite.errors import InvalidArgument
from ort_lite.options.options import SessionOptions
from ort_lite.partition.assignment import Again, Assignment
from ort_lite.partition.cost.cost_model import CostModel

PARTITIONING, COST_MODEL = "ort_lite.partitioning", "ort_lite.cost_model"
"""Config entries of sessions: "greedy" (the default) or "cost", and the file of a CostModel."""


class Strategy(Protocol):
    """Any such function can be passed as `partitioning=`. It must be deterministic, and return an Assignment that is `greedy` or
    that `again` made.
    """

    def __call__(self, greedy: Assignment, again: Again) -> Assignment: ...


class CostStrategy:
    """Gives nodes back to later providers as long as that makes a run cheaper by the CostModel: never worse than greedy by it.

    Whole partitions whose start and copies cost more than they gain go first, then nodes at borders. A local search: it ends
    where no single move helps, or after `tries` assignments (None: as many as the graph's size allows).
    """

    def __init__(self, model: CostModel | None = None, tries: int | None = None) -> None:
        self.model, self.tries = model if model is not None else CostModel(), tries

    def __call__(self, greedy: Assignment, again: Again) -> Assignment:
        from ort_lite.partition.cost.search import Search

        return Search(self.model, greedy, again, self.tries).result()


def strategy_of(given: Any, options: SessionOptions) -> Strategy | None:
    """Return the strategy that `partitioning=` or the config names; None is greedy. Raises InvalidArgument for anything else."""
    wanted = options.config(PARTITIONING, "greedy") if given is None else given
    if wanted == "cost":
        path = options.config(COST_MODEL, "")
        return CostStrategy(CostModel.load(path) if path else None)
    if wanted == "greedy":
        return None
    if isinstance(wanted, str) or not callable(wanted):
        raise InvalidArgument(f"{PARTITIONING} is {wanted!r}; expected 'greedy', 'cost' or a strategy")
    found: Strategy = wanted
    return found
