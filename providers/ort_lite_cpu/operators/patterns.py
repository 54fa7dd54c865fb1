"""Patterns of models, matched by RE2: its syntax, and a time linear in the text. Spec: github.com/google/re2/wiki/Syntax."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ort_lite.errors import NotImplemented as NotSupported
from ort_lite.graph import Node
from ort_lite_cpu.run.pace import CHARACTERS, Pace

LONGEST = 1 << 13
"""Bytes of all patterns of a node, in UTF-8: what RE2 makes of one may be thousands of times as long."""
MOST = 256
"""Patterns of a node."""
MEMORY, LEAST_MEMORY = 8 << 20, 256 << 10
"""Bytes that RE2 may use for the patterns of a node together, and for one of many at least. onnxruntime allows MEMORY for each."""
LONG = 1 << 22
"""Characters from which on a run does not wait for the bytes of a text."""
COSTLY, TOO_COSTLY = 10**7, 2 * 10**9
"""Bytes of a text times instructions of a pattern: what RE2 may spend 0.1 and 20 seconds on, where it spends the most on each."""
_INSTALL = "patterns of models are matched by RE2, which is not installed: pip install google-re2"
_CODEC = ("utf-8", "surrogatepass")
_NOWHERE = (-1, -1)
Span = tuple[int, int]
"""Where a match begins and ends."""


class TextPattern:
    """A compiled pattern. Texts are bytes of UTF-8, and so are positions."""

    __slots__ = ("_compiled", "_match", "_size")

    def __init__(self, compiled: Any) -> None:
        self._compiled, self._size = compiled, int(compiled.programsize)
        self._match = _direct(compiled) or self._wrap

    def __reduce__(self) -> tuple[Any, ...]:
        options = self._compiled.options
        return _compile_again, (self._compiled.pattern, options.max_mem, options.longest_match)

    def is_costly(self, data: bytes) -> bool:
        """Return True if a call may take longer than a run should wait for. Raises ValueError if it may take much longer."""
        cost = self._size * len(data)
        if cost > TOO_COSTLY:
            raise ValueError(
                f"a text of {len(data):,} bytes is too long for this pattern, of {self._size:,} instructions: "
                f"expected at most {TOO_COSTLY // self._size:,} bytes"
            )
        return cost > COSTLY

    def matches(self, data: bytes) -> bool:
        """Return True if the pattern matches the whole text."""
        return self._match(True, data, 0)[0] >= 0

    def find(self, data: bytes, start: int = 0) -> Span | None:
        """Return the start and end of the first match at or after `start`, or None."""
        span = self._match(False, data, start)
        return span if span[0] >= 0 else None

    def _wrap(self, whole: bool, data: bytes, start: int) -> Span:
        match = (self._compiled.fullmatch if whole else self._compiled.search)(data, start)
        return _NOWHERE if match is None else match.span()

    def find_all(self, data: bytes, pace: Pace) -> Iterator[Span]:
        """Return the matches in order, also empty ones. Checks for cancellation between them."""
        start = 0
        while (span := self.find(data, start)) is not None:
            pace.check()
            yield span
            begin, end = span
            start = end if begin < end else after(data, begin)
            if start > len(data):
                break


def _direct(compiled: Any) -> Callable[[bool, bytes, int], Span] | None:
    """Return the call below the package's Python classes, which take three quarters of the time; None if the version lacks it."""
    core: Any = getattr(compiled, "_regexp", None)
    anchor: Any = getattr(type(core), "Anchor", None)
    if anchor is None:
        return None
    match, anywhere, both = core.Match, anchor.UNANCHORED, anchor.ANCHOR_BOTH

    def direct(whole: bool, data: bytes, start: int) -> Span:
        span: Span = match(both if whole else anywhere, data, start, len(data))[0]
        return span

    return direct


def after(data: bytes, at: int) -> int:
    """Return the position behind the character at `at`; beyond the end of the text where there is none."""
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


def encode(text: str, pace: Pace) -> bytes:
    """Return the text as bytes. Checks for cancellation between pieces of a long text, which Python joins without the GIL."""
    if len(text) <= CHARACTERS:
        return text.encode(*_CODEC)
    pieces = [piece.encode(*_CODEC) for piece in pace.pieces(text)]
    return b"".join(pieces) if len(text) <= LONG else pace.beside(b"".join, pieces)


def decode(data: bytes) -> str:
    """Return the bytes as text."""
    return data.decode(*_CODEC)


def compile_patterns(node: Node, texts: Sequence[str], longest: bool = False) -> list[TextPattern]:
    """Return the patterns of a node; `longest`: the longest of the matches that begin first counts, else the first alternative.

    Raises NotImplemented for what RE2 rejects, and for too long or too many patterns.
    """
    sources = [_source(node, text) for text in texts]
    if len(sources) > MOST:
        raise _rejection(node, f"it has {len(sources)} patterns; expected at most {MOST}")
    if (total := sum(map(len, sources))) > LONGEST:
        raise _rejection(node, f"the length of its patterns is {total:,} bytes; expected at most {LONGEST:,}")
    re2 = _re2(node)
    options = _options(re2, max(MEMORY // max(len(sources), 1), LEAST_MEMORY), longest)
    try:
        return [_compile(node, re2, source, options) for source in sources]
    finally:
        re2.purge()  # its cache would keep 128 patterns with their memory


def _options(re2: Any, memory: int, longest: bool) -> Any:
    options = re2.Options()
    options.max_mem, options.longest_match, options.never_capture, options.log_errors = memory, longest, True, False
    return options


def _compile_again(source: bytes, memory: int, longest: bool) -> TextPattern:
    """Return a pattern that was compiled for another session."""
    import re2

    try:
        return TextPattern(re2.compile(source, _options(re2, memory, longest)))
    finally:
        re2.purge()


def _source(node: Node, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # bytes of a model that are no text come as surrogates
        raise _rejection(node, f"the pattern {text!r} is not UTF-8") from None


def _compile(node: Node, re2: Any, source: bytes, options: Any) -> TextPattern:
    try:
        return TextPattern(re2.compile(source, options))
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _rejection(node, f"RE2 rejects the pattern {_format_source(source)}: {text}") from None


def _format_source(source: bytes) -> str:
    text = repr(source.decode(errors="backslashreplace"))
    return text if len(text) <= 200 else f"{text[:200]}..."


def _re2(node: Node) -> Any:
    """Return the package. Others have a module of that name too, which go back to Python's `re` for patterns that they do not know."""
    try:
        import re2
    except ImportError as error:
        raise _rejection(node, f"{_INSTALL} ({error})") from None
    if not hasattr(re2, "Options"):
        raise _rejection(node, f"{_INSTALL}; the module 're2' that is there belongs to another package")
    return re2


def _rejection(node: Node, message: str) -> NotSupported:
    return NotSupported(f"{node} (CPUExecutionProvider): {message}").about(node)
