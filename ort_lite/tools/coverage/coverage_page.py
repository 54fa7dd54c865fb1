"""The coverage of a collection of models as one HTML page."""

from collections.abc import Iterable, Sequence
from html import escape

from ort_lite.tools.coverage.coverage_report import CoverageGap, CoverageReport, Sums

_STYLE = """body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin-bottom: 2em } td, th { padding: .2em 1em .2em 0; text-align: left; vertical-align: top }
td.number, th.number { text-align: right } caption { text-align: left; font-weight: bold; padding-bottom: .5em }"""


def page(coverage: CoverageReport, summary: Iterable[str]) -> str:
    """Return the page. `summary` are sentences at its top."""
    title = f"Coverage of {len(coverage.models)} models by {coverage.provider}"
    parts = [f"<p>{escape(line)}</p>" for line in summary]
    parts.append(_gap_table("Implement these operators next", coverage.next_operators()))
    parts.append(_gap_table("Why nodes are off the device", coverage.reasons()))
    parts.append(_models(coverage))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _gap_table(caption: str, ranked: Sequence[CoverageGap]) -> str:
    head = ("", "nodes", "ms", "share", "models", "last gap of")
    rows = [
        (one.name, f"{one.nodes:,}", f"{one.seconds * 1e3:,.3f}", f"{one.share:.1%}", str(one.models), str(one.last))
        for one in ranked
    ]
    return _table(caption, head, rows)


def _models(coverage: CoverageReport) -> str:
    head = ("model", "nodes on", "nodes off", "ms on", "ms off", "timed on", "free size", "error")
    data = coverage.as_dict()["models"]
    rows = [
        (
            model["path"],
            *(f"{model[side]['nodes']:,}" for side in ("on_device", "off_device")),
            *(f"{model[side]['seconds'] * 1e3:,.3f}" for side in ("on_device", "off_device")),
            model["timed_on"],
            str(model["size"] or ""),
            model["error"],
        )
        for model in data
    ]
    return _table("Models", head, rows)


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [
        "<tr>" + "".join(f"<td{_number(head[k])}>{escape(cell)}</td>" for k, cell in enumerate(row)) + "</tr>" for row in rows
    ]
    header = "<tr>" + "".join(f"<th{_number(name)}>{escape(name)}</th>" for name in head) + "</tr>"
    return "\n".join([f"<table><caption>{escape(caption)}</caption>", header, *cells, "</table>"])


def _number(column: str) -> str:
    return "" if column in ("", "model", "timed on", "error") else ' class="number"'


def summarize(name: str, sums: Sums, whole: Sums) -> str:
    """Return a sentence about a side of the device."""
    share = sums.seconds / whole.seconds if whole.seconds else 0.0
    timed = f", {sums.seconds * 1e3:,.3f} ms ({share:.1%} of the time)" if whole.seconds else ""
    return (
        f"{name}: {sums.nodes:,} of {whole.nodes:,} nodes, {sums.operations / 1e9:,.3g} of {whole.operations / 1e9:,.3g} "
        f"GFLOP{timed}"
    )
