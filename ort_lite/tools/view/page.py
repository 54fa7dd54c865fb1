"""A document as one HTML file that needs no network: styles, scripts, libraries and data are inside."""

import base64
import gzip
import json
import lzma
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

from ort_lite.tools.view.document import Document

SCRIPTS = (
    "state",
    "document",
    "units",
    "colours",
    "table",
    "chart",
    "bars",
    "nesting",
    "layout",
    "faces",
    "paint",
    "walk",
    "graph",
    "blocks",
    "subjects",
    "legend",
    "tree",
    "details",
    "search",
    "explore",
    "changes",
    "stages",
    "rectangles",
    "memory",
    "tracks",
    "timeline",
    "differences",
    "compare",
    "address",
    "theme",
    "help",
    "main",
)
"""Modules of `page/`, each behind those that it imports from. In the page they are one script, so a name at top level is unique in all
of them. A module may have a style sheet of its name."""
_LIBRARIES = ("d3.min.js.xz", "plot.umd.min.js.xz", "elk-api.js")
_IMPORT = re.compile(r'^import .* from "[a-z./]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function |const |class )", re.MULTILINE)


def page_of(document: Document | None, script: str = "", style: str = "") -> str:
    """Return the page: 1.2 MB plus the document. Without a document it is empty until a script shows one.

    `script` is loaded after the page's own modules, and `style` belongs to it.
    """
    parts = {
        "<!--title-->": escape("" if document is None else document["title"]),
        "<!--more-style-->": style,
        "<!--more-script-->": _script(script),
        "<!--document-->": embed(document),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], _template())


def embed(document: Document | None) -> str:
    """Return the document as JSON without "<", which could end the script or start another."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def _template() -> str:
    """Return the page without the document, which is the same for every model."""
    folder = files("ort_lite.tools.view")
    parts = {
        "<!--style-->": "\n".join(_styles(folder.joinpath("page"))),
        "<!--libraries-->": "\n".join(_read_library(folder, name).decode() for name in _LIBRARIES),
        "<!--layout-->": _pack(_read_library(folder, "elk-worker.min.js.xz")),
        "<!--script-->": "\n".join(
            _script(folder.joinpath("page", f"{name}.js").read_text(encoding="utf-8")) for name in SCRIPTS
        ),
    }
    made = folder.joinpath("page", "template.html").read_text(encoding="utf-8")
    for place, text in parts.items():
        made = made.replace(place, text)
    return made


def _read_library(folder: Traversable, name: str) -> bytes:
    """Return the unpacked file of a library. 10 ms for d3."""
    data = folder.joinpath("vendor", name).read_bytes()
    return lzma.decompress(data) if name.endswith(".xz") else data


def _styles(page: Traversable) -> Iterator[str]:
    for name in ("style", *SCRIPTS):
        sheet = page.joinpath(f"{name}.css")
        if sheet.is_file():
            yield sheet.read_text(encoding="utf-8")


def _script(module: str) -> str:
    return _EXPORT.sub("", _IMPORT.sub("", module))


def _pack(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()
