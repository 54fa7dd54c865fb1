"""Tables of time per node, for `ort-lite bench --nodes` and `ort-lite profile`."""

from collections.abc import Mapping, Sequence
from typing import Any

from ort_lite.errors import shorten
from ort_lite.record import asdict
from ort_lite.tools.cli.benchmark.machine_peaks import Peaks
from ort_lite.tools.cli.printing import print_table, print_text
from ort_lite.tools.view.node_times import NodeTime, Profile

COLUMNS = (
    *("node", "operator", "ms", "predicted ms", "share", "MB", "GFLOP", "GFLOP/s", "GB/s", "of peak"),
    *("kernel", "runner-up", "shapes"),
)
PREDICTIONS = (
    "Predicted times are those of the kernel in one thread. For open dimensions they assume nominal sizes, mostly 256, instead of "
    "those of this run."
)
ABOVE_PEAK = (
    "More than 100% of peak: the operands were in a faster cache than those of a copy of their size, or the kernel needs fewer "
    "operations than the operator's definition (Winograd convolutions)."
)
WIDEST = 40
"""Characters of a name in the table: names of many nodes that became one are long, and JSON has them whole."""


def row_of(line: NodeTime, limits: Peaks, threads: int) -> dict[str, Any]:
    """Return a row of the table as plain data."""
    share, limit = limits.share(line, threads)
    return asdict(line) | {"of_peak": share, "limit": limit}


def show(found: Profile, limits: Peaks, rows: Sequence[Mapping[str, Any]], most: int, say: Any = print_text) -> None:
    """Print the table with `most` rows, or all rows if `most` is 0. `say` prints the line above it."""
    named = {row[key] for row in rows for key in ("instruction", "limit")}
    rates = [f"{name} {rate / 1e9:.1f} GFLOP/s" for name, rate in limits.operations.items() if name in named]
    say(
        f"a core: {', '.join([*rates, f'{limits.bandwidth / 1e9:.1f} GB/s copied'])}; {found.runs} runs of "
        f"{milliseconds(found.seconds)}, an instruction at a time"
    )
    top = rows[:most] if most > 0 else rows
    print_table(COLUMNS, map(_cells, top), COLUMNS[2:10])
    rest = sum(row["share"] for row in rows[len(top) :])
    if len(top) < len(rows):
        print_text(f"{len(rows) - len(top)} more nodes: {rest:.1%}")
    print_text(f"the rest, between nodes: {max(0.0, 1 - sum(row['share'] for row in rows)):.1%}")
    if any(row["predicted"] is not None for row in top):
        print_text(PREDICTIONS)
    if any(row["of_peak"] > 1 for row in top):
        print_text(ABOVE_PEAK)


def _cells(row: Mapping[str, Any]) -> list[str]:
    seconds, made = row["seconds"], row["operations"]
    return [
        shorten(row["name"], WIDEST),
        shorten(row["operator"], WIDEST),
        f"{seconds * 1e3:.4f}",
        "" if row["predicted"] is None else f"{row['predicted'] * 1e3:.4f}",
        f"{row['share']:.1%}",
        f"{row['nbytes'] / 1e6:.3f}",
        "" if made is None else f"{made / 1e9:.4f}",
        _rate(made, seconds),
        _rate(row["nbytes"], seconds),
        f"{row['limit']}, {row['of_peak']:.0%}",
        shorten(row["kernel"], WIDEST),
        shorten(row["runner_up"], WIDEST),
        row["shapes"],
    ]


def _rate(amount: float | None, seconds: float) -> str:
    """Format a rate of operations or bytes, in billions per second."""
    return "" if amount is None or not seconds else f"{amount / seconds / 1e9:.1f}"


def milliseconds(seconds: float) -> str:
    """Format a time in milliseconds."""
    return f"{seconds * 1e3:.4g} ms"
