"""Charts of how many times as fast as other runtimes ort-lite is, drawn from the performance record."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import log2
from pathlib import Path

from tests.benchmarks.record import Measurement
from tests.benchmarks.zoo.catalog import ZOO

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
RIVALS = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO"}
THREADS = 1
WIDTH, LABELS, ROW, TOP = 900, 300, 22, 58
TICKS = (0.5, 1, 2, 4, 8, 16)
COLOURS = ("#3949ab", "#00897b", "#f4511e", "#8e24aa")
"""One for each series. Readable on white and on black."""

Series = Mapping[str, Mapping[str, float]]
"""Ratios by name of the series and of the row."""


def speed_chart(measurements: Sequence[Measurement]) -> str:
    """Return the chart of the benchmark rows compared with onnxruntime: a bar for each row and CPU.

    Undated measurements are of older versions, and left out. Of a CPU with several sets of features, the latest counts.
    """
    chosen = [m for m in latest(measurements, "model") if m.rival == "onnxruntime"]
    series: dict[str, dict[str, float]] = {}
    for m in chosen:
        if m.ratio is not None:
            series.setdefault(m.cpu, {})[m.name] = m.ratio
    most = max(map(len, series.values()), default=0)
    whole = {cpu: ratios for cpu, ratios in sorted(series.items()) if len(ratios) == most}
    return draw(
        f"Times as fast as onnxruntime, {THREADS} thread", whole, sorted({name for found in whole.values() for name in found})
    )


def zoo_chart(measurements: Sequence[Measurement]) -> str:
    """Return the chart of the zoo on the CPU that was measured last: a bar for each model and rival."""
    found = latest(measurements, "zoo")
    cpu = max(found, key=lambda m: m.date).cpu if found else ""
    series: dict[str, dict[str, float]] = {label: {} for label in RIVALS.values()}
    for m in found:
        if m.cpu == cpu and m.name in ZOO and m.ratio is not None:
            series[RIVALS[m.rival]][ZOO[m.name].title] = m.ratio
    titles = [entry.title for entry in ZOO.values() if any(entry.title in ratios for ratios in series.values())]
    return draw(f"Times as fast as other runtimes, {THREADS} thread, {cpu}".removesuffix(", "), series, titles)


CHARTS: Mapping[Path, Callable[[Sequence[Measurement]], str]] = {
    PICTURES / "speed.svg": speed_chart,
    PICTURES / "zoo.svg": zoo_chart,
}
"""Every chart, and what draws it."""


def latest(measurements: Sequence[Measurement], kind: str) -> list[Measurement]:
    """Return the dated measurements with one thread of each CPU, as it was when it was measured last."""
    dated = [m for m in measurements if m.kind == kind and m.threads == THREADS and m.date]
    features = {m.cpu: m.features for m in sorted(dated, key=lambda m: m.date)}
    return [m for m in dated if m.features == features[m.cpu]]


def draw(title: str, series: Series, names: Sequence[str]) -> str:
    """Return bars as SVG on a logarithmic scale. Those to the right of 1 are faster."""
    height = TOP + ROW * len(names) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"',
        ' fill="#808080">',
        f"<title>{escape(title)}</title>",
        *_legend(title, list(series)),
        *_grid(height),
    ]
    thickness = (ROW - 4) / max(1, len(series))
    for row, name in enumerate(names):
        top = TOP + ROW * row
        parts.append(f'<text x="{LABELS - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>')
        for k, (label, ratios) in enumerate(series.items()):
            if name in ratios:
                parts += _bar(ratios[name], top + 2 + k * thickness, thickness - 1, COLOURS[k], f"{name}, {label}")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    first, last = log2(TICKS[0]), log2(TICKS[-1])
    return LABELS + (log2(min(max(ratio, TICKS[0]), TICKS[-1])) - first) / (last - first) * (WIDTH - LABELS - 20)


def _legend(title: str, labels: Sequence[str]) -> list[str]:
    lines = [f'<text x="{LABELS}" y="16">{escape(title)}</text>']
    for k, label in enumerate(labels):
        left = 190 + 235 * k
        lines.append(f'<rect x="{left}" y="24" width="12" height="12" fill="{COLOURS[k]}"/>')
        lines.append(f'<text x="{left + 18}" y="34">{escape(label)}</text>')
    return lines


def _grid(height: int) -> list[str]:
    lines = []
    for tick in TICKS:
        strong = ' stroke-width="2"' if tick == 1 else ' stroke-opacity=".4"'
        lines.append(f'<path d="M{_x(tick):.1f} {TOP - 4}V{height - 8}" stroke="#808080"{strong}/>')
        lines.append(f'<text x="{_x(tick):.1f}" y="{TOP - 8}" text-anchor="middle">{tick:g}</text>')
    return lines


def _bar(ratio: float, top: float, thickness: float, colour: str, title: str) -> list[str]:
    left, right = sorted((_x(1), _x(ratio)))
    box = f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{thickness:.1f}" fill="{colour}">'
    return [f"{box}<title>{escape(title)}: {ratio:.2f}</title></rect>"]
