"""Write docs/predicted-costs.md: what kernels were predicted to take, and took, for the nodes of models.

ort-lite bench MODEL.onnx --candidates --json REPORT.json          # for each model, on a machine that does nothing else
python -m tests.benchmarks.predictions "NAME=REPORT.json" ...      # in the order in which the page shows them
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_lite.tools.cli.benchmark.candidates import CLOSE, EQUAL, SHORT

PAGE = Path(__file__).parents[2] / "docs" / "predicted-costs.md"
HEAD = """# Predicted costs

Read this page to see which kernel computes each node of four models, which one would be next, and how good the predictions are by which
kernels are chosen. [Writing a kernel](writing-a-kernel.md#make-a-convolution-faster) explains candidates.

`ort-lite bench MODEL.onnx --candidates` measures such a table for your model. Times are microseconds of one thread, in the kernel
alone. Nodes under {short:g} us are left out. Recording a kernel call takes one or two microseconds, which predictions do not include.
`python -m tests.benchmarks.predictions` writes this page.
"""
Row = Mapping[str, Any]


def page(reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page for reports of `bench --candidates --json` by the name of a model."""
    parts = [HEAD.format(short=SHORT), *_summary(reports)]
    for name, report in reports.items():
        parts += ["", f"## {name}", "", *_table(_rows(report))]
    return "\n".join(parts) + "\n"


def _rows(report: Mapping[str, Any]) -> list[Row]:
    [rows] = report["candidates"].values()
    return [row for row in rows if row["measured"] >= SHORT]


def _summary(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    cpus = ", ".join(dict.fromkeys(report["cpu"] for report in reports.values()))
    yield f"Measured on {cpus}."
    yield ""
    yield f"| model | time, us | predicted within {CLOSE:g} times | kernel within {EQUAL - 1:.0%} of the fastest candidate |"
    yield "| --- | --: | --: | --: |"
    for name, report in reports.items():
        rows = _rows(report)
        time, choosing = sum(row["measured"] for row in rows), [row for row in rows if row["runner_up"]]
        close = sum(row["measured"] for row in rows if row["measured"] / CLOSE <= row["predicted"] <= row["measured"] * CLOSE)
        best = sum(row["measured"] for row in choosing if _is_best(row))
        chosen = sum(row["measured"] for row in choosing)
        yield f"| {name} | {time:,.0f} | {close / time:.0%} | {f'{best / chosen:.0%}' if chosen else 'no choice'} |"


def _is_best(row: Row) -> bool:
    totals = {name: one["total"] for name, one in row["candidates"].items()}
    return bool(totals[row["kernel"]] <= EQUAL * totals[row["fastest"]])


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| node | kernel | predicted | measured | runner-up | measured |"
    yield "| --- | --- | --: | --: | --- | --: |"
    for row in sorted(rows, key=lambda row: -row["measured"]):
        other = row["candidates"].get(row["runner_up"])
        last = f"{other['measured']:.1f}" if other else ""
        kernel = row["kernel"] if _is_best(row) else f"{row['kernel']} (fastest: {row['fastest']})"
        yield f"| {_shorten(row['node'])} | {kernel} | {row['predicted']:.1f} | {row['measured']:.1f} | {row['runner_up']} | {last} |"


def _shorten(name: str, most: int = 60) -> str:
    """Return a name that fits a column: fused nodes have the names of all, and folders of PyTorch's modules."""
    text = name.replace("|", "")
    return f"`{text}`" if len(text) <= most else f"`{text[: most // 2 - 1]}...{text[-most // 2 + 2 :]}`"


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    PAGE.write_text(page({name: json.loads(Path(path).read_text()) for name, path in given.items()}), encoding="utf-8")
