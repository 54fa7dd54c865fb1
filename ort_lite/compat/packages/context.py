"""onnxruntime's classes that read a model package, select a variant and open its session."""

import os
from collections.abc import Mapping
from typing import Any

from ort_lite import log
from ort_lite.compat.inference_session import InferenceSession
from ort_lite.compat.ort_options import SessionOptions as CompatibleOptions
from ort_lite.compat.packages import json_text
from ort_lite.compat.packages.assets import resolve_reference
from ort_lite.compat.packages.manifest import Package, Variant, executor_info, read_package
from ort_lite.compat.packages.paths import as_text
from ort_lite.compat.packages.selection import ModelPackageOptions, VariantTarget, select
from ort_lite.errors import Fail, InvalidArgument, InvalidType
from ort_lite.options import config_keys
from ort_lite.options.options import SessionOptions
from ort_lite.plugins import plugins
from ort_lite.record import Record, field

_PATHS = (config_keys.INITIALIZERS_FOLDER, config_keys.CONTEXT_PATH, "ep.context_source_model_path")
"""Session entries whose values are paths in the package."""


class Opening(Record):
    """The model file and the options for a session of a variant, with real paths. `model_file` is "" if the variant names none."""

    model_file: str = ""
    session_options: Mapping[str, str] = field(default_factory=dict)
    provider_options: Mapping[str, str] = field(default_factory=dict)


class ModelPackageContext:
    """A model package that is open for reading.

    Args:
        package_root: the folder with manifest.json.
        allow_external_paths: True allows paths that leave the folder, also through links. onnxruntime does not have this
            argument: there, the package itself allows them by its layout "installed".
    """

    def __init__(self, package_root: str | os.PathLike[str], *, allow_external_paths: bool = False) -> None:
        """Read and check the package. Raises NoSuchFile, Unreadable and InvalidArgument."""
        root = os.fspath(package_root)
        if not isinstance(root, str):
            raise InvalidType(f"ModelPackageContext: the folder came as {type(root).__name__}, expected str")
        self._package = read_package(root, allow_external_paths, links=True, strict=True)
        assets = self._package.assets()
        for component in self._package.components.values():
            for variant in component.variants.values():
                read_opening(self._package, variant, assets)

    def get_schema_version(self) -> int:
        """Return the major version of the package's format."""
        return self._package.version[0]

    def get_component_count(self) -> int:
        """Return the number of components."""
        return len(self._package.components)

    def get_component_names(self) -> list[str]:
        """Return the names of the components, in their order in the manifest."""
        return list(self._package.components)

    def get_variant_count(self, component_name: str) -> int:
        """Return the number of variants of a component. Raises NoSuchFile for an unknown one."""
        return len(self._package.component(component_name).variants)

    def get_variant_names(self, component_name: str) -> list[str]:
        """Return the names of a component's variants, in their order. Raises NoSuchFile for an unknown component."""
        return list(self._package.component(component_name).variants)

    def get_variant_ep_name(self, component_name: str, variant_name: str) -> str | None:
        """Return the provider that a variant is for; None if it names none. Raises NoSuchFile for an unknown one."""
        return self._package.variant(component_name, variant_name).text("ep")

    def resolve_string_ref(
        self, string_ref: str, base_dir: str | os.PathLike[str] | None = None, must_exist: bool = False
    ) -> str:
        """Return the path of `sha256:<hex>`, of `sha256:<hex>/path`, or of a path relative to `base_dir` or the package."""
        base = None if base_dir is None else os.fspath(base_dir)
        return self._package.resolve(as_text(string_ref, "string_ref"), base, must_exist)

    def select_component(self, component_name: str, options: ModelPackageOptions) -> "ModelPackageComponentContext":
        """Select the variant of a component that suits the provider of the options best.

        A variant suits if it is for this provider and, if it names one, for a kind of device that the provider has. The provider
        judges its `compatibility_string`. Raises NoSuchFile for an unknown component, and Fail if no variant suits.
        """
        if not isinstance(options, ModelPackageOptions):
            raise InvalidType(f"select_component: options came as {type(options).__name__}, expected ModelPackageOptions")
        target = options._target
        variants = self._package.component(component_name).variants.values()
        variant = select(variants, target)
        if variant is None:
            there = "; ".join(f"{each.name!r}: {each.text('ep')}, {each.text('device') or 'any device'}" for each in variants)
            raise Fail(
                f"No suitable model variant found for the configured execution providers: {component_name!r} has none for "
                f"{target.name}, which comes first; it has {there or 'no variants'}"
            )
        return ModelPackageComponentContext(self._package, variant, target)


