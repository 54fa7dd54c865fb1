"""Read the ort_lite entry points of installed distributions. importlib.metadata takes 25 times as long."""

import os
from collections.abc import Iterable
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ort_lite import log
from ort_lite.errors import ProviderError, format_error
from ort_lite.record import Record

if TYPE_CHECKING:
    from ort_lite.provider.provider import ExecutionProvider

_LONG = 2.0
"""The duration in seconds after which a slow import is logged, because the user is waiting."""
PROVIDERS = "ort_lite.providers"
TRANSFORMS = "ort_lite.transforms"
HOSTS = "ort_lite.hosts"


class EntryPoint(Record):
    """A line `name = value` of an entry_points.txt in `group`. `origin` is the directory of the distribution."""

    group: str
    name: str
    value: str
    origin: str

    @property
    def is_object(self) -> bool:
        """True for `module:name`. A plain module is a plugin whose hooks are called."""
        return ":" in self.value

    def load(self) -> Any:
        """Import the object. A slow import is logged.

        Raises ProviderError naming the entry point if the import fails or exits.
        """
        module, _, attribute = self.value.partition(":")
        begin = perf_counter()
        try:
            found = import_module(module.strip())
            for part in attribute.split(".") if attribute else ():
                found = getattr(found, part.strip())
        except (Exception, SystemExit) as error:
            raise self.error(f"cannot be imported: {format_error(error)}; repair or uninstall that distribution") from error
        if (seconds := perf_counter() - begin) > _LONG:
            log.warn(log.WARNING, f"{self} took {seconds:.1f} s to import")
        return found

    def load_provider(self) -> "type[ExecutionProvider]":
        """Import the provider class. Raises ProviderError for another object or a class with another name."""
        found = self.load()
        if not is_provider(found):
            raise self.error(f"is {found!r}; expected a class derived from ort_lite.provider.ExecutionProvider")
        cls: type[ExecutionProvider] = found
        if cls.name != self.name:
            raise self.error(f"is a provider whose `name` is {cls.name!r}: users write one name for both; make them one")
        return cls

    def error(self, what: str) -> ProviderError:
        """Return the error that names the entry point and its distribution."""
        return ProviderError(f"{self} {what}")

    def __str__(self) -> str:
        return f"entry point {self.name} = {self.value} (group {self.group}, {self.origin})"


def is_provider(found: Any) -> bool:
    """Return True if `found` is a class of execution providers."""
    from ort_lite.provider.provider import ExecutionProvider

    return isinstance(found, type) and issubclass(found, ExecutionProvider)


def scan(paths: Iterable[str]) -> list[EntryPoint]:
    """Return the ort_lite entry points of all distributions in the directories, in order. O(distributions)."""
    found: dict[tuple[str, str], EntryPoint] = {}
    for path in dict.fromkeys(paths):
        try:
            names = sorted(name for name in os.listdir(path or ".") if name.endswith((".dist-info", ".egg-info")))
        except OSError:  # not a directory
            continue
        for name in names:
            for entry in _read(os.path.join(path, name)):
                found.setdefault((entry.group, entry.name), entry)
    return list(found.values())


def _read(directory: str) -> list[EntryPoint]:
    try:
        with open(os.path.join(directory, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:  # most distributions have none
        return []
    if "[ort_lite." not in text:
        return []
    group, entries = "", []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group in (PROVIDERS, TRANSFORMS, HOSTS) and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            entries.append(EntryPoint(group, name.strip(), value.partition("[")[0].strip(), directory))
    return entries
