"""Find providers, transforms, shape rules, schemas and memory planners, and select the providers of a session."""

from ort_lite.plugins.entry_points import PROVIDERS, TRANSFORMS, EntryPoint, scan
from ort_lite.plugins.plugins import (
    BUILT_IN_PROVIDERS,
    BUILT_IN_TRANSFORMS,
    Registry,
    available_providers,
    cast_insertion,
    fusions,
    installed_providers,
    layout_conversion,
    memory_planner,
    older_form,
    provider,
    register_plugin,
    register_provider,
    shape_rules,
    transforms,
)

__all__ = [
    "BUILT_IN_PROVIDERS",
    "BUILT_IN_TRANSFORMS",
    "PROVIDERS",
    "TRANSFORMS",
    "EntryPoint",
    "Registry",
    "available_providers",
    "cast_insertion",
    "fusions",
    "installed_providers",
    "layout_conversion",
    "memory_planner",
    "older_form",
    "provider",
    "register_plugin",
    "register_provider",
    "scan",
    "shape_rules",
    "transforms",
]
