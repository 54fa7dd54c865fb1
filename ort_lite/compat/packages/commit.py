"""Writing of model packages: in place, or as a package in a new folder."""

import copy
import os
import secrets
import shutil
import time
from collections.abc import Iterable
from typing import Any

from ort_lite.compat.packages.assets import copy_asset
from ort_lite.compat.packages.json_text import format_json
from ort_lite.compat.packages.manifest import COMPONENT, MANIFEST, Component, Package, read_package
from ort_lite.compat.packages.paths import ASSETS, Rules
from ort_lite.errors import Fail, OrtLiteError, Unreadable
from ort_lite.load.files import is_below, words

_GRACE = 60.0
"""Seconds after which a folder that an interrupted commit left is deleted."""


def commit_in_place(package: Package, dense: bool) -> None:
    """Write a package into its folder: shared assets, then the files of components, last the manifest.

    With `dense`, components move into the manifest. Raises Fail for a package without a folder, and Unreadable.
    """
    root = package.rules.root
    if not root:
        raise Fail("commit: the package has no folder yet; give dest_root")
    if dense:
        _check_dense(package)
    _make_folder(root)
    for uri, source in package.pending.items():
        folder = package.rules.resolve(root, ASSETS)
        copy_asset(uri, source, folder)
    for name, component in package.components.items() if dense else ():
        package.components[name] = inlined = _inline(component, root)
        package.manifest["components"][name] = inlined.body
    for component in package.components.values():
        if component.file:
            package.rules.check(os.path.realpath(os.path.dirname(component.file)))
            _make_folder(os.path.dirname(component.file))
            _replace_file(component.file, format_json(component.body))
    _replace_file(os.path.join(root, MANIFEST), format_json(package.manifest))
    package.pending.clear()


def commit_to(package: Package, folder: str, dense: bool) -> Package:
    """Write a package to a folder that is empty or does not exist, and return the package there.

    The manifest, components and shared assets are written; folders of variants are not. Nothing is left after an error. Raises
    Fail for a folder that is not empty, Unreadable, and the errors of reading the result, such as NoSuchFile for a variant
    that declares its folder.
    """
    target = os.path.realpath(folder)
    if os.path.exists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise Fail(f"commit: dest_root {folder!r} is not an empty directory")
    if dense:
        _check_dense(package)
    staged = f"{target}.tmp.{secrets.token_hex(8)}"
    try:
        _make_folder(staged)
        _write_all(package, staged, dense)
        read_package(staged, package.rules.external, package.rules.links, package.strict)
        if os.path.exists(target):
            os.rmdir(target)
        os.rename(staged, target)
    except OrtLiteError:
        raise
    except OSError as error:
        raise _failure(target, error) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return read_package(target, package.rules.external, package.rules.links, package.strict)


def _write_all(package: Package, root: str, dense: bool) -> None:
    manifest = copy.deepcopy(package.manifest)
    manifest.pop("shared_assets", None)  # they lie at their default places
    for uri, source in package.assets().items():
        copy_asset(uri, source, os.path.join(root, ASSETS))
    rules = Rules(root, package.rules.portable, package.rules.external, package.rules.links)
    for name, component in package.components.items():
        path = manifest["components"][name]
        if component.file and dense:
            manifest["components"][name] = component.body
        elif component.file:
            own = os.path.basename(os.path.normpath(path)) == os.path.basename(component.file)
            file = rules.resolve(root, path if own else f"{path}/{COMPONENT}")
            _make_folder(os.path.dirname(file))
            _replace_file(file, format_json(component.body))
    _replace_file(os.path.join(root, MANIFEST), format_json(manifest))


def _check_dense(package: Package) -> None:
    """Raise Fail if a variant names a file for an executor, which the manifest cannot hold."""
    for component in package.components.values():
        for variant in component.variants.values():
            for key, value in variant.body.get("executor_info", {}).items():
                if isinstance(value, str):
                    raise Fail(
                        f"commit: component {component.name!r} variant {variant.name!r} has the file {value!r} as executor_info "
                        f"{key!r}; set_variant_executor_info_inline stores it in the manifest"
                    )


def _inline(component: Component, root: str) -> Component:
    """Return a component as part of the manifest, from whose folder the paths of variants then start."""
    if not component.file:
        return component
    body = copy.deepcopy(component.body)
    variants = {}
    for name, variant in component.variants.items():
        if variant.directory is not None:
            inside = is_below(root, variant.directory)
            path = os.path.relpath(variant.directory, root).replace(os.sep, "/") if inside else variant.directory
            body["variants"][name]["variant_directory"] = path
        variants[name] = variant.replace(body=body["variants"][name])
    return Component(component.name, body, root, "", variants)


def prune(package: Package) -> None:
    """Delete folders of removed variants and components, and what interrupted commits left. Shared assets stay."""
    root = package.rules.root
    if not root:
        return
    assets = os.path.join(root, ASSETS)
    if os.path.isdir(assets) and not os.path.islink(assets):
        for name in os.listdir(assets):
            path = os.path.join(assets, name)
            if ".tmp." in name and time.time() - os.lstat(path).st_mtime >= _GRACE:
                shutil.rmtree(path, ignore_errors=True)
    live = list(_live(package.components.values()))
    kept = []
    for path in package.orphans:
        if any(is_below(path, other) for other in live):
            kept.append(path)
        elif path != root and os.path.realpath(path) == path:
            shutil.rmtree(path, ignore_errors=True)
    package.orphans[:] = kept


def _live(components: Iterable[Component]) -> Iterable[str]:
    for component in components:
        if component.file:
            yield component.folder
        yield from (each.directory for each in component.variants.values() if each.directory is not None)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise _failure(path, error) from error


def _replace_file(path: str, data: bytes) -> None:
    """Write a file under another name, then rename it. A link at `path` is replaced."""
    staged = f"{path}.tmp.{secrets.token_hex(8)}"
    try:
        with open(staged, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)
    except OSError as error:
        raise _failure(path, error) from error
    finally:
        if os.path.exists(staged):
            os.unlink(staged)


def _failure(path: str, error: Any) -> Unreadable:
    return Unreadable(f"commit: {path!r} cannot be written: {words(error)}")
