"""`ort-lite providers`: list the installed execution providers, and which of them sessions use by default."""

import re
from argparse import Namespace
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.plugins import plugins, selection
from ort_lite.tools.cli.printing import print_json, print_table

_FIRST_SENTENCE = re.compile(r"(.*?[.!?])(\s.*|$)", re.DOTALL)


def main(arguments: Namespace) -> None:
    """Run `ort-lite providers`."""
    rows = [row(name) for name in plugins.installed_providers()]
    if arguments.json:
        print_json("providers", {"providers": rows})
    else:
        print_table(("provider", "by default", "device", "from", "module", "about"), map(_cells, rows))


def _cells(facts: dict[str, Any]) -> list[str]:
    return [*({**facts, "default": "yes" if facts["default"] else "no"}).values()]


def row(name: str) -> dict[str, Any]:
    """Return the facts about an installed provider. Texts, but `default`, which is a bool."""
    try:
        cls = plugins.provider(name)
    except ProviderError as error:
        return {"name": name, "default": False, "device": "", "from": plugins.origin(name), "module": "", "about": str(error)}
    about = " ".join((cls.__doc__ or "").split())
    return {
        "name": name,
        "default": name in selection.default_providers(),
        "device": str(cls.device),
        "from": plugins.origin(name),
        "module": cls.__module__,
        "about": _FIRST_SENTENCE.sub(r"\1", about),
    }
