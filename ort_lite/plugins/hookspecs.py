"""Every hook that a plugin may implement. A plugin is a module or object with functions of these names; no decorator.

A distribution announces its plugins in its pyproject.toml:

    [project.entry-points."ort_lite.transforms"]
    my_passes = "my_package"    # a module with ort_lite_transforms, ort_lite_fusions, ort_lite_schemas, ort_lite_memory_planners

    [project.entry-points."ort_lite.providers"]
    MyExecutionProvider = "my_package:MyExecutionProvider"    # the class itself, under the name that users write
    my_providers = "my_package.several"                       # or a module with ort_lite_providers

Providers must be named to be used, and transforms of installed plugins must be requested: see `ort_lite.plugins.plugins`.

Hooks are called in the order of registration, ort_lite's own first. If two answers use the same name, the first one wins,
except that a provider registered in the process wins over an installed one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ort_lite.inference.schema import SchemaSource
    from ort_lite.inference.schema_text import OpSchema
    from ort_lite.inference.shape_rules import RuleFamily, ShapeRule
    from ort_lite.memory.planning.planner import MemoryPlanner
    from ort_lite.provider.provider import ExecutionProvider
    from ort_lite.transform.contract import CastInsertion, LayoutConversion, OlderForm, Transform


def ort_lite_providers() -> "Iterable[type[ExecutionProvider]]":
    """Return execution providers, each known by its `name`.

    Called if a provider name is neither built in nor an entry point, and when all providers are listed.
    """
    return ()


def ort_lite_transforms() -> "Iterable[Transform]":
    """Return rewrite rules (`@rule`) and graph passes (`@graph_pass`) in the order in which they are tried.

    Each must preserve the meaning of the graph. `SessionOptions.graph_optimization_level` selects those that run. They run
    before providers are asked, so their results should be operators that every provider knows. The hook of an installed plugin
    is called only if a session's config entry `ort_lite.transforms` names its entry point.
    """
    return ()


def ort_lite_fusions() -> "Iterable[Transform]":
    """Return transforms that fuse several nodes into one, and their follow-ups, in the order in which they are tried.

    They run inside the partitions of providers that ask for them (`ExecutionProvider.fusions`), so they take no node from a
    provider that knows only its parts. A transform may be in `ort_lite_transforms` as well. The hook of an installed plugin is
    called only if `ort_lite.transforms` names its entry point, or a provider names a transform.
    """
    return ()


def ort_lite_shape_rules() -> "Iterable[ShapeRule | list[ShapeRule] | RuleFamily]":
    """Return shape rules (`@shape_rule`), or families that are loaded when a model first needs one.

    Called once a process. A rule of an installed plugin for an operator that ort_lite knows is not used; a rule of a registered
    plugin is tried after ort_lite's own.
    """
    return ()


def ort_lite_schemas() -> "Iterable[OpSchema | SchemaSource]":
    """Return operator schemas (`op_schema`), or files of them that are read when first needed (`SchemaFile`).

    Called once a process. A schema of an installed plugin for an operator that ort_lite knows is not used; a schema of a
    registered plugin is ignored for a version that already has one.
    """
    return ()


def ort_lite_memory_planners() -> "Iterable[MemoryPlanner]":
    """Return memory planners. A session uses one if its config entry `ort_lite.memory_planner` is the planner's `name`.

    Called once a process, for a name that is not one of ort_lite's own. The results of such a planner are checked for every
    shape.
    """
    return ()


def ort_lite_cast_insertion() -> "CastInsertion | None":
    """Return the function that puts Casts around nodes whose element type no provider supports.

    The first answer is used.
    """
    return None


def ort_lite_older_form() -> "OlderForm | None":
    """Return the function that decomposes newer operators for a saved model of an older opset.

    The first answer is used.
    """
    return None


def ort_lite_layout_conversion() -> "LayoutConversion | None":
    """Return the conversion of image operators to channels-last, for providers that prefer it.

    The first answer is used.
    """
    return None
