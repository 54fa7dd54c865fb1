"""The generated parts of README.md, docs/performance.md and docs/why.md: tables and sentences out of the performance record."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ort_lite.tools.cli.benchmark.comparison import NOISE
from tests.benchmarks.record import DECIMALS, RECORD, Measurement
from tests.benchmarks.rows import row_names
from tests.benchmarks.speed_chart import RIVALS
from tests.benchmarks.summary import SLOWER, Comparison, CpuSummary, by_cpu, comparison, cpu_summaries
from tests.benchmarks.zoo.catalog import ZOO

DOCS = RECORD.parent
BEGIN = "<!-- Generated from docs/performance.jsonl by `python -m tests.benchmarks.table`. Don't edit. -->\n"
END = "<!-- End of the generated part. -->\n"
MEAN, DIFFERS = "geometric mean", "results differ"
CHOSEN = ("light_resnet50", "attention block, 12 heads, 128 x 384", "GEMM 512", "depthwise-separable block, 96 at 56")
"""Rows in docs/why.md, the slow ones among them."""
SLOWEST = 10

Cells = Mapping[tuple[str, str, int], Measurement]
"""By title, rival and number of threads."""


def regenerate(path: Path, body: str) -> bool:
    """Replace what is between the markers of a page, and return whether that changed the page."""
    text = path.read_text(encoding="utf-8")
    if (made := with_body(text, body)) == text:
        return False
    path.write_text(made, encoding="utf-8")
    return True


def with_body(page: str, body: str) -> str:
    """Return the page with another generated part. Raises ValueError for a page without the two markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{BEGIN}\n{body.strip()}\n\n{END}{after}"


def performance(measurements: Sequence[Measurement]) -> str:
    """The generated part of docs/performance.md: all CPUs at a glance, then a section for each."""
    summaries = {summary.name: summary for summary in cpu_summaries(measurements)}
    parts = ["## Summary", _glance(summaries.values())]
    if any(m.kind == "zoo" for m in measurements):
        parts.append("![How many times as fast as other runtimes each modern model is](pictures/zoo.svg)")
    for name, of_cpu in by_cpu(measurements):
        parts += [f"## {name}", *_cpu_section(of_cpu, summaries.get(name))]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def why(measurements: Sequence[Measurement]) -> str:
    """The generated part of docs/why.md: the mean and a few rows, with 1 and 2 threads."""
    lines = []
    for summary in cpu_summaries(measurements):
        cells = _cells(summary.measurements)
        for rival in _rivals(summary.measurements):
            means = {t: _mean(found).strip("*") for (r, t), found in summary.comparisons.items() if r == rival}
            ratios = [_pair([_ratio(cells.get((name, rival, t))) for t in means]) for name in CHOSEN]
            lines.append([summary.name, _rival(rival), _pair(means.values()), *ratios])
    return table(["CPU", "compared with", MEAN, *CHOSEN], lines, texts=2)


def readme(measurements: Sequence[Measurement]) -> str:
    """The generated part of README.md: the means of each CPU with 1 and 2 threads, and the rows that are slower than a rival."""
    summaries = list(cpu_summaries(measurements))
    rivals = _rivals(measurements)
    lines, losses = [], []
    for summary in summaries:
        means = [[_mean(found).strip("*") for (r, _), found in summary.comparisons.items() if r == rival] for rival in rivals]
        lines.append([summary.name, *(" / ".join(of_rival) for of_rival in means)])
        losses += [f"- {loss}" for rival in rivals if (loss := _losses_of(summary.name, summary.measurements, rival))]
    text = table(["CPU", *(f"vs. {_rival(rival)}, 1 / 2 threads" for rival in rivals)], lines)
    count = max(found.count for summary in summaries for found in summary.comparisons.values())
    zoo = [(name, [m for m in of_cpu if m.kind == "zoo"]) for name, of_cpu in by_cpu(measurements)]
    zoo.sort(key=lambda entry: max((m.date for m in entry[1]), default=""), reverse=True)
    modern = [
        _modern(name, found) if number == 0 else _means_of(name, found) for number, (name, found) in enumerate(zoo) if found
    ]
    losses += [f"- {loss}" for name, found in zoo for rival in _rivals(found) if (loss := _losses_of(name, found, rival))]
    lost = "Rows in which ort-lite is slower, with 1 / 2 threads:\n\n" + "\n".join(losses) if losses else "No row is slower."
    return "\n".join([f"Geometric means over {count} models and operators:\n\n{text}", *modern, lost])


