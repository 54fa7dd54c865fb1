"""The help of each command, and the schema of its JSON."""

import argparse
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from ort_lite.tools.cli.commands import COMMANDS
from ort_lite.tools.cli.parser import command_parser
from tests.tools.cli.output import schema

NAMES = [command.name for command in COMMANDS]
WITHOUT_JSON = {"exec", "serve", "completion", "view"}
"""`view --json` prints the document of its page."""


def parser_of(name: str) -> argparse.ArgumentParser:
    (commands,) = (action for action in command_parser()._actions if isinstance(action, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[name]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_each_argument_and_has_examples_that_parse(name: str) -> None:
    parser = parser_of(name)
    assert [action.dest for action in parser._actions if action.help is None and not action.choices] == []
    for example in next(command.examples for command in COMMANDS if command.name == name):
        assert f"ort-lite {name}" in example
        if example.startswith("ort-lite"):
            assert command_parser().parse(example.split()[1:]).command == name


def test_each_command_with_json_has_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    described = [entry["$ref"].removeprefix("#/$defs/") for entry in schema()["oneOf"]]
    assert described == [name for name in NAMES if name not in WITHOUT_JSON]


def test_each_number_of_the_schema_has_a_unit() -> None:
    assert [node for node in nodes(schema()) if is_number(node) and not node.get("unit")] == []


def is_number(node: dict[str, Any]) -> bool:
    types = node.get("type", [])
    return not {"number", "integer"}.isdisjoint([types] if isinstance(types, str) else types)


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield each object of a JSON document."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nodes(inner)
