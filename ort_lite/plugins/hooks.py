"""Call the hooks of third-party plugins and check their answers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ort_lite.errors import ProviderError, format_error
from ort_lite.inference.shape_rules import RuleFamily, ShapeRule
from ort_lite.plugins.entry_points import is_provider

if TYPE_CHECKING:
    import pluggy


def answers_of(plugins: list[Any], hook: str) -> list[Any]:
    """Return the answers of the plugins in order, without None."""
    if not plugins:
        return []
    manager = _manager()
    for plugin in reversed(plugins):  # pluggy calls the last registered plugin first
        if not manager.is_registered(plugin):
            try:
                manager.register(plugin, name=str(id(plugin)))
            except Exception as error:
                raise ProviderError(f"plugin {getattr(plugin, '__name__', plugin)}: {hook}: {format_error(error)}") from error
    return [answer for answer in _call_hook(manager, hook) if answer is not None]


def _call_hook(manager: "pluggy.PluginManager", hook: str) -> list[Any]:
    """Call a hook of each plugin in order. Raises ProviderError naming the plugin and the hook."""
    fits, expected = _elements(hook)
    answers = []
    for found in reversed(getattr(manager.hook, hook).get_hookimpls()):
        who = f"plugin {getattr(found.plugin, '__name__', found.plugin)}: {hook}"
        try:
            answer = found.function()
            if expected and answer is not None:
                answer = list(answer)
        except Exception as error:
            raise ProviderError(f"{who} failed: {format_error(error)}") from error
        for each in answer if expected and answer is not None else ():
            if not fits(each):
                raise ProviderError(f"{who} gave {each!r}; expected {expected}")
        answers.append(answer)
    return answers


def _elements(hook: str) -> tuple[Callable[[Any], bool], str]:
    """Return a check of the elements that a hook returns, and their description; "" for hooks that return no list."""
    if hook == "ort_lite_providers":
        return is_provider, "classes derived from ort_lite.provider.ExecutionProvider"
    if hook in ("ort_lite_transforms", "ort_lite_fusions"):
        from ort_lite.transform.contract import GraphPass, LocalRule

        return lambda each: isinstance(each, (LocalRule, GraphPass)), "what @rule and @graph_pass make"
    if hook == "ort_lite_shape_rules":
        return lambda each: isinstance(each, (ShapeRule, RuleFamily, list)), "what @shape_rule makes"
    if hook == "ort_lite_schemas":
        return lambda each: hasattr(each, "versions") or hasattr(each, "since"), "what op_schema makes, or files of schemas"
    if hook == "ort_lite_memory_planners":
        return lambda each: True, "MemoryPlanner objects"
    return lambda each: True, ""


def _manager() -> "pluggy.PluginManager":
    """Return a pluggy manager that treats every function named `ort_lite_*` as a hook: plugins need no decorator."""
    import pluggy

    from ort_lite.plugins import hookspecs

    class Manager(pluggy.PluginManager):
        def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
            return {} if name.startswith("ort_lite_") and callable(getattr(plugin, name, None)) else None

        def parse_hookspec_opts(self, module_or_class: object, name: str) -> Any:
            return {} if name.startswith("ort_lite_") else None

    manager = Manager("ort_lite")
    manager.add_hookspecs(hookspecs)
    return manager
