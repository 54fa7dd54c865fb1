"""The JSON of commands, checked against their schema."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema


@cache
def schema() -> dict[str, Any]:
    """Return the schema of the JSON that commands print."""
    found: dict[str, Any] = json.loads((files("ort_lite.tools.cli") / "output_schema.json").read_text("utf-8"))
    return found


def parse(text: str) -> dict[str, Any]:
    """Return what a command printed, without its name and version. Raises ValidationError if it does not follow the schema."""
    found: dict[str, Any] = json.loads(text)
    jsonschema.validate(
        found, {**schema(), "oneOf": [{"$ref": f"#/$defs/{found['command']}"}]}, jsonschema.Draft202012Validator
    )
    return {key: value for key, value in found.items() if key not in ("command", "ort_lite")}