class ModelPackageComponentContext:
    """The selected variant of a component."""

    def __init__(self, package: Package, variant: Variant, target: VariantTarget) -> None:
        """Programs call `ModelPackageContext.select_component` instead."""
        self._package, self._variant, self._target = package, variant, target

    def get_selected_variant_name(self) -> str:
        """Return the name of the variant."""
        return self._variant.name

    def get_selected_variant_folder_path(self) -> str:
        """Return the folder of the variant; "" if it has none."""
        return self._variant.directory or ""

    def create_session(self, sess_options: SessionOptions | None = None) -> InferenceSession:
        """Open a session of the variant's model.

        Without options, those of the package apply, and the provider that the variant was selected for runs the model. Given
        options apply as they are, except that the package adds its paths for entries that they do not set. Raises Fail if the
        variant names no model, and the errors of session creation.
        """
        found = read_opening(self._package, self._variant, self._package.assets())
        if not found.model_file:
            raise Fail(f"Selected variant {self._variant.name!r} has no executor_info['ort']['model_file']")
        options = CompatibleOptions.of(sess_options)
        if sess_options is None:
            entries = _known_entries(found.session_options, self._target.name, self._variant.name)
            for instance in self._target.instances:
                options.add_provider(self._target.name, {**instance, **found.provider_options})
        else:
            entries = {key: found.session_options[key] for key in _PATHS if key in found.session_options}
        for key, value in entries.items():
            if key not in options.config_entries:
                options.add_session_config_entry(key, value)
        return InferenceSession(found.model_file, options)


def read_opening(package: Package, variant: Variant, assets: Mapping[str, str]) -> Opening:
    """Read the model file and options of a variant.

    Raises InvalidArgument for values of other types and paths that are refused, and NoSuchFile for unknown assets.
    """
    where = f"variant {variant.name!r}: executor_info['ort']"
    text = executor_info(variant, package.rules, must_exist=True).get("ort")
    if text is None:
        return Opening()
    info = json_text.parse_object(text, where)
    file = info.get("model_file", "")
    if not isinstance(file, str):
        raise InvalidArgument(f"{where}: model_file is {file!r}, expected a string")
    entries, options = (_texts(info, key, where) for key in ("session_options", "provider_options"))
    base = variant.directory or package.rules.root
    for key in _PATHS:
        if entries.get(key):
            entries[key] = resolve_reference(entries[key], base, package.rules, assets)
    return Opening(file and resolve_reference(file, base, package.rules, assets), entries, options)


def _texts(info: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    found = json_text.as_object(info.get(key, {}), f"{where}: {key}")
    for name, value in found.items():
        if not isinstance(value, str):
            raise InvalidArgument(f"{where}: {key}[{name!r}] is {value!r}, expected a string")
    return found


def _known_entries(entries: Mapping[str, str], provider: str, variant: str) -> dict[str, str]:
    """Return the session entries that ort-lite or the provider knows. A warning names the others, which onnxruntime ignores."""
    known = config_keys.session_keys() | set(plugins.provider(provider).config_keys)
    unknown = [key for key in entries if key not in known]
    if unknown:
        names = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        log.warn(
            log.WARNING, f"variant {variant!r} of a model package: {len(unknown)} unknown session entries are ignored: {names}"
        )
    return {key: value for key, value in entries.items() if key in known}
