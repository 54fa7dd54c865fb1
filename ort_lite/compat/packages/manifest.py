"""The manifest, components and variants of a model package, checked while they are read."""

import os
import re
from collections.abc import Mapping
from typing import Any

from ort_lite.compat.packages import json_text
from ort_lite.compat.packages.assets import resolve_reference, shared_assets
from ort_lite.compat.packages.paths import Rules
from ort_lite.errors import InvalidArgument, NoSuchFile
from ort_lite.record import Record, field

MANIFEST, COMPONENT = "manifest.json", "component.json"
SCHEMA_VERSION = "1.0"
"""The version of the format that new packages have. Packages of other minor versions are read, too."""
MOST_TOGETHER = 2**24
"""The limit of a package's JSON, in characters."""
LAYOUTS = ("portable", "installed")
_VERSION = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_OF_MANIFEST = (
    *("schema_version", "package_name", "package_version", "description"),
    *("layout", "components", "shared_assets", "additional_metadata"),
)
_OF_COMPONENT = ("component_name", "variants", "additional_metadata")
_OF_VARIANT = ("variant_directory", "ep", "device", "compatibility_string", "executor_info", "additional_metadata")


class CharacterBudget(Record, frozen=False):
    """The characters of JSON that a package may still have, in all its files together.

    A file counts each time it is named. A component, a variant and an executor's configuration count as 1,024 characters more.
    """

    left: int = MOST_TOGETHER

    def take(self, text: str = "", entries: int = 0) -> str:
        """Return the text. Raises InvalidArgument if the budget does not have it, or not the entries."""
        self.left -= len(text) + 1024 * entries
        if self.left < 0:
            raise InvalidArgument(f"model package: its JSON files have more than {MOST_TOGETHER:,} characters together")
        return text

    def take_variants(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a component's JSON, which is not checked yet. Raises InvalidArgument as `take` does."""
        variants = body.get("variants")
        if isinstance(variants, dict):
            infos = [each.get("executor_info") for each in variants.values() if isinstance(each, dict)]
            self.take(entries=len(variants) + sum(len(info) for info in infos if isinstance(info, dict)))
        return body


class Variant(Record):
    """A variant of a component. `directory` is the real path of its folder, None if that is not declared and does not exist."""

    name: str
    body: dict[str, Any]
    directory: str | None

    def text(self, key: str) -> str | None:
        """Return a field that is text; None if it is missing."""
        return self.body.get(key)


class Component(Record):
    """A component. `folder` is where the paths of its variants start. `file` is its own JSON file, "" if it is in the manifest."""

    name: str
    body: dict[str, Any]
    folder: str
    file: str
    variants: Mapping[str, Variant]


class Package(Record, frozen=False):
    """The state of a model package: its manifest, whose values of external components are paths, and what was read."""

    rules: Rules
    strict: bool
    manifest: dict[str, Any]
    version: tuple[int, int] = (0, 0)
    components: dict[str, Component] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    """The folders of shared assets that the next commit copies into the package, by URI."""
    orphans: list[str] = field(default_factory=list)
    """Folders of removed variants and components, which `prune` deletes."""

    def assets(self) -> dict[str, str]:
        """Return the folders of shared assets by URI."""
        return shared_assets(self.manifest, self.rules, self.pending)

    def resolve(self, text: str, base: str | None = None, must_exist: bool = False) -> str:
        """Return the path of a reference, which starts at `base` or at the package."""
        root = self.rules.root
        start = root if base is None else os.path.realpath(base) if root else base
        assets = self.assets() if text.startswith("sha256:") else {}
        return resolve_reference(text, start, self.rules, assets, must_exist)

    def component(self, name: str) -> Component:
        """Return a component. Raises NoSuchFile, as onnxruntime does."""
        if name not in self.components:
            raise NoSuchFile(f"component {name!r} not found; there are {', '.join(map(repr, self.components)) or 'none'}")
        return self.components[name]

    def variant(self, component: str, name: str) -> Variant:
        """Return a variant. Raises NoSuchFile."""
        variants = self.component(component).variants
        if name not in variants:
            there = ", ".join(map(repr, variants)) or "none"
            raise NoSuchFile(f"variant {name!r} not found in component {component!r}; there are {there}")
        return variants[name]


def read_package(root: str, external: bool, links: bool, strict: bool) -> Package:
    """Read the package in a folder. Raises NoSuchFile, Unreadable and InvalidArgument."""
    if not os.path.isdir(root):
        raise NoSuchFile(f"package_root {root!r} is not a directory")
    rules = Rules(os.path.realpath(root), True, external, links)
    path = rules.resolve(rules.root, MANIFEST, must_exist=True)
    manifest = json_text.parse_object(rules.read(path), "manifest")
    version, strict = _schema_version(manifest, strict)
    check_manifest(manifest, strict)
    rules = rules.replace(portable=manifest.get("layout", LAYOUTS[0]) == LAYOUTS[0])
    package = Package(rules, strict, manifest, version)
    if "components" not in manifest:
        raise InvalidArgument("manifest: missing required 'components' object")
    components, budget = json_text.as_object(manifest["components"], "manifest: components"), CharacterBudget()
    budget.take(
        entries=len(components) + len(json_text.as_object(manifest.get("shared_assets", {}), "manifest: shared_assets"))
    )
    for name, value in components.items():
        package.components[name] = component = _read_component(name, value, rules, strict, budget)
        for variant in component.variants.values():
            for text in executor_info(variant, rules, must_exist=True).values():
                budget.take(text)
    package.assets()
    return package


def _schema_version(manifest: Mapping[str, Any], strict: bool) -> tuple[tuple[int, int], bool]:
    """Return the version of the format, and True if unknown fields are errors: newer minor versions may have more fields."""
    given = manifest.get("schema_version")
    found = _VERSION.fullmatch(str(given)) if isinstance(given, (str, int)) and not isinstance(given, bool) else None
    if found is None:
        raise InvalidArgument(f"manifest: 'schema_version' is {given!r}, expected a \"<major>.<minor>\" string")
    version = int(found[1]), int(found[2] or 0)
    if version[0] != 1:
        raise InvalidArgument(f"manifest: schema_version major {version[0]} is not supported; expected 1")
    return version, strict and version[1] == 0


def check_manifest(manifest: Mapping[str, Any], strict: bool) -> None:
    """Check the fields of the package itself. Raises InvalidArgument."""
    _check_keys(manifest, _OF_MANIFEST, "manifest", strict)
    _check_texts(manifest, ("package_name", "package_version", "description", "layout"), "manifest")
    if manifest.get("layout", LAYOUTS[0]) not in LAYOUTS:
        raise InvalidArgument(f"manifest: 'layout' is {manifest['layout']!r}, expected 'portable' or 'installed'")


def _read_component(name: str, value: Any, rules: Rules, strict: bool, budget: CharacterBudget) -> Component:
    """Read a component that the manifest holds, or whose file it names."""
    if isinstance(value, dict):
        return parse_component(name, budget.take_variants(value), rules.root, "", rules, strict)
    if not isinstance(value, str):
        raise InvalidArgument(f"component {name!r}: its value is {value!r}, expected a path or an object")
    path = rules.resolve(rules.root, value, must_exist=True)
    if os.path.isdir(path):
        if not os.path.exists(os.path.join(path, COMPONENT)):
            raise NoSuchFile(f"component {name!r}: directory has no {COMPONENT!r}")
        path = rules.resolve(path, COMPONENT, must_exist=True)
    body = json_text.parse_object(budget.take(rules.read(path)), f"component {name!r}")
    return parse_component(name, budget.take_variants(body), os.path.dirname(path), path, rules, strict)


def parse_component(name: str, body: dict[str, Any], folder: str, file: str, rules: Rules, strict: bool) -> Component:
    """Check a component and its variants. Raises InvalidArgument, and NoSuchFile for a declared folder that does not exist."""
    where = f"component {name!r}"
    _check_keys(json_text.as_object(body, where), _OF_COMPONENT, where, strict)
    _check_texts(body, ("component_name",), where)
    if "variants" not in body:
        raise InvalidArgument(f"{where}: missing required 'variants' object")
    variants = json_text.as_object(body["variants"], f"{where}: variants")
    return Component(
        name, body, folder, file, {key: parse_variant(key, value, folder, rules, strict) for key, value in variants.items()}
    )


def parse_variant(name: str, body: Any, folder: str, rules: Rules, strict: bool) -> Variant:
    """Check a variant of a component in `folder`. Raises the errors of `parse_component`."""
    where = f"variant {name!r}"
    _check_keys(json_text.as_object(body, where), _OF_VARIANT, where, strict)
    _check_texts(body, ("variant_directory", "ep", "device", "compatibility_string"), where)
    for key, value in json_text.as_object(body.get("executor_info", {}), f"{where}: executor_info").items():
        if not isinstance(value, (str, dict)):
            raise InvalidArgument(f"{where}: executor_info[{key!r}] is {value!r}, expected a path or an object")
    declared = "variant_directory" in body
    directory = rules.resolve(folder, body["variant_directory"] if declared else name, must_exist=declared)
    return Variant(name, body, directory if os.path.exists(directory) else None)


def executor_info(variant: Variant, rules: Rules, must_exist: bool) -> dict[str, str]:
    """Return the JSON texts by which executors configure a variant, by executor.

    A file that is missing is "" unless it must exist. Raises NoSuchFile then, and InvalidArgument for a file that is not JSON.
    """
    found = {}
    for key, value in variant.body.get("executor_info", {}).items():
        if isinstance(value, dict):
            found[key] = json_text.compact(value)
            continue
        try:
            found[key] = _read_info(variant, key, value, rules)
        except (NoSuchFile, InvalidArgument):
            if must_exist:
                raise
            found[key] = ""
    return found


def _read_info(variant: Variant, key: str, path: str, rules: Rules) -> str:
    where = f"variant {variant.name!r}: executor_info[{key!r}]"
    if variant.directory is None:
        raise NoSuchFile(f"{where} is the file {path!r}, but the variant has no directory")
    text = rules.read(rules.resolve(variant.directory, path, must_exist=True))
    json_text.parse(text, where)
    return text


def _check_keys(body: Mapping[str, Any], known: tuple[str, ...], where: str, strict: bool) -> None:
    for key in body:
        if strict and key not in known:
            raise InvalidArgument(f"{where}: unknown field {key!r}")


def _check_texts(body: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in keys:
        if not isinstance(body.get(key, ""), str):
            raise InvalidArgument(f"{where}: {key!r} is {body[key]!r}, expected a string")
