"""Pages that are written when the site is built: the command line as its parser describes it, and the list of decisions."""

import argparse
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ort_lite.tools.cli import parser as command_line

WIDTH = 80
DECISIONS = "Choices that others may question: the context, what was chosen, what was rejected, what was measured."


def on_files(files: Files, config: MkDocsConfig) -> Files:
    decisions = Path(config.docs_dir) / "decisions"
    files.append(File.generated(config, "decisions/index.md", content=decisions_page(decisions)))
    files.append(File.generated(config, "command-line.md", content=command_line_page(command_line.command_parser())))
    return files


def decisions_page(folder: Path) -> str:
    lines = []
    for page in sorted(folder.glob("[0-9]*.md")):
        title = page.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{title}]({page.name})")
    return "\n".join(["# Decisions", "", DECISIONS, "", *lines, ""])


def command_line_page(parser: argparse.ArgumentParser) -> str:
    """What `--help` says of every command."""
    parts = ["# Command line", str(parser.description)]
    for command in commands(parser):
        command.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=WIDTH)
        parts += [f"## {command.prog}", f"```text\n{command.format_help().rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser, and those of its commands, in the order in which it has them."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                if re.fullmatch(rf"{re.escape(parser.prog)} {re.escape(name)}", command.prog):  # no second name of it
                    yield from commands(command)
