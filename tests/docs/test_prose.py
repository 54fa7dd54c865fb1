"""The pages that a new user reads first are in short sentences and in standard terms."""

import re
from collections.abc import Iterator

import pytest

from tests.benchmarks.document import BEGIN, END
from tests.docs.pages import FENCE, ROOT

FIRST = ("README.md", "SECURITY.md", *(f"docs/{name}.md" for name in ("index", "start", "why", "examples")))
GUIDES = tuple(
    f"docs/{name}.md" for name in ("migrating-from-onnxruntime", "writing-a-provider", "writing-a-transform")
) + tuple(page.relative_to(ROOT).as_posix() for page in sorted(ROOT.glob("plugins/*/README.md")))

LONGEST = 35
"""Words of a sentence."""

COINED = {
    r"absorb\w*": "consume constants",
    r"beside onnxruntime": "compared with onnxruntime",
    r"deal\w* (\w+ ){0,2}out": "assign",
    r"drawn models?": "generated model",
    r"forgiving": "with a fallback",
    r"hollow": "empty outputs",
    r"ledger": "allocation log",
    r"PutsOff": "DefersCompile",
    r"restorer": "rematerialize",
    r"Stranded": "UncopiedValue",
    r"whoever": "the provider that",
}
"""Words that only this project used, and the standard terms for them."""


def prose(text: str) -> str:
    """Leave out code blocks, generated lists of figures, and where links lead; inline code counts as one word."""
    text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), "", FENCE.sub("", text), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]+`", "code", text)
    return re.sub(r"!?\[([^\[\]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of paragraphs, list items, headings and cells of tables."""
    text = re.sub(r"^>\s?", "", prose(text), flags=re.MULTILINE)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^(\||#).*$", lambda line: f"\n\n{line[0]}\n\n".replace("|", "\n\n"), text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.?!])\**\s+", block):
            if sentence.strip():
                yield " ".join(sentence.split())


@pytest.mark.parametrize("page", FIRST)
def test_sentences_are_short(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > LONGEST] == []


@pytest.mark.parametrize("page", FIRST + GUIDES)
def test_words_are_standard(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    searched = text if page in FIRST else prose(text)  # guides name classes in code
    found = {word: better for word, better in COINED.items() if re.search(rf"\b{word}\b", searched, re.IGNORECASE)}
    assert found == {}, f"{page}: write the term on the right"


def test_sentences_end_at_blocks_and_full_stops() -> None:
    text = "# Title\n\nOne two. Three `a b`\nfour.\n\n- item\n- **bold.** next\n\n| a b | c. d |\n\n```python\ncode\n```\n"
    assert list(sentences(text)) == ["# Title", "One two.", "Three code four.", "item", "**bold.", "next", "a b", "c.", "d"]
