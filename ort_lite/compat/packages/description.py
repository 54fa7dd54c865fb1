"""The description of a model package that onnxruntime's `ModelPackage.get_info` returns."""

from typing import Any

from ort_lite.compat.packages.json_text import compact
from ort_lite.compat.packages.manifest import LAYOUTS, Package, Variant, executor_info
from ort_lite.compat.packages.paths import Rules


def describe(package: Package) -> dict[str, Any]:
    """Return the metadata, components, variants and shared assets of a package."""
    manifest = package.manifest
    components = [
        {
            "name": component.name,
            "additional_metadata_json": _metadata(component.body),
            "variants": [_describe_variant(variant, package.rules) for variant in component.variants.values()],
        }
        for component in package.components.values()
    ]
    return {
        "schema_version_major": package.version[0],
        "schema_version_minor": package.version[1],
        **{name: manifest.get(name) for name in ("package_name", "package_version", "description")},
        "layout": manifest.get("layout", LAYOUTS[0]),
        "additional_metadata_json": _metadata(manifest),
        "components": components,
        "shared_assets": [{"uri": uri, "resolved_path": path} for uri, path in package.assets().items()],
    }


def _describe_variant(variant: Variant, rules: Rules) -> dict[str, Any]:
    return {
        "name": variant.name,
        "variant_directory": variant.directory,
        **{key: variant.text(key) for key in ("ep", "device", "compatibility_string")},
        "additional_metadata_json": _metadata(variant.body),
        "executor_info": executor_info(variant, rules, must_exist=False),
    }


def _metadata(body: dict[str, Any]) -> str | None:
    return compact(body["additional_metadata"]) if "additional_metadata" in body else None
