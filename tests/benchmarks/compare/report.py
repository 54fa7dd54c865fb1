"""The page that a comparison ends in, as Markdown and as data."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ort_lite.record import Record, asdict
from tests.benchmarks.compare.measure import Figure

TIMES = ("model", "operator", "start")


class Report(Record):
    """All figures of two versions on one machine."""

    changed: str
    base: str
    cpu: str
    features: tuple[str, ...]
    figures: tuple[Figure, ...]
    lines: Mapping[str, tuple[int, int]]
    """Lines of code by folder: changed, base."""
    preparation: float
    """Seconds that environments and kernels took before anything was measured."""
    seconds: float
    """Seconds that the measurement took."""

    @property
    def worse(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.worse]

    def as_dict(self) -> dict[str, Any]:
        """Return data for JSON: seconds and bytes, ratios of changed over base."""
        return {
            "changed": self.changed,
            "base": self.base,
            "cpu": self.cpu,
            "features": list(self.features),
            "preparation_seconds": self.preparation,
            "seconds": self.seconds,
            "noise": self.noise(),
            "figures": [_figure(figure) for figure in self.figures],
            "lines": {folder: list(counts) for folder, counts in self.lines.items()},
        }

    def noise(self) -> dict[str, float]:
        """Return by kind the median share by which the control differed from base."""
        kinds = dict.fromkeys(figure.kind for figure in self.figures if figure.kind != "wheel")
        return {kind: median(noises) for kind in kinds if (noises := [*_noises(self.figures, kind)])}

    def markdown(self) -> str:
        return "\n".join(_page(self))


def _noises(figures: Sequence[Figure], kind: str) -> Iterator[float]:
    return (figure.comparison.noise for figure in figures if figure.kind == kind and figure.comparison is not None)


def _figure(figure: Figure) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": figure.kind, "name": figure.name, "changed": figure.changed, "failure": figure.failure}
    if figure.comparison is not None:
        data |= asdict(figure.comparison)
    return data


def _page(report: Report) -> Iterator[str]:
    yield f"# {report.changed} compared with {report.base}\n"
    yield f"{report.cpu}: {', '.join(report.features)}."
    yield f"Measured in {report.seconds / 60:.1f} minutes, after {report.preparation / 60:.1f} minutes of preparation.\n"
    reported = [figure for figure in report.figures if figure.changed]
    worse = [figure for figure in reported if figure.worse]
    better = [figure for figure in reported if not figure.worse]
    for heading, figures in {
        "Failed": [figure for figure in worse if figure.failure],
        "Slower": [figure for figure in worse if figure.kind in TIMES and not figure.failure],
        "Larger": [figure for figure in worse if figure.kind not in TIMES],
        "Faster": [figure for figure in better if figure.kind in TIMES],
        "Smaller": [figure for figure in better if figure.kind not in TIMES],
    }.items():
        if figures:
            yield from _section(heading, figures)
    rest = [figure for figure in report.figures if not figure.changed]
    yield f"Unchanged: {len([figure for figure in rest if not figure.failure])} of {len(report.figures)}.\n"
    for figure in rest:
        if figure.failure:
            yield f"Not compared: {figure.name}: {figure.failure}\n"
    noise = ", ".join(f"{kind} {share:.1%}" for kind, share in report.noise().items())
    if noise:
        yield f"Noise, the median difference between two processes of {report.base}: {noise}.\n"
    yield from _lines(report.lines)


def _section(heading: str, figures: Sequence[Figure]) -> Iterator[str]:
    yield f"## {heading}\n\n| what | base | ratio | 95 % interval | noise |\n| --- | ---: | ---: | ---: | ---: |"
    for figure in figures:
        found = figure.comparison
        if found is None:
            yield f"| {figure.name} | {figure.failure} | | | |"
            continue
        low, high = found.interval
        yield f"| {figure.name} | {_amount(figure, found.base)} | {found.ratio:.3f} | {low:.3f} to {high:.3f} | {found.noise:.1%} |"
    yield ""


def _amount(figure: Figure, value: float) -> str:
    return f"{value * 1e3:.4g} ms" if figure.kind in TIMES else f"{value / 1e6:.4g} MB"


def _lines(lines: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """List the folders whose number of lines changed, and the sum."""
    different = {folder: counts for folder, counts in lines.items() if counts[0] != counts[1]}
    if not different:
        return
    total = sum(base for _, base in lines.values()), sum(changed for changed, _ in lines.values())
    yield "## Lines of code\n\n| folder | base | now |\n| --- | ---: | ---: |"
    for folder, (changed, base) in different.items():
        yield f"| {folder} | {base} | {changed} |"
    yield f"| all folders | {total[0]} | {total[1]} |\n"
