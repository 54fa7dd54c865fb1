"""ModelPackage: onnxruntime's class that writes model packages."""

import copy
import os
import shutil
from types import TracebackType
from typing import Any, Self

from ort_lite.compat.packages import commit, json_text
from ort_lite.compat.packages.assets import compute_directory_hash
from ort_lite.compat.packages.description import describe
from ort_lite.compat.packages.manifest import (
    COMPONENT,
    LAYOUTS,
    SCHEMA_VERSION,
    Component,
    Package,
    check_manifest,
    parse_component,
    parse_variant,
    read_package,
)
from ort_lite.compat.packages.paths import ASSETS, Rules, as_text, folder_of, is_uri
from ort_lite.errors import Fail, InvalidArgument, NoSuchFile
from ort_lite.load.files import is_below
from ort_lite.options.options import NamedNumber

Text = str | os.PathLike[str]


class ModelPackageWriteMode(NamedNumber):
    """The places of components for `ModelPackage.commit`: the files that they have, or all in the manifest."""

    PRESERVE = 0
    DENSE = 1


class ModelPackage:
    """A model package that can be changed and written: components, each with variants, and shared assets. JSON is text.

    Changes are in memory until `commit`, except that `remove_shared_asset` and `prune` delete folders. A method that raises an
    error changes nothing. Errors are InvalidArgument for what the format or `open`'s permissions do not allow, NoSuchFile,
    Unreadable for files, and Fail for what the state of the package does not allow.
    """

    compute_directory_hash = staticmethod(compute_directory_hash)

    def __init__(self) -> None:
        """Make an empty package, which has no folder before its first commit."""
        manifest: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "layout": LAYOUTS[0], "components": {}}
        self._state: Package | None = Package(Rules(), True, manifest)

    @staticmethod
    def open(
        package_root: Text,
        allow_external_paths: bool = False,
        follow_symlinks: bool = True,
        strict_unknown_fields: bool = True,
    ) -> "ModelPackage":
        """Open the package in a folder.

        Args:
            package_root: the folder with manifest.json.
            allow_external_paths: True allows paths that leave the folder, also through links. Set it for packages you trust.
            follow_symlinks: False refuses links inside the package, too.
            strict_unknown_fields: False accepts fields that the format does not have.
        """
        made = ModelPackage()
        made._state = read_package(os.fspath(package_root), allow_external_paths, follow_symlinks, strict_unknown_fields)
        return made

    def __enter__(self) -> Self:
        self._package()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Forget the package. Other methods raise InvalidArgument then."""
        self._state = None

    def _package(self) -> Package:
        if self._state is None:
            raise InvalidArgument("Model package is closed")
        return self._state

    # What it says

    def get_info(self) -> dict[str, Any]:
        """Return metadata, components, variants and shared assets. `schema_version_major` is 0 before the first commit."""
        return describe(self._package())

    def get_component_json(self, component_name: str) -> str:
        """Return the JSON of a component. Raises NoSuchFile for an unknown one."""
        return json_text.compact(self._package().component(component_name).body)

    def get_variant_json(self, component_name: str, variant_name: str) -> str:
        """Return the JSON of a variant. Raises NoSuchFile for an unknown one."""
        return json_text.compact(self._package().variant(component_name, variant_name).body)

    def resolve_asset_uri(self, uri: str) -> str:
        """Return the folder of a shared asset. Raises NoSuchFile for an unknown one."""
        assets = self._package().assets()
        if uri not in assets:
            raise NoSuchFile(f"Asset URI not declared in this package: {uri!r}")
        return assets[uri]

    def resolve_string_ref(self, string_ref: str, base_dir: Text | None = None, must_exist: bool = False) -> str:
        """Return the path of `sha256:<hex>`, of `sha256:<hex>/path`, or of a path relative to `base_dir` or the package."""
        base = None if base_dir is None else os.fspath(base_dir)
        return self._package().resolve(as_text(string_ref, "string_ref"), base, must_exist)

    # The package

    def set_metadata(self, name: str | None = None, version: str | None = None, description: str | None = None) -> None:
        """Set what describes the package. None leaves a field as it is, and "" removes it."""
        manifest = self._package().manifest
        fields = {"package_name": name, "package_version": version, "description": description}
        given = {key: as_text(value, key) for key, value in fields.items() if value is not None}
        for key, value in given.items():
            manifest[key] = value
            if not value:
                del manifest[key]

    def set_layout(self, layout: str) -> None:
        """Set the layout: "portable", or "installed", which allows paths that leave the package."""
        package = self._package()
        manifest = {**package.manifest, "layout": as_text(layout, "layout")}
        check_manifest(manifest, package.strict)
        installed = layout != LAYOUTS[0]
        rules = package.rules.replace(portable=not installed, external=package.rules.external or installed)
        package.manifest, package.rules = manifest, rules

    def set_additional_metadata_json(
        self, scope: str, component_name: str | None = None, variant_name: str | None = None, json: str | None = None
    ) -> None:
        """Set free JSON of the "manifest", a "component" or a "variant". None removes it."""
        package = self._package()
        names = [component_name, variant_name]
        count = {"manifest": 0, "component": 1, "variant": 2}.get(scope)
        if count is None or None in names[:count] or any(each is not None for each in names[count:]):
            raise InvalidArgument(
                f"set_additional_metadata_json: scope {scope!r} with component {component_name!r} and variant {variant_name!r}; "
                f"expected 'manifest' with none, 'component' with the first or 'variant' with both"
            )
        if scope == "manifest":
            _set_metadata(package.manifest, json)
            return
        component = package.component(str(component_name))
        body = copy.deepcopy(component.body)
        _set_metadata(body if count == 1 else _variant_body(package, body, component.name, str(variant_name)), json)
        variants = {name: each.replace(body=body["variants"][name]) for name, each in component.variants.items()}
        self._store(component.replace(body=body, variants=variants))

    def commit(self, dest_root: Text | None = None, mode: ModelPackageWriteMode = ModelPackageWriteMode.PRESERVE) -> None:
        """Write the package in place, or to an empty or new folder, which is its folder from then on.

        Sources of shared assets must exist until then. Folders of variants are not copied.
        """
        package, dense = self._package(), ModelPackageWriteMode(mode) == ModelPackageWriteMode.DENSE
        if dest_root is None:
            commit.commit_in_place(package, dense)
        else:
            self._state = commit.commit_to(package, os.fspath(dest_root), dense)

    def prune(self) -> None:
        """Delete folders of removed variants and components. Shared assets stay, because only executors know who needs them."""
        commit.prune(self._package())

    # Components

    def set_component_inline(self, name: str, component_json: str) -> None:
        """Set a component that the manifest holds."""
        package, name = self._package(), as_text(name, "name")
        body = json_text.parse_object(as_text(component_json, "component_json"), f"component {name!r}")
        made = parse_component(name, body, package.rules.root, "", package.rules, package.strict)
        self._forget(name)
        self._store(made)

    def set_component_external(self, name: str, path: Text) -> None:
        """Set a component with a file of its own, which is read if it exists; `path` may be the folder of a component.json."""
        package, name, path = self._package(), as_text(name, "name"), as_text(path, "path")
        rules = package.rules
        if not rules.root:
            raise Fail("set_component_external: the package has no folder yet; commit it with dest_root first")
        file = rules.resolve(rules.root, path)
        if os.path.isdir(file):
            file = rules.resolve(file, COMPONENT)
        text = rules.read(file) if os.path.exists(file) else '{"variants": {}}'
        body = json_text.parse_object(text, f"component {name!r}")
        made = parse_component(name, body, os.path.dirname(file), file, rules, package.strict)
        self._forget(name)
        self._store(made)
        package.manifest["components"][name] = path

    def remove_component(self, name: str) -> None:
        """Remove a component. Does nothing for an unknown one."""
        package = self._package()
        self._forget(name)
        package.components.pop(name, None)
        package.manifest["components"].pop(name, None)

    # Variants

    def set_variant(self, component_name: str, variant_name: str, variant_json: str) -> None:
        """Set a variant of a component."""
        name = as_text(variant_name, "variant_name")
        body = json_text.parse_object(as_text(variant_json, "variant_json"), f"variant {name!r}")
        self._replace_variant(component_name, name, body)

    def remove_variant(self, component_name: str, variant_name: str) -> None:
        """Remove a variant. Does nothing for an unknown one."""
        component = self._package().components.get(component_name)
        if component is not None and variant_name in component.variants:
            self._replace_variant(component_name, variant_name, None)

    def set_variant_executor_info_inline(
        self, component_name: str, variant_name: str, namespace_key: str, info_json: str
    ) -> None:
        """Set what configures a variant for an executor, as JSON; onnxruntime and ort-lite read that of "ort"."""
        info = json_text.parse_object(as_text(info_json, "info_json"), "executor_info")
        self._set_info(component_name, variant_name, namespace_key, info)

    def set_variant_executor_info_external(
        self, component_name: str, variant_name: str, namespace_key: str, path: Text
    ) -> None:
        """Set what configures a variant for an executor, as the path of a file in the variant's folder."""
        self._set_info(component_name, variant_name, namespace_key, as_text(path, "path"))

    def remove_variant_executor_info(self, component_name: str, variant_name: str, namespace_key: str) -> None:
        """Remove what configures a variant for an executor."""
        self._set_info(component_name, variant_name, namespace_key, None)

    def _set_info(self, component_name: str, variant_name: str, key: str, info: dict[str, Any] | str | None) -> None:
        body = copy.deepcopy(self._package().variant(component_name, variant_name).body)
        infos = body.setdefault("executor_info", {})
        if info is None:
            infos.pop(key, None)
        else:
            infos[as_text(key, "namespace_key")] = info
        if not infos:
            del body["executor_info"]
        self._replace_variant(component_name, variant_name, body, orphan=False)

    def _replace_variant(self, component_name: str, name: str, body: dict[str, Any] | None, orphan: bool = True) -> None:
        """Set a variant, or remove it if `body` is None. Its old folder becomes an orphan unless it is still used."""
        package = self._package()
        component = package.component(component_name)
        variants, bodies = dict(component.variants), dict(component.body["variants"])
        old = variants.pop(name, None) if body is None else variants.get(name)
        if body is None:
            del bodies[name]
        else:
            variants[name] = parse_variant(name, body, component.folder, package.rules, package.strict)
            bodies[name] = body
        if orphan and old is not None:
            self._add_orphan(old.directory)
        self._store(component.replace(body={**component.body, "variants": bodies}, variants=variants))

    def _store(self, component: Component) -> None:
        package = self._package()
        package.components[component.name] = component
        if not component.file:
            package.manifest["components"][component.name] = component.body

    def _forget(self, name: str) -> None:
        """Note the folders of a component that is replaced or removed as orphans."""
        component = self._package().components.get(name)
        if component is not None:
            self._add_orphan(component.folder if component.file else None)
            for variant in component.variants.values():
                self._add_orphan(variant.directory)

    def _add_orphan(self, folder: str | None) -> None:
        package = self._package()
        if folder is not None and package.rules.root and is_below(package.rules.root, folder):
            package.orphans.append(folder)

    # Shared assets

    def add_shared_asset(self, source_dir: Text, expected_uri: str | None = None, copy_in: bool = True) -> str:
        """Add a folder as a shared asset and return its URI.

        `commit` copies it; with `copy_in=False`, which an installed package allows, it stays where it is. Raises Fail for a
        folder that does not have `expected_uri`.
        """
        package, source = self._package(), as_text(source_dir, "source_dir")
        if not copy_in and package.rules.portable:
            raise Fail("add_shared_asset: copy_in=False needs the layout 'installed', because the folder is not in the package")
        uri = compute_directory_hash(source)
        if expected_uri is not None and uri != expected_uri:
            raise Fail(f"add_shared_asset: the hash of {source!r} is {uri}, expected {expected_uri}")
        if copy_in:
            package.pending[uri] = source
        else:
            package.rules.resolve(package.rules.root, source)
            package.manifest.setdefault(ASSETS, {})[uri] = source
        return uri

    def remove_shared_asset(self, uri: str) -> None:
        """Remove a shared asset, and delete its folder if that is in the package. Does nothing for an unknown one."""
        package = self._package()
        places = package.manifest.get(ASSETS, {})
        places.pop(uri, None)
        if not places:
            package.manifest.pop(ASSETS, None)
        package.pending.pop(uri, None)
        if package.rules.root and is_uri(uri):
            folder = os.path.join(package.rules.root, ASSETS, folder_of(uri))
            if os.path.realpath(folder) == folder:
                shutil.rmtree(folder, ignore_errors=True)


def _set_metadata(body: dict[str, Any], text: str | None) -> None:
    if text is None:
        body.pop("additional_metadata", None)
    else:
        body["additional_metadata"] = json_text.parse(as_text(text, "json"), "additional_metadata")


def _variant_body(package: Package, body: dict[str, Any], component: str, name: str) -> dict[str, Any]:
    package.variant(component, name)
    found: dict[str, Any] = body["variants"][name]
    return found
