"""Predicted and measured costs of the kernels that can compute each node of a model: `ort-lite bench --candidates`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ort_lite.compat.inference_session import InferenceSession
from ort_lite.provider.compiled import KernelChoice
from ort_lite.record import Record
from ort_lite.tools.cli.benchmark.nodes import profile
from ort_lite.tools.cli.printing import print_table

SHORT = 5.0
"""Microseconds below which a node says nothing: an event takes as long."""
CLOSE, EQUAL = 1.5, 1.1
"""The factor within which a prediction is good, and the one within which two kernels are equally fast."""
COLUMNS = ("node", "kernel", "runner-up", "predicted us", "measured us", "runner-up measured us", "fastest")

Open = Callable[[Mapping[str, str]], InferenceSession]
"""A function that opens a session of the model in which candidates are pinned, by name of node."""


class NodeCandidates(Record):
    """A node's kernel, and what each candidate takes: microseconds of one thread."""

    node: str
    choice: KernelChoice
    measured: Mapping[str, float]
    """By candidate, in the kernel alone."""

    @property
    def time(self) -> float:
        """The measured time of the kernel that was taken; 0.0 if it ran as a part of another node."""
        return self.measured.get(self.choice.taken, 0.0)

    @property
    def is_close(self) -> bool:
        """Return True if the prediction is within CLOSE of the measurement."""
        return self.time / CLOSE <= self.choice.predicted <= self.time * CLOSE

    @property
    def totals(self) -> dict[str, float]:
        """The measured times of candidates, with the predicted changes of layout around them."""
        costs = self.choice.costs
        return {name: time + costs[name].moves for name, time in self.measured.items()}

    @property
    def fastest(self) -> str:
        """The candidate that takes the least time."""
        return min(self.totals, key=self.totals.__getitem__)

    @property
    def is_best(self) -> bool:
        """Return True if the kernel that was taken is within EQUAL of the fastest."""
        return self.totals[self.choice.taken] <= EQUAL * self.totals[self.fastest]

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return {
            "node": self.node,
            "kernel": self.choice.taken,
            "runner_up": self.choice.runner_up,
            "predicted": self.choice.predicted,
            "measured": self.time,
            "candidates": {name: {"measured": time, "total": self.totals[name]} for name, time in self.measured.items()},
            "fastest": self.fastest,
        }


def measure_candidates(open_session: Open, feeds: Mapping[str, Any], seconds: float) -> list[NodeCandidates]:
    """Time all candidates that fit. Nodes change their kernels together: as many sessions as the most candidates of a node.

    Each session runs for `seconds`. A node that runs as a part of another one is left out.
    """
    with open_session({}) as session:
        times = _times(session, feeds, seconds)
        choices = session.explain(kernels=True).kernels
    measured = {name: {choices[name].taken: time} for name, time in times.items() if name in choices}
    for pins in _rounds(choices):
        with open_session(pins) as session:
            found = _times(session, feeds, seconds)
        for node, candidate in pins.items():
            if node in measured and node in found:
                measured[node][candidate] = found[node]
    return [NodeCandidates(node, choices[node], times) for node, times in measured.items()]


def _times(session: InferenceSession, feeds: Mapping[str, Any], seconds: float) -> dict[str, float]:
    return {line.name: line.seconds * 1e6 for line in profile(session, feeds, seconds).lines}


def _rounds(choices: Mapping[str, KernelChoice]) -> Iterator[dict[str, str]]:
    """Yield what to pin in each session: of each node one of the candidates that were not taken."""
    others = {node: [name for name in choice.costs if name != choice.taken] for node, choice in choices.items()}
    for k in range(max(map(len, others.values()), default=0)):
        yield {node: names[k] for node, names in others.items() if k < len(names)}


def summarize(rows: Iterable[NodeCandidates]) -> dict[str, float]:
    """Return the shares of time in nodes whose prediction is close, and whose kernel is as fast as the fastest candidate.

    Nodes below SHORT do not count. `measured` has the microseconds that do.
    """
    counted = [row for row in rows if row.time >= SHORT]
    total = sum(row.time for row in counted) or 1.0
    choosing = [row for row in counted if row.choice.runner_up]
    chosen = sum(row.time for row in choosing) or 1.0
    return {
        "measured": sum(row.time for row in counted),
        "close": sum(row.time for row in counted if row.is_close) / total,
        "best": sum(row.time for row in choosing if row.is_best) / chosen if choosing else 1.0,
    }


def factors_of(rows: Sequence[NodeCandidates]) -> dict[str, float]:
    """Return measured over predicted time by candidate: the median over nodes, weighted by time.

    Nodes below SHORT do not count, nor do those of several kernels, which have no factor of their own.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for name, time in row.measured.items():
            if time >= SHORT and "+" not in name and row.choice.costs[name].kernel > 0:
                found.setdefault(name, []).append((time / row.choice.costs[name].kernel, time))
    return {name: _weighted_median(pairs) for name, pairs in sorted(found.items())}


def _weighted_median(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the first value at which half of the weight is reached, of pairs (value, weight)."""
    ordered = sorted(pairs)
    sums = accumulate(weight for _, weight in ordered)
    half = sum(weight for _, weight in ordered) / 2
    return next(value for (value, _), reached in zip(ordered, sums, strict=True) if reached >= half)


def show_candidates(rows: Sequence[NodeCandidates], most: int, say: Callable[[object], None]) -> None:
    """Print the rows that take the most time, `most` of them or all if it is 0, and the shares."""
    ordered = sorted(rows, key=lambda row: -row.time)
    print_table(COLUMNS, map(_cells, ordered[:most] if most > 0 else ordered), COLUMNS[3:6])
    shares = summarize(rows)
    say(f"Predictions are within {CLOSE:g} times of the measurement for {shares['close']:.0%} of {shares['measured']:,.0f} us.")
    say(f"Of the time of nodes with a choice, {shares['best']:.0%} is spent in kernels within 10% of the fastest candidate.")


def _cells(row: NodeCandidates) -> list[str]:
    other = row.measured.get(row.choice.runner_up)
    found = [row.node, row.choice.taken, row.choice.runner_up, f"{row.choice.predicted:.1f}", f"{row.time:.1f}"]
    return [*found, "" if other is None else f"{other:.1f}", "" if row.is_best else row.fastest]
