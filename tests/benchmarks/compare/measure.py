"""Measure a case in three processes that take turns, and once more in new ones where it looks like a change."""

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path

from ort_lite.record import Record
from tests.benchmarks.compare.cases import Case
from tests.benchmarks.compare.processes import Failed, Program, Worker, start, timer_of, workers
from tests.benchmarks.compare.samples import Comparison, Group, Limits, compare, confirmed, suspicious, undecided
from tests.benchmarks.compare.sides import Side

MILLISECOND, MEGABYTE, KILOBYTE = 1e-3, 1e6, 1e3
LIMITS = {
    "model": Limits(0.02),
    "operator": Limits(0.05),
    "start": Limits(0.05, 10 * MILLISECOND),
    "memory": Limits(0.02, 4 * MEGABYTE),
    "wheel": Limits(0.0, 100 * KILOBYTE),
}
BLOCK = 0.012
"""Seconds that the runs of a sample take at least."""
SESSIONS, ROUNDS = 3, 5
"""Sessions that each process creates one after the other, since where its memory lies is a matter of luck, and rounds of each."""
CONFIRMATIONS = 5
"""Groups of new processes that measure again what looks like a change. They alone decide: the first group was chosen for its looks."""
STARTS, COLD_STARTS, START_CONFIRMATIONS = 9, 3, 2
"""Fresh processes of each version in a group, and groups that measure again."""


class Figure(Record):
    """One thing that was measured of both versions: seconds of a run, or of a start, or bytes."""

    kind: str
    """A key of LIMITS, or "failure"."""
    name: str
    comparison: Comparison | None = None
    changed: bool = False
    """The change is reported."""
    failure: str = ""
    """Why there is no comparison: a version that failed, and its error."""

    @property
    def worse(self) -> bool:
        """True for what got slower or larger, and for what fails in the changed version alone."""
        slower = self.comparison is not None and self.comparison.ratio > 1
        return self.changed and (slower or bool(self.failure))


class Trio(Record):
    """The sides in the order of a Group: the changed version, base, and base again."""

    changed: Side
    base: Side

    def sides(self) -> tuple[Side, Side, Side]:
        return self.changed, self.base, self.base

    def programs(self) -> list[Program]:
        return [timer_of(side) for side in self.sides()]


def measure_run(trio: Trio, pool: Sequence[Worker], case: Case, threads: int) -> Figure:
    """Compare the times of a run. Raises nothing: a version that fails is a Figure with its error."""
    limits, name = LIMITS[case.kind], f"{case.name}, {threads} thread{'s' * (threads > 1)}"
    try:
        groups = [Group(*time_runs(pool, case, threads, SESSIONS))]
        if suspicious(compare(groups), limits):
            while len(groups) <= CONFIRMATIONS and (len(groups) == 1 or undecided(compare(groups[1:]), limits, CONFIRMATIONS)):
                with workers(trio.programs(), threads) as fresh:
                    groups.append(Group(*time_runs(fresh, case, threads, 2 * SESSIONS)))
    except Failed as error:
        return _failed(trio, case, threads, name, error)
    return _figure(case.kind, name, groups)


def time_runs(pool: Sequence[Worker], case: Case, threads: int, sessions: int) -> list[tuple[float, ...]]:
    """Return the samples of each process in seconds. The processes take turns. Raises Failed."""
    samples: list[list[float]] = [[] for _ in pool]
    for session in range(sessions):
        seconds = max(worker.open(case.model, case.feeds, threads) for worker in pool)
        count = max(1, ceil(BLOCK / seconds)) if seconds else 1
        for turn in range(session * ROUNDS, (session + 1) * ROUNDS):
            take_turns(pool, turn, count, samples)
    return list(map(tuple, samples))


def take_turns(pool: Sequence[Worker], turn: int, count: int, samples: Sequence[list[float]]) -> None:
    """Append one sample of each process: the median of `count` runs."""
    for k in _order(len(pool), turn):
        samples[k].append(pool[k].run(count))


def _order(count: int, turn: int) -> list[int]:
    """Each process comes first, second and last equally often, behind each of the others."""
    order = [(turn + k) % count for k in range(count)]
    return order if turn // count % 2 == 0 else order[::-1]


def _failed(trio: Trio, case: Case, threads: int, name: str, error: Failed) -> Figure:
    """Say which version fails. One that fails in both is no change."""
    failures = {}
    for label, side in (("changed", trio.changed), ("base", trio.base)):
        with Worker(timer_of(side)) as worker:
            try:
                worker.open(case.model, case.feeds, threads)
            except Failed as reason:
                failures[label] = str(reason)
    text = "; ".join(f"{label}: {reason}" for label, reason in failures.items()) or f"failed once: {error}"
    return Figure(case.kind, name, None, "changed" in failures and "base" not in failures, text)


def measure_starts(trio: Trio, case: Case | None, cold: bool, kinds: Sequence[str]) -> list[Figure]:
    """Compare what fresh processes need to load and run a model, or to import ort_lite if there is none.

    `kinds`: "start" for times, "memory" for bytes. Figures are those of start.py.
    """
    what = f"{case.name}, cold kernel cache" if case and cold else case.name if case else "import"

    def measured(count: int) -> dict[str, Group]:
        arguments = (case.model, case.feeds, cold) if case else ()
        return _starts(trio, arguments, count)

    count = COLD_STARTS if cold else STARTS
    try:
        groups = {name: [group] for name, group in measured(count).items()}
        chosen = {
            name: found for name, found in groups.items() if kind_of(name) in kinds and (case is None or name != "import")
        }
        doubted = [name for name, found in chosen.items() if suspicious(compare(found), LIMITS[kind_of(name)])]
        for _ in range(START_CONFIRMATIONS):
            if doubted:
                again = measured(count)
                for name, found in chosen.items():
                    found.append(again[name])
            doubted = [
                name for name in doubted if undecided(compare(chosen[name][1:]), LIMITS[kind_of(name)], START_CONFIRMATIONS)
            ]
    except Failed as error:
        return [Figure("start", what, None, True, str(error))]
    return [
        _figure(kind_of(name), what if case is None else f"{what}: {name}", found)
        for name, found in chosen.items()
        if not (cold and name != "first result")
    ]


def _figure(kind: str, name: str, groups: Sequence[Group]) -> Figure:
    """Judge by the groups that came after the first, if there are any."""
    comparison = compare(groups[1:] or groups)
    return Figure(kind, name, comparison, len(groups) > 1 and confirmed(comparison, LIMITS[kind]))


def kind_of(figure: str) -> str:
    """Return the key of LIMITS for a figure of start.py."""
    return "memory" if figure.startswith("peak memory") else "start"


def _starts(trio: Trio, arguments: tuple[Path, Path, bool] | tuple[()], count: int) -> dict[str, Group]:
    rows: list[list[dict[str, float]]] = [[], [], []]
    for turn in range(count):
        for k in _order(3, turn):
            rows[k].append(start(trio.sides()[k], *arguments))
    return {name: Group(*(tuple(row[name] for row in found) for found in rows)) for name in rows[0][0]}


def measure_wheels(trio: Trio) -> Figure:
    """Compare the sizes of the wheels, which are exact."""
    changed, base = (float(side.wheel.stat().st_size) for side in (trio.changed, trio.base))
    comparison = compare([Group((changed,), (base,), (base,))])
    return Figure("wheel", "wheel", comparison, abs(changed - base) > LIMITS["wheel"].amount)


Task = Callable[[], list[Figure]]
"""A part of the whole, which a progress bar counts."""
