"""Every hook that a plugin may implement. A plugin is a module (or any object) with functions of these names; no decorator.

A distribution announces its plugins in its pyproject.toml:

    [project.entry-points."ort_lite.transforms"]
    my_passes = "my_package"    # a module with ort_lite_transforms, ort_lite_fusions, ort_lite_schemas, ort_lite_memory_planners

    [project.entry-points."ort_lite.providers"]
    MyExecutionProvider = "my_package:MyExecutionProvider"    # the class itself, under the name that users write
    my_providers = "my_package.several"                       # or a module with ort_lite_providers

Providers have to be named to be used, and transforms of installed plugins have to be asked for: `ort_lite.plugins.plugins` says how.

Calls come in the order of registration, ort_lite's own implementations first; where two answers claim one name, the first
one wins, except that a provider registered in the process wins over an installed one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ort_lite.inference.rules import RuleFamily, ShapeRule
    from ort_lite.inference.schema import SchemaSource
    from ort_lite.inference.schema_text import OpSchema
    from ort_lite.memory.planning.planner import MemoryPlanner
    from ort_lite.provider.provider import ExecutionProvider
    from ort_lite.transform.contract import CastInsertion, LayoutConversion, OlderForm, Transform


def ort_lite_providers() -> "Iterable[type[ExecutionProvider]]":
    """Execution providers, each known by its `name`.

    Asked when a provider name is neither built in nor the name of an entry point, and when all providers are listed.
    """
    return ()


def ort_lite_transforms() -> "Iterable[Transform]":
    """Rewrite rules (`@rule`) and graph passes (`@graph_pass`), in the order in which they are to be tried.

    Each keeps the meaning of the graph; `SessionOptions.graph_optimization_level` says which run. They run before providers are
    asked: what they make should be nodes of operators that every provider of the model's knows. The hook of an installed plugin is
    called once a session's config entry `ort_lite.transforms` names its entry point.
    """
    return ()


def ort_lite_fusions() -> "Iterable[Transform]":
    """Transforms that make one node of several, in the order in which they are to be tried, and such as follow on them.

    They run inside the partitions of providers that ask for them (`ExecutionProvider.fusions`), so that they take no node from a
    provider that knows its parts alone. A transform may be in `ort_lite_transforms` too. The hook of an installed plugin is called
    once `ort_lite.transforms` names its entry point, or a provider names a transform.
    """
    return ()


def ort_lite_shape_rules() -> "Iterable[ShapeRule | list[ShapeRule] | RuleFamily]":
    """Shape rules (`@shape_rule`), or families that are loaded when a model first needs one.

    Asked once a process. A rule of an installed plugin for an operator that ort_lite knows is not used; one of a registered plugin
    comes second.
    """
    return ()


def ort_lite_schemas() -> "Iterable[OpSchema | SchemaSource]":
    """Schemas of operators (`op_schema`), or files of them that are read when a model is first checked (`SchemaFile`).

    Asked once a process. A schema of an installed plugin for an operator that ort_lite knows is not used; one of a registered plugin
    does not count for a version that has one already.
    """
    return ()


def ort_lite_memory_planners() -> "Iterable[MemoryPlanner]":
    """Memory planners, each used by the sessions whose config entry `ort_lite.memory_planner` is its `name`.

    Asked once a process, when a name is none of ort_lite's own. What such a planner says is checked for every shape.
    """
    return ()


def ort_lite_cast_insertion() -> "CastInsertion | None":
    """The function that puts Casts around nodes which no provider takes in their element type. The first answer counts."""
    return None


def ort_lite_older_form() -> "OlderForm | None":
    """The function that takes newer operators apart for a saved model of an older opset. The first answer counts."""
    return None


def ort_lite_layout_conversion() -> "LayoutConversion | None":
    """Return the conversion of image operators to channels last, for providers that prefer it. The first answer counts."""
    return None