def _modern(name: str, zoo: Sequence[Measurement]) -> str:
    """The table of modern models for the README: some rows of the zoo, and the means of all."""
    cells, rivals, comparisons = _cells(zoo), _rivals(zoo), _comparisons(zoo)
    counts = sorted({m.threads for m in zoo})
    lines = []
    for title, entry in ZOO.items():
        found = [[cells.get((title, rival, n)) for n in counts] for rival in rivals]
        times = [next((m.ours for m in of_count if m is not None), None) for of_count in zip(*found, strict=True)]
        if entry.headline and any(times):
            lines.append([entry.title, " / ".join(map(_time, times)), *(_pair(map(_ratio, row), " / ") for row in found)])
    means = [_pair([_mean(comparisons.get((rival, n))).strip("*") for n in counts], " / ") for rival in rivals]
    count = len({m.name for m in zoo})
    columns = ["modern models", "ort-lite, 1 / 2 threads", *(f"vs. {_rival(rival)}" for rival in rivals)]
    lines.append([f"geometric mean of all {count}", "", *means])
    return f"Models that people deploy today, with random weights, on {name}:\n\n{table(columns, lines)}"


def _means_of(name: str, zoo: Sequence[Measurement]) -> str:
    """The means of modern models on one more CPU, as a line of the README."""
    rivals, comparisons = _rivals(zoo), _comparisons(zoo)
    counts = sorted({m.threads for m in zoo})
    means = [f"{_pair([_mean(comparisons.get((r, n))).strip('*') for n in counts], ' / ')} (vs. {_rival(r)})" for r in rivals]
    return f"The same means on {name}: {', '.join(means)}.\n"


def _losses_of(cpu: str, measurements: Iterable[Measurement], rival: str) -> str:
    """Name the rows of a CPU that are slower than a rival with any number of threads, the slowest first."""
    ratios: dict[str, list[float]] = {}
    for m in measurements:
        if m.rival == rival and m.ratio is not None:
            ratios.setdefault(_name(m.title, code=False), []).append(m.ratio)
    slower = sorted((title for title in ratios if min(ratios[title]) < SLOWER), key=lambda title: min(ratios[title]))
    rows = "; ".join(f"{title} ({' / '.join(f'{ratio:.2f}' for ratio in ratios[title])})" for title in slower)
    return f"{cpu}, compared with {_rival(rival)}: {rows}." if rows else ""


