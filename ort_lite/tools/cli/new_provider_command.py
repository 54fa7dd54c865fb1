"""`ort-lite new-provider my-npu`: create a distribution with an execution provider that passes the conformance kit."""

import re
from argparse import Namespace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ort_lite._version import __version__
from ort_lite.errors import InvalidArgument
from ort_lite.record import Record
from ort_lite.tools.cli.printing import print_json, print_text

LICENSES = ("Apache-2.0", "MIT", "none")
TAKEN = ("cpu", "transforms")
"""Names whose packages come with ort-lite."""
SUFFIX = ".template"


class ProviderNames(Record):
    """The names derived from a provider's name, such as "my-npu"."""

    name: str

    @property
    def distribution(self) -> str:
        """The name of the distribution: "ort-lite-my-npu"."""
        return f"ort-lite-{self.name}"

    @property
    def package(self) -> str:
        """The name of the package: "ort_lite_my_npu"."""
        return self.distribution.replace("-", "_")

    @property
    def provider(self) -> str:
        """The name of the provider's class."""
        return "".join(part[0].upper() + part[1:] for part in self.name.split("-")) + "ExecutionProvider"


def main(arguments: Namespace) -> None:
    """Run `ort-lite new-provider`."""
    names = names_of(arguments.name)
    directory = Path(arguments.directory or names.distribution)
    written = write(names, directory, arguments.license)
    if arguments.json:
        print_json(
            "new-provider", {"provider": names.provider, "directory": str(directory), "files": [str(file) for file in written]}
        )
        return
    steps = (f"cd {directory}", 'pip install -e ".[test]"', "python -m pytest")
    print_text("\n".join([f"{names.provider}: {len(written)} files in {directory}. Next:", *(f"    {step}" for step in steps)]))


def names_of(name: str) -> ProviderNames:
    """Return the names derived from `name`. Raises InvalidArgument if it makes no valid distribution, package and class."""
    if name.startswith("ort-lite-"):
        short = name.removeprefix("ort-lite-")
        raise InvalidArgument(f"{name!r}: the distribution is called ort-lite-NAME; expected NAME alone, {short!r}")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise InvalidArgument(f"{name!r} is no name for a provider; expected words of a-z and 0-9 joined by '-', as 'my-npu'")
    if name in TAKEN:
        raise InvalidArgument(f"{name!r}: the package ort_lite_{name} comes with ort-lite; choose another name")
    return ProviderNames(name)


def write(names: ProviderNames, directory: Path, license: str) -> list[Path]:
    """Write the files of a new distribution into a new directory. Raises InvalidArgument if the directory exists."""
    if directory.exists():
        raise InvalidArgument(f"{str(directory)!r} exists; expected a directory to make: --directory names another")
    written = []
    for path, text in contents(names, license).items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def contents(names: ProviderNames, license: str) -> dict[str, str]:
    """Return the text of each file by path."""
    templates = files("ort_lite.tools") / "templates"
    found = {
        _fill(path, names, license).removesuffix(SUFFIX): _fill(text, names, license)
        for path, text in _texts(templates / "provider")
    }
    found["pyproject.toml"] = found["pyproject.toml"].replace('license = "none"\n', "")
    if license != "none":
        found["LICENSE"] = _fill((templates / "licenses" / f"{license}.txt").read_text("utf-8"), names, license)
    return dict(sorted(found.items()))


def _texts(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    """Yield the path and text of each template, with the folder `package` renamed to the package."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _texts(entry, f"{prefix}{'@package@' if entry.name == 'package' else entry.name}/")
        elif entry.name.endswith(SUFFIX):
            found.append((prefix + entry.name, entry.read_text("utf-8")))
    return found


def _fill(text: str, names: ProviderNames, license: str) -> str:
    major, minor = (int(part) for part in __version__.split(".")[:2])
    values = {
        "name": names.name,
        "distribution": names.distribution,
        "package": names.package,
        "provider": names.provider,
        "license": license,
        "requirement": f">={major}.{minor},<{major}.{minor + 1}",
    }
    for word, value in values.items():
        text = text.replace(f"@{word}@", value)
    return text
