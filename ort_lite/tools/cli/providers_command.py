"""`ort-lite providers`: list the installed execution providers, and which of them sessions use by default."""

from argparse import Namespace
from typing import Any

from ort_lite.errors import ProviderError
from ort_lite.plugins import plugins, selection
from ort_lite.tools.cli.printing import print_json, print_table


def main(arguments: Namespace) -> None:
    """Run `ort-lite providers`."""
    rows = [row(name) for name in plugins.installed_providers()]
    if arguments.json:
        print_json("providers", {"providers": rows})
    else:
        print_table(("provider", "by default", "device", "from", "module", "about"), ([*each.values()] for each in rows))


def row(name: str) -> dict[str, Any]:
    """Return the facts about an installed provider as texts."""
    try:
        cls = plugins.provider(name)
    except ProviderError as error:
        return {"name": name, "default": "no", "device": "", "from": plugins.origin(name), "module": "", "about": str(error)}
    about = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
    return {
        "name": name,
        "default": "yes" if name in selection.default_providers() else "no",
        "device": str(cls.device),
        "from": plugins.origin(name),
        "module": cls.__module__,
        "about": about,
    }
