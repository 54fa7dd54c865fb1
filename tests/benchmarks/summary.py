"""The performance record in few numbers: for each CPU the geometric mean of the ratios, and the rows that are slower than a rival."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ort_lite.record import Record
from tests.benchmarks.record import Measurement
from tests.benchmarks.rows import row_names

SLOWER = 0.98
"""A ratio that is shown as less is a loss; from here on, the difference is noise."""


class Comparison(Record):
    """All rows against one rival with one number of threads.

    Rows whose results differ are in neither `mean` nor `count`. Without others, `mean` is None.
    """

    mean: float | None
    count: int
    slower: Mapping[str, float]
    """Ratios below SLOWER by the name of the row, the lowest first."""


class CpuSummary(Record):
    """One CPU. `name` is unique; `comparisons` are by rival ("onnxruntime", "openvino") and number of threads, where measured."""

    name: str
    features: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    comparisons: Mapping[tuple[str, int], Comparison]


def cpu_summaries(measurements: Iterable[Measurement]) -> Iterator[CpuSummary]:
    """Yield a summary of the benchmark rows for each CPU that has any, sorted by name. Operators and other models are left out.

    Names are those of `by_cpu` for all measurements.
    """
    names = set(row_names())
    for name, of_cpu in by_cpu(measurements):
        found = tuple(m for m in of_cpu if m.kind == "model" and m.name in names)
        pairs = dict.fromkeys((m.rival, m.threads) for m in found)
        comparisons = {pair: comparison([m for m in found if (m.rival, m.threads) == pair]) for pair in sorted(pairs)}
        if found:
            yield CpuSummary(name, of_cpu[0].features, found, comparisons)


def by_cpu(measurements: Iterable[Measurement]) -> Iterator[tuple[str, tuple[Measurement, ...]]]:
    """Yield a unique name and the measurements of each CPU. CPUs of one name are distinguished by their features."""
    found: dict[tuple[str, tuple[str, ...]], list[Measurement]] = {}
    for measurement in measurements:
        found.setdefault((measurement.cpu, measurement.features), []).append(measurement)
    for (name, features), held in sorted(found.items()):
        others = [other for same, other in found if same == name and other != features]
        yield name + (_distinction(features, others) if others else ""), tuple(held)


def _distinction(features: Sequence[str], others: Iterable[Sequence[str]]) -> str:
    """Name the features that not all CPUs of one name have: " with avx_vnni"."""
    if not features:
        return " with unknown features"
    known = [set(features), *(set(other) for other in others if other)]
    own = [feature for feature in features if feature not in set.intersection(*known)]
    missing = sorted(set.union(*known) - set(features))
    return f" with {', '.join(own)}" if own else f" without {', '.join(missing)}" if missing else " with known features"


def comparison(measurements: Sequence[Measurement]) -> Comparison:
    """Summarize measurements against one rival with one number of threads."""
    ratios = {m.title: m.ratio for m in measurements if m.ratio is not None}
    slower = {title: ratio for title, ratio in sorted(ratios.items(), key=itemgetter(1)) if round(ratio, 2) < SLOWER}
    return Comparison(geometric_mean(ratios.values()), len(ratios), slower)


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers, None without any."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None
