"""The display of a session in a notebook: each provider's share of the model, its inputs and its outputs."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ort_lite.plugins.selection import DEFAULT
from ort_lite.session.explanation import Explanation
from ort_lite.session.metadata import NodeArg
from ort_lite.tools.view.tables import table

_PALETTE = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#0072b2")
"""Okabe and Ito's colours, which colour-blind people tell apart; names and numbers stand beside them. The page has the same."""
_WIDTH, _HEIGHT = 480, 14
_MOST = 50
"""Inputs, or outputs, that are shown."""


def html_of(title: str, explanation: Explanation, inputs: Sequence[NodeArg], outputs: Sequence[NodeArg]) -> str:
    """Return static HTML of at most 25 kB. `title` is the model's name."""
    counts = dict.fromkeys(explanation.assignment.providers, 0)
    for place in explanation.assignment.placements.values():
        counts[place.provider] += 1
    rows = [*_rows("input", inputs), *_rows("output", outputs)]
    more = "<code>session.view(feeds)</code> is the graph with what each node takes, <code>session.explain()</code> says why."
    return (
        f"<div><p><b>{escape(title[:100])}</b></p>{_bar(counts)}{table(('', 'name', 'type', 'shape'), rows)}<p>{more}</p></div>"
    )


def _rows(kind: str, args: Sequence[NodeArg]) -> Iterator[tuple[str, ...]]:
    yield from ((kind, arg.name, arg.type, str(arg.shape)) for arg in args[:_MOST])
    if len(args) > _MOST:
        yield kind, f"and {len(args) - _MOST} more", "", ""


def _bar(counts: Mapping[str, int]) -> str:
    """Return the number of nodes per provider, as a bar to scale and as text."""
    scale = _WIDTH / max(1, sum(counts.values()))
    places: list[str] = []
    said: list[str] = []
    x = 0.0
    others = sorted(name for name in counts if name != DEFAULT)
    for name, count in counts.items():
        colour = _PALETTE[(others.index(name) + 1 if name != DEFAULT else 0) % len(_PALETTE)]
        width = count * scale
        places.append(
            f'<rect x="{x:.1f}" width="{width:.1f}" height="{_HEIGHT}" fill="{colour}" stroke="currentColor" stroke-width=".5">'
            f"<title>{escape(name)}: {count}</title></rect>"
        )
        mark = f'<svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" fill="{colour}"/></svg>'
        said.append(f"{mark} {escape(name)}: {count} {'node' if count == 1 else 'nodes'}")
        x += width
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" style="max-width:100%"'
    return f'<svg {size} role="img" aria-label="Nodes by provider">{"".join(places)}</svg><p>{", ".join(said)}</p>'
