"""What pages show is what is there: excerpts of files, Python that runs, settings that parse, and commands in a form that is run."""

import re
import tomllib

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks

BLOCKS = list(blocks())
LANGUAGES = {"console", "python", "text", "toml"}
COMMAND = re.compile(r"^(?: {4})?(?:\$ )?(?:make|ort-lite|pip|python3?) [\w./-]", re.MULTILINE)


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_every_block_says_what_it_is() -> None:
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []


def test_commands_are_in_blocks_that_are_run() -> None:
    assert [str(block) for block in of("text") if COMMAND.search(block.text)] == []
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        indented = re.findall(r"\n\n( {4}\S.*)", prose)
        assert [line for line in indented if COMMAND.match(line)] == [], page.name


def test_every_line_of_a_console_block_is_a_command_or_what_one_prints() -> None:
    assert [str(block) for block in of("console") if not block.text.startswith("$ ")] == []


@pytest.mark.parametrize("block", [block for block in of("python") if "/" in block.file], ids=str)
def test_an_excerpt_is_what_the_file_says(block: Block) -> None:
    source = (ROOT / block.file).read_text(encoding="utf-8")
    parts = block.text.split("\n", 1)[1].split("\n\n\n")
    assert [part for part in parts if part.strip("\n") not in source] == []


@pytest.mark.parametrize("block", [b for b in of("python") if not b.file and not b.text.startswith(">>>")], ids=str)
def test_python_that_is_no_dialogue_runs(block: Block) -> None:
    exec(compile(block.text, str(block), "exec"), {"__name__": "page"})


@pytest.mark.parametrize("block", of("toml"), ids=str)
def test_settings_parse(block: Block) -> None:
    assert tomllib.loads(block.text)