def table(columns: Sequence[str], lines: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A Markdown table. All columns except the first `texts` hold numbers."""
    rule = ["---"] * texts + ["---:"] * (len(columns) - texts)
    return "".join(f"| {' | '.join(line)} |\n" for line in [columns, rule, *lines])


def _glance(summaries: Iterable[CpuSummary]) -> str:
    summaries = list(summaries)
    pairs = sorted({pair for summary in summaries for pair in summary.comparisons}, key=lambda pair: (_order(pair[0]), pair[1]))
    lines = []
    for summary in summaries:
        means = (summary.comparisons.get(pair) for pair in pairs)
        lines.append([summary.name, *map(_mean, means)])
    text = table(["CPU", *(f"{_rival(rival)}, {_threads(count)}" for rival, count in pairs)], lines)
    return f"Geometric means of the ratios.\n\n{text}"


def _cpu_section(measurements: Sequence[Measurement], summary: CpuSummary | None) -> Iterator[str]:
    """Yield the paragraphs of one CPU."""
    if measurements[0].features:
        yield f"Vector features: {', '.join(measurements[0].features)}."
    if summary is not None:
        yield _facts(summary.measurements, summary.comparisons)
        names = {m.name for m in summary.measurements}
        yield _figures(summary.measurements, [name for name in row_names() if name in names])
    others = [m for m in measurements if m.kind == "model" and m.name not in row_names()]
    operators = [m for m in measurements if m.kind == "operator"]
    if zoo := [m for m in measurements if m.kind == "zoo"]:
        yield f"### Modern models\n\n{_facts(zoo, _comparisons(zoo))}"
        yield _figures(zoo, [name for name in ZOO if name in {m.name for m in zoo}])
    if others:
        yield f"### Other models\n\n{_facts(others, _comparisons(others))}"
        yield _figures(others, sorted({m.title for m in others}))
    if operators:
        yield f"### Single operators\n\n{_facts(operators, _comparisons(operators), SLOWEST)}"
        rows = _figures(operators, sorted({m.title for m in operators}))
        count = len({m.title for m in operators})
        yield f"<details markdown>\n<summary>All {count} operators</summary>\n\n{rows}\n</details>"


def _comparisons(measurements: Sequence[Measurement]) -> dict[tuple[str, int], Comparison]:
    pairs = sorted({(m.rival, m.threads) for m in measurements})
    return {pair: comparison([m for m in measurements if (m.rival, m.threads) == pair]) for pair in pairs}


def _facts(measurements: Sequence[Measurement], comparisons: Mapping[tuple[str, int], Comparison], limit: int = 99) -> str:
    """What was measured, how noisy it was, and where ort-lite loses, as a list with an item for each rival."""
    items = []
    for rival in _rivals(measurements):
        of_rival = [m for m in measurements if m.rival == rival]
        items.append(f"- {_versions(rival, of_rival)}{_noise(rival, of_rival)}")
        for (other, threads), found in comparisons.items():
            if other == rival:
                items.append(f"    - {_losses(rival, threads, found, limit, code=measurements[0].kind == 'operator')}")
    return "\n".join(items)


def _versions(rival: str, measurements: Sequence[Measurement]) -> str:
    """A sentence for every combination of versions, dates and settings among the measurements."""
    texts: dict[str, None] = {}
    for m in measurements:
        text = f"ort-lite {m.version} was compared with {_rival(rival)} {m.rival_version.partition('-')[0]}".rstrip()
        text += f" on {m.date}" * bool(m.date) + f", with NumPy {m.numpy}" * bool(m.numpy)
        text += f", on {m.cores} cores" if m.cores else ""
        text += f", for {m.seconds:g} s a row with each number of threads" if m.seconds else ""
        texts[f"{text}."] = None
    return " ".join(sorted(texts))


def _noise(rival: str, measurements: Sequence[Measurement]) -> str:
    noisy, known = sum(map(_noisy, measurements)), sum(m.noise is not None for m in measurements)
    return f" The noise exceeds {NOISE:.0%} in {noisy} of {known} measurements." if noisy else ""


def _losses(rival: str, threads: int, found: Comparison, limit: int, code: bool) -> str:
    """Name the rows that are slower than the rival, the slowest first."""
    start = f"Slower than {_rival(rival)} with {_threads(threads)}"
    if not found.slower:
        return f"{start}: none of {found.count}."
    shown = [f"{_name(title, code)} ({ratio:.2f})" for title, ratio in list(found.slower.items())[:limit]]
    rest = f"; and {len(found.slower) - limit} more" if len(found.slower) > limit else ""
    return f"{start}, {len(found.slower)} of {found.count}: {'; '.join(shown)}{rest}."


def _figures(measurements: Sequence[Measurement], titles: Iterable[str]) -> str:
    """A table with a line for each title, and their mean. Columns that are empty throughout are left out."""
    cells, rivals = _cells(measurements), _rivals(measurements)
    counts = sorted({m.threads for m in measurements})
    columns = [""]
    for n in counts:
        columns += [f"{name}, {_threads(n)}" for name in ("ort-lite", "of the roofline", *map(_rival, rivals))]
    lines = []
    for title in titles:
        line = [_name(title, code=measurements[0].kind == "operator")]
        for n in counts:
            found = [cells.get((title, rival, n)) for rival in rivals]
            own = next((m for m in found if m is not None), None)
            line += [_time(own.ours if own else None), _of_roofline(own), *map(_cell, found)]
        lines.append(line)
    comparisons, mean = _comparisons(measurements), [MEAN]
    for n in counts:
        means = (comparisons.get((rival, n)) for rival in rivals)
        mean += ["", "", *map(_mean, means)]
    kept = [k for k in range(len(columns)) if k == 0 or any(line[k] for line in lines)]
    return table([columns[k] for k in kept], ([line[k] for k in kept] for line in [*lines, mean]))


def _cells(measurements: Iterable[Measurement]) -> Cells:
    return {(m.title, m.rival, m.threads): m for m in measurements}


def _cell(found: Measurement | None) -> str:
    """The ratio, the rival's time, and the noise where it is considerable."""
    if found is None:
        return ""
    time = f" ({_time(found.theirs)})" if found.theirs else ""
    noise = f", noise {abs((found.noise or 1) - 1):.0%}" if _noisy(found) else ""
    return f"{_ratio(found)}{time}{noise}"


def _of_roofline(found: Measurement | None) -> str:
    return f"{found.roofline / found.ours:.0%}" if found and found.roofline and found.ours else ""


def _mean(found: Comparison | None) -> str:
    return "" if found is None or found.mean is None else f"**{found.mean:.2f}**"


def _ratio(found: Measurement | None) -> str:
    if found is None:
        return ""
    return DIFFERS if found.ratio is None else f"{found.ratio:.2f}"


def _pair(cells: Iterable[str], between: str = ", ") -> str:
    cells = list(cells)
    if set(cells) <= {DIFFERS, ""}:
        return max(cells, default="")
    return between.join(cells)


def _noisy(found: Measurement) -> bool:
    return found.noise is not None and round(abs(found.noise - 1), DECIMALS) > NOISE


def _name(title: str, code: bool) -> str:
    """The name of a row. Those of operators hold characters that Markdown would take for its own."""
    return f"`{title}`" if code else ZOO[title].title if title in ZOO else title


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.4g} ms"


def _rival(name: str) -> str:
    return RIVALS.get(name, name)


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def _order(rival: str) -> tuple[int, str]:
    return (list(RIVALS).index(rival) if rival in RIVALS else len(RIVALS), rival)


def _rivals(measurements: Iterable[Measurement]) -> list[str]:
    return sorted({m.rival for m in measurements}, key=_order)


PAGES: Mapping[Path, Callable[[Sequence[Measurement]], str]] = {
    DOCS.parent / "README.md": readme,
    DOCS / "performance.md": performance,
    DOCS / "why.md": why,
}
"""Every page with a generated part, and what generates it."""
