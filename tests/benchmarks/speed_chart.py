"""The chart of docs/index.md: how many times as fast as onnxruntime the benchmark rows are, drawn from the performance record."""

from collections.abc import Sequence
from html import escape
from math import log2
from pathlib import Path

from tests.benchmarks.record import Measurement

CHART = Path(__file__).parents[2] / "docs" / "pictures" / "speed.svg"
RIVAL, THREADS = "onnxruntime", 1
WIDTH, LABELS, ROW, TOP = 900, 300, 22, 58
TICKS = (0.5, 1, 2, 4, 8, 16)
COLOURS = ("#3949ab", "#00897b", "#f4511e", "#8e24aa")
"""One for each CPU. Readable on white and on black."""


def speed_chart(measurements: Sequence[Measurement]) -> str:
    """Return the chart as SVG: a bar for each row and CPU, on a logarithmic scale; bars to the right of 1 are faster."""
    chosen = [m for m in measurements if m.kind == "model" and m.rival == RIVAL and m.threads == THREADS and m.ratio]
    cpus = sorted({m.cpu for m in chosen if sum(other.cpu == m.cpu for other in chosen) == _most(chosen)})
    names = sorted({m.name for m in chosen if m.cpu in cpus})
    ratios = {(m.name, m.cpu): m.ratio for m in chosen}
    height = TOP + ROW * len(names) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"',
        ' fill="#808080">',
        f"<title>Speed of ort-lite as a multiple of onnxruntime's, {THREADS} thread</title>",
        *_legend(cpus),
        *_grid(height),
    ]
    for row, name in enumerate(names):
        top = TOP + ROW * row
        parts.append(f'<text x="{LABELS - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>')
        for k, cpu in enumerate(cpus):
            if (ratio := ratios.get((name, cpu))) is not None:
                parts += _bar(
                    ratio, top + 2 + k * (ROW - 4) / len(cpus), (ROW - 4) / len(cpus) - 1, COLOURS[k], f"{name}, {cpu}"
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _most(measurements: Sequence[Measurement]) -> int:
    """Return the number of rows of the CPU with the most."""
    return max(sum(other.cpu == m.cpu for other in measurements) for m in measurements)


def _x(ratio: float) -> float:
    first, last = log2(TICKS[0]), log2(TICKS[-1])
    return LABELS + (log2(min(max(ratio, TICKS[0]), TICKS[-1])) - first) / (last - first) * (WIDTH - LABELS - 20)


def _legend(cpus: Sequence[str]) -> list[str]:
    lines = [f'<text x="{LABELS}" y="16">Times as fast as {RIVAL}, {THREADS} thread</text>']
    for k, cpu in enumerate(cpus):
        left = 190 + 235 * k
        lines.append(f'<rect x="{left}" y="24" width="12" height="12" fill="{COLOURS[k]}"/>')
        lines.append(f'<text x="{left + 18}" y="34">{escape(cpu)}</text>')
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
