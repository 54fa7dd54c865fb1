"""Write the README as a package index shows it: without relative links, which lead nowhere on its page.

`pages` and `pictures` below `[tool.hatch.metadata.hooks.custom]` in pyproject.toml are the addresses below which the repository's files
are shown and served. As long as they are empty, links become plain text and pictures are left out.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:!\[[^\]]*\]\([^)]*\)|[^\[\]])*)\]\(([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Set the distribution's `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        page = index_page(text, self.config["pages"], self.config["pictures"])
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def index_page(text: str, pages: str, pictures: str) -> str:
    """Return the Markdown `text` with absolute links, or without links where an address is empty; code stays as it is."""

    def replace(link: re.Match[str]) -> str:
        mark, label, target = link.groups()
        label = LINK.sub(replace, label)
        base = pictures if mark else pages
        if "://" not in target:
            if target.startswith("#"):
                return link[0]
            if not base:
                return "" if mark else label
            target = f"{base.rstrip('/')}/{target}"
        return f"{mark}[{label}]({target})"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    parts[::2] = [re.sub(r"\n\s*\n", "\n\n", re.sub(r"^ +$", "", part, flags=re.MULTILINE)) for part in parts[::2]]
    return "".join(parts)
