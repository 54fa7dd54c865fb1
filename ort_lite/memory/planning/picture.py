"""A memory plan drawn for a notebook: time across, bytes up, a rectangle per tensor. SVG without scripts or colours."""

from collections.abc import Iterator, Sequence
from html import escape

from ort_lite.errors import shorten
from ort_lite.record import Record

MOST = 250
"""The most tensors that are drawn; the largest are chosen."""
_ARENAS = 3
_WIDTH, _HEIGHT, _TOP = 720, 220, 22
"""Pixels: the size of the part drawn to scale, and the margin above it."""
_NAME = 60


class Box(Record):
    """A tensor: bytes `offset` to `offset + size`, operators `begin` to `end`, which is exclusive."""

    name: str
    offset: int
    size: int
    begin: int
    end: int


class ArenaPicture(Record):
    """An arena to draw. `bound` is a lower bound on the size of any plan, and `limit` the bytes that there are, if limited."""

    title: str
    boxes: Sequence[Box]
    bound: int
    limit: int | None = None

    @property
    def size(self) -> int:
        """The end of the last box, in bytes."""
        return max((box.offset + box.size for box in self.boxes), default=0)


def html_of(arenas: Sequence[ArenaPicture], others: Sequence[str]) -> str:
    """Draw the largest arenas, each with its bound as a line, in at most 50 kB. `others` are lines of text."""
    drawn = sorted(arenas, key=lambda arena: -arena.size)[:_ARENAS]
    lines = [text for arena in drawn for text in _arena(arena, MOST // len(drawn))]
    lines += [f"<p>{escape(line)}</p>" for line in others]
    if len(arenas) > len(drawn):
        lines.append(f"<p>{len(arenas) - len(drawn)} smaller arenas are not drawn.</p>")
    return "\n".join(["<div>", *(lines or ["<p>Nothing is planned yet: a run plans its memory.</p>"]), "</div>"])


def _arena(arena: ArenaPicture, most: int) -> Iterator[str]:
    yield f"<p>{escape(arena.title)}</p>"
    boxes = sorted(arena.boxes, key=lambda box: -box.size)
    if arena.size:
        yield _svg(arena, boxes[:most])
    if len(boxes) > most:
        yield f"<p>The {len(boxes) - most} smallest of {len(boxes)} tensors are not drawn.</p>"


def _svg(arena: ArenaPicture, boxes: Sequence[Box]) -> str:
    steps = max(box.end for box in arena.boxes)
    is_near = arena.limit is not None and arena.limit <= 2 * arena.size
    across, up = _WIDTH / steps, _HEIGHT / max(arena.size, arena.bound, (arena.limit or 0) * is_near)
    lines = [
        f'<svg viewBox="0 0 {_WIDTH} {_TOP + _HEIGHT + 16}" width="100%" style="max-width:{_WIDTH}px" role="img" '
        'aria-label="Memory plan: operators across, bytes up" fill="currentColor" font-size="11">',
        '<g fill-opacity=".3" stroke="currentColor" stroke-opacity=".7" stroke-width=".5">',
        *(_rectangle(box, across, up) for box in boxes),
        "</g>",
        _line("lower bound", arena.bound, up),
        *([_line("limit", arena.limit, up, "start")] if arena.limit is not None and is_near else []),
        f'<text x="0" y="{_TOP + _HEIGHT + 12}">operator 0</text>',
        f'<text x="{_WIDTH}" y="{_TOP + _HEIGHT + 12}" text-anchor="end">{steps - 1}</text>',
        "</svg>",
    ]
    return "\n".join(lines)


def _rectangle(box: Box, across: float, up: float) -> str:
    told = escape(f"{shorten(box.name, _NAME)}: {box.size:,} bytes at {box.offset:,}, operators {box.begin} to {box.end - 1}")
    y, width = _TOP + _HEIGHT - (box.offset + box.size) * up, (box.end - box.begin) * across
    where = f'x="{box.begin * across:.1f}" y="{y:.1f}" width="{width:.1f}" height="{box.size * up:.1f}"'
    return f"<rect {where}><title>{told}</title></rect>"


def _line(name: str, nbytes: int, up: float, side: str = "end") -> str:
    """Draw a line at a height, with its name on the left ("start") or on the right."""
    y = _TOP + _HEIGHT - nbytes * up
    stroke = 'stroke="currentColor" stroke-width="1.5" stroke-dasharray="6 4"'
    x = _WIDTH if side == "end" else 0
    label = f'<text x="{x}" y="{y - 5:.1f}" text-anchor="{side}">{name} {nbytes:,} bytes</text>'
    return f'<line x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" {stroke}/>{label}'
