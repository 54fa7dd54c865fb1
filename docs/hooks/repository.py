"""Pages link to files of the repository, as GitHub shows them; in the site such a link leads to a page with the file.

A page of docs/ keeps its place. Any other file that a page links to becomes `source/PATH`: Markdown as it is, of notebooks
words and code, sources as code.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
FENCE = re.compile(r"^( *)(```+).*?^\1\2$", re.MULTILINE | re.DOTALL)
SHOWN = "---\nsearch:\n  exclude: true\n---\n"
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every file that a page links to, and what those link to."""
    texts = {page.src_uri: page.content_string for page in files.documentation_pages()}
    waiting = list(texts)
    while waiting:
        uri = waiting.pop()
        for target in _links(texts[uri]):
            path = _file(uri, target)
            there = _place(path)
            if path.startswith("docs/") or there in texts:
                continue
            texts[there] = (ROOT / path).read_text(encoding="utf-8") if path.endswith(".md") else ""
            files.append(File.generated(config, there, content=_content(path)))
            waiting.append(there)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files lead to their pages; code is left alone."""
    uri = page.file.src_uri
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(partial(_led, uri), markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(partial(_led, uri), markdown[end:])])


def _links(text: str) -> Iterator[str]:
    for link in LINK.findall(FENCE.sub("", text)):
        if "://" not in link:
            yield link


def _led(uri: str, link: re.Match[str]) -> str:
    if "://" in link[0]:
        return link[0]
    return posixpath.relpath(_place(_file(uri, link[0])), posixpath.dirname(uri) or ".")


def _file(uri: str, target: str) -> str:
    """The path in the repository that a link of a page means. Raises PluginError where there is nothing."""
    page = uri.removeprefix("source/") if uri.startswith("source/") else f"docs/{uri}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if path == "docs/decisions":
        return f"{path}/index.md"
    if (ROOT / path).is_dir():
        path = next((f"{path}/{name}" for name in ("README.md", "__init__.py") if (ROOT / path / name).is_file()), path)
    if path.startswith("docs/") or (ROOT / path).is_file():
        return path  # MkDocs looks for pages of docs/ itself
    raise PluginError(f"{page} links to {target}: there is no file {path} that a page could show")


def _place(path: str) -> str:
    """Where the page of a file is, below docs/."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _content(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        return SHOWN + _cells(text)
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"{SHOWN}# {path}\n\n`````{language}\n{text}\n`````\n"


def _cells(notebook: str) -> str:
    """Words and code of a notebook, without outputs."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook)["cells"]]
    return "\n\n".join(f"```python\n{source}\n```" if kind == "code" else source for kind, source in cells)
