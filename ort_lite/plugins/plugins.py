"""Find providers, transforms, shape rules, schemas and memory planners: built-in, installed, and registered in the process.

Installed does not mean enabled (decision 0074). Installed providers run if they are named, or through `set_default_providers`;
installed transforms and fusions run in sessions whose config entry `ort_lite.transforms` names their plugin; memory planners if
`ort_lite.memory_planner` names them. Shape rules and schemas of installed plugins apply everywhere, to operators that ort_lite
does not know. Everything that a program registers is enabled, except that providers must be named.

ort_lite's own distributions are imported by name, so that a session that needs nothing else loads nothing else: pluggy (6 ms)
and installed providers are loaded if a provider name is not built in, or if all are requested. The entry_points.txt files of
the environment are read once a process (2 ms for 75 distributions; importlib.metadata takes 50). Distributions that only an
import hook can see (zip files) are not found this way; pass their modules to `register_plugin`.
"""

import os
import sys
import warnings
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ort_lite._version import __version__
from ort_lite.errors import InvalidArgument, ProviderError, describe, hint
from ort_lite.graph.graph import Node
from ort_lite.inference.schema import Schemas
from ort_lite.inference.shape_rules import RuleFamily, ShapeRule, ShapeRules
from ort_lite.inference.traits import Traits
from ort_lite.options.config_keys import INSTALLED_TRANSFORMS
from ort_lite.plugins.additions import new_rules, new_schemas
from ort_lite.plugins.entry_points import HOSTS, PROVIDERS, TRANSFORMS, EntryPoint, is_provider, scan
from ort_lite.plugins.hooks import answers_of

if TYPE_CHECKING:
    from ort_lite.memory.planning.planner import MemoryPlanner
    from ort_lite.provider.provider import ExecutionProvider
    from ort_lite.transform.contract import CastInsertion, LayoutConversion, OlderForm, Transform

ALL = "all"
"""The name that stands for every installed plugin."""
_ON_REQUEST = frozenset({"ort_lite_transforms", "ort_lite_fusions"})
"""Hooks that change how every model runs; of installed plugins, only the named ones are asked."""

# The entry points of this distribution (a test compares them).
BUILT_IN_PROVIDERS = {"CPUExecutionProvider": "ort_lite_cpu:CPUExecutionProvider"}
BUILT_IN_TRANSFORMS = {"ort_lite_transforms": "ort_lite_transforms"}


class Registry:
    """The installed and registered plugins. `paths` are the directories to scan; None: those of `sys.path` on first use."""

    def __init__(self, paths: Iterable[str] | None = None) -> None:
        self._paths = None if paths is None else list(paths)
        self._entries: list[EntryPoint] | None = None
        self._registered: dict[str, type[ExecutionProvider]] = {}
        self._loaded: dict[str, type[ExecutionProvider]] = {}
        self._plugins: list[Any] = []
        self._answers: dict[tuple[str, frozenset[str]], list[Any]] = {}
        self._rules: ShapeRules | None = None

    def register_provider(self, name: str, cls: "type[ExecutionProvider]") -> None:
        """Register a class in this process under a name; a later registration of the name replaces it.

        Raises ProviderError for anything but a provider class.
        """
        if not is_provider(cls):
            raise ProviderError(
                f"register_provider: {name!r} is {cls!r}; expected a class derived from ort_lite.provider.ExecutionProvider"
            )
        self._registered[name] = cls

    def unregister_provider(self, name: str) -> None:
        """Undo `register_provider`. Sessions keep their providers. Raises ProviderError for an unknown name."""
        if self._registered.pop(name, None) is None:
            raise ProviderError(f"no execution provider was registered as {name!r}{hint(name, self._registered)}")

    def unregister_plugin(self, plugin: Any) -> None:
        """Undo `register_plugin`. Sessions keep what they use. Raises ProviderError for an unknown plugin."""
        if not any(known is plugin for known in self._plugins):
            raise ProviderError(f"{plugin!r} was not registered as a plugin")
        self._plugins = [known for known in self._plugins if known is not plugin]
        self._answers.clear()
        self._rules = None

    def register_plugin(self, plugin: Any) -> None:
        """Register a module or object that implements hooks (see `ort_lite.plugins.hookspecs`), after earlier ones."""
        self._plugins.append(plugin)
        self._answers.clear()
        self._rules = None

    def has_additions(self) -> bool:
        """Return True if a plugin is registered in this process, or one with transforms is installed besides ort-lite's own."""
        return bool(self._plugins or self._entry_points(TRANSFORMS))

    def transforms(self, installed: Collection[str] = ()) -> "list[Transform]":
        """Return all rewrite rules and graph passes: ort_lite's own, those of the named installed plugins, and registered ones.

        `installed` may contain ALL. Raises InvalidArgument for a name that no installed plugin has.
        """
        return _flatten(self._ask("ort_lite_transforms", installed))

    def fusions(self, installed: Collection[str] = ()) -> "list[Transform]":
        """Return all transforms for partitions of providers that ask for them, from the same plugins as `transforms`."""
        return _flatten(self._ask("ort_lite_fusions", installed))

    def shape_rules(self) -> ShapeRules:
        """Return all shape rules and schemas, created once. Those of installed plugins add operators and change none."""
        if self._rules is None:
            rules, schemas = self._ask_own("ort_lite_shape_rules"), self._ask_own("ort_lite_schemas")
            if self._entry_points(TRANSFORMS):
                known = ShapeRules(_flat(rules), Schemas(_flatten(schemas)))
                rules = [*rules, new_rules(_flat(self._ask_installed_plugins("ort_lite_shape_rules")), known)]
                schemas = [*schemas, new_schemas(_flatten(self._ask_installed_plugins("ort_lite_schemas")), known)]
            rules = [*rules, *answers_of(self._plugins, "ort_lite_shape_rules")]
            schemas = [*schemas, *answers_of(self._plugins, "ort_lite_schemas")]
            self._rules = ShapeRules(_flat(rules), Schemas(_flatten(schemas)))
        return self._rules

    def traits(self, node: Node) -> Traits:
        """Return the traits of the node's operator according to the schemas that are not provider-specific."""
        return self.shape_rules().schemas.traits(node)

    def cast_insertion(self) -> "CastInsertion":
        """Return the function that puts Casts around nodes. Raises ProviderError if no plugin has one."""
        found: CastInsertion = self._first_answer("ort_lite_cast_insertion")
        return found

    def older_form(self) -> "OlderForm":
        """Return the function that decomposes newer operators. Raises ProviderError if no plugin has one."""
        found: OlderForm = self._first_answer("ort_lite_older_form")
        return found

    def layout_conversion(self) -> "LayoutConversion":
        """Return the conversion to channels-last. Raises ProviderError if no plugin has one."""
        found: LayoutConversion = self._first_answer("ort_lite_layout_conversion")
        return found

    def _first_answer(self, hook: str) -> Any:
        answers = self._ask(hook)
        if not answers:
            raise ProviderError(f"no plugin implements the hook {hook}; ort_lite_transforms should")
        return answers[0]

    def memory_planner(self, name: str) -> "MemoryPlanner":
        """Return the memory planner of a name. Plugins are asked only if ort_lite has none.

        Raises InvalidArgument for an unknown name.
        """
        from ort_lite.memory.planning.planner import PLANNERS

        if name in PLANNERS:
            return PLANNERS[name]
        found = self._plugin_planners()
        if name not in found:
            known = (*PLANNERS, *found)
            raise InvalidArgument(f"no memory planner is called {name!r}{hint(name, known)} (known: {', '.join(known)})")
        return found[name]

    def _plugin_planners(self) -> "dict[str, MemoryPlanner]":
        """Return the planners of plugins by name; the first of two wins. Raises ProviderError for other objects."""
        from ort_lite.memory.planning.planner import MemoryPlanner

        found: dict[str, MemoryPlanner] = {}
        for planner in _flatten(self._ask("ort_lite_memory_planners")):
            if not isinstance(planner, MemoryPlanner) or not planner.name:
                raise ProviderError(f"ort_lite_memory_planners gave {planner!r}; expected MemoryPlanner objects with a name")
            found.setdefault(planner.name, planner)
        return found

    def provider(self, name: str) -> "type[ExecutionProvider]":
        """Return the provider class of a name. Raises ProviderError with the known names and the nearest one."""
        cls = self._find(name)
        if cls is None:
            known = self.installed_providers()
            raise ProviderError(f"no execution provider is called {name!r}{hint(name, known)} (installed: {', '.join(known)})")
        return cls

    def available_providers(self) -> list[str]:
        """Return the names of available providers by falling `priority`, then name, with the built-in ones last.

        A class with `default = False` (a sample, a reference) is left out. Sessions use the providers that they name
        (`providers=[...]`) or those of `set_default_providers`.
        """
        names = [name for name in self.installed_providers() if name not in BUILT_IN_PROVIDERS]
        chosen: list[tuple[bool, int, str]] = []
        for name in (*names, *BUILT_IN_PROVIDERS):
            try:
                cls = self._find(name)
            except ProviderError as error:
                warnings.warn(f"{describe(error)}; it is left out", RuntimeWarning, stacklevel=2)
                continue
            if cls is not None and getattr(cls, "default", True):
                chosen.append((name in BUILT_IN_PROVIDERS, -getattr(cls, "priority", 0), name))
        return [name for _, _, name in sorted(chosen)]

    def installed_providers(self) -> list[str]:
        """Return the sorted names of all providers that can be named, including those with `default = False`."""
        entries = [entry.name for entry in self._entry_points(PROVIDERS) if entry.is_object]
        return sorted({*self._registered, *BUILT_IN_PROVIDERS, *entries, *self._plugin_providers()})

    def list_provider_names(self) -> list[str]:
        """Return the sorted names of installed and registered providers without importing them.

        A plugin module is represented by the name of its entry point.
        """
        return sorted({*self._registered, *(entry.name for entry in self._entry_points(PROVIDERS))})

    def origin(self, name: str) -> str:
        """Return the origin of a provider: a distribution with its version, "ort-lite", or "registered in this process"."""
        if name in self._registered:
            return "registered in this process"
        if name in BUILT_IN_PROVIDERS:
            return f"ort-lite {__version__}"
        entries = self._entry_points(PROVIDERS)
        named = [entry for entry in entries if entry.name == name and entry.is_object]
        cls = None if named else self._plugin_providers().get(name)
        asked = [entry for entry in entries if cls is not None and entry.value.strip() == cls.__module__]
        found = next(iter(named or asked), None)
        return " ".join(os.path.basename(found.origin).rpartition(".")[0].split("-")[:2]) if found else "a plugin"

    def host(self, name: str) -> Any:
        """Load the host of a name, a runtime in which the conformance kit can test providers.

        Raises InvalidArgument if no installed plugin has it, and ProviderError if its import fails.
        """
        entries = {entry.name: entry for entry in self._entry_points(HOSTS)}
        if name not in entries:
            raise InvalidArgument(
                f"no installed plugin runs providers in {name!r}{hint(name, entries)} (installed: {', '.join(entries) or 'none'}); "
                "for onnxruntime, install the packages onnxruntime and ort-lite-ep"
            )
        return entries[name].load()

    def _find(self, name: str) -> "type[ExecutionProvider] | None":
        if name in self._registered:
            return self._registered[name]
        if name not in self._loaded:
            found = self._load(name) or self._plugin_providers().get(name)
            if found is None:
                return None
            self._loaded[name] = found
        return self._loaded[name]

    def _load(self, name: str) -> "type[ExecutionProvider] | None":
        """Load the provider from its entry point. Built-in names need no scan."""
        entries = [EntryPoint(PROVIDERS, name, BUILT_IN_PROVIDERS[name], "ort-lite")] if name in BUILT_IN_PROVIDERS else []
        for entry in entries or self._entry_points(PROVIDERS):
            if entry.name == name and entry.is_object:
                return entry.load_provider()
        return None

    def _plugin_providers(self) -> "dict[str, type[ExecutionProvider]]":
        """Return the providers of plugins by name; the first of two wins."""
        found: dict[str, type[ExecutionProvider]] = {}
        for cls in _flatten(self._ask("ort_lite_providers")):
            found.setdefault(cls.name, cls)
        return found

    def _entry_points(self, group: str) -> list[EntryPoint]:
        """Return the entry points of other distributions."""
        if self._entries is None:
            self._entries = scan(sys.path if self._paths is None else self._paths)
        own = {*BUILT_IN_PROVIDERS.values(), *BUILT_IN_TRANSFORMS.values()}
        return [entry for entry in self._entries if entry.group == group and entry.value not in own]

    def _ask(self, hook: str, installed: Collection[str] = ()) -> list[Any]:
        """Return the answers of ort_lite's own, installed and registered plugins, without None."""
        key = hook, frozenset(installed)
        if key not in self._answers:
            own, registered = self._ask_own(hook), answers_of(self._plugins, hook)
            self._answers[key] = [*own, *self._ask_installed_plugins(hook, installed), *registered]
        return self._answers[key]

    def _ask_own(self, hook: str) -> list[Any]:
        """Return the answers of ort_lite's own plugins, which are called without pluggy."""
        built_in = [import_module(value) for value in BUILT_IN_TRANSFORMS.values()]
        answers = (getattr(module, hook)() for module in built_in if hasattr(module, hook))
        return [answer for answer in answers if answer is not None]

    def _ask_installed_plugins(self, hook: str, names: Collection[str] = ()) -> list[Any]:
        """Return the answers of installed plugins that are not also registered.

        A plugin that cannot be imported is skipped with a warning.
        """
        modules = self._modules(hook) if hook not in _ON_REQUEST else self._request(names)
        plugins = []
        for entry in modules:
            try:
                plugins.append(entry.load())
            except ProviderError as error:
                warnings.warn(f"{describe(error)}; its hooks are not called", RuntimeWarning, stacklevel=2)
        return answers_of([found for found in plugins if not any(found is one for one in self._plugins)], hook)

    def _modules(self, hook: str) -> list[EntryPoint]:
        """Return the installed plugins to ask. Provider modules are imported only for the providers' hook."""
        modules = self._entry_points(TRANSFORMS)
        if hook == "ort_lite_providers":
            modules += [entry for entry in self._entry_points(PROVIDERS) if not entry.is_object]
        return modules

    def _request(self, names: Collection[str]) -> list[EntryPoint]:
        """Return the installed plugins with these names. Raises InvalidArgument for an unknown name."""
        if not names:
            return []
        entries = self._entry_points(TRANSFORMS)
        known = [entry.name for entry in entries]
        for name in sorted(set(names) - {ALL, *known}):
            raise InvalidArgument(
                f"session config entry {INSTALLED_TRANSFORMS}: no installed plugin is called {name!r}{hint(name, known)} "
                f"(installed: {', '.join(known) or 'none'}; {ALL!r} means every one)"
            )
        return [entry for entry in entries if ALL in names or entry.name in names]


def _flatten(answers: Iterable[Iterable[Any]]) -> list[Any]:
    return [each for answer in answers for each in answer]


def _flat(answers: Iterable[Iterable[Any]]) -> "list[ShapeRule | RuleFamily]":
    """Return the rules with the lists that `@shape_rule` returns flattened."""
    return [rule for each in _flatten(answers) for rule in (each if isinstance(each, list) else [each])]


_process = Registry()  # registrations and the scan are process-wide, like installed packages
register_provider = _process.register_provider
register_plugin = _process.register_plugin
unregister_provider = _process.unregister_provider
unregister_plugin = _process.unregister_plugin
transforms = _process.transforms
fusions = _process.fusions
has_additions = _process.has_additions
shape_rules = _process.shape_rules
traits = _process.traits
cast_insertion = _process.cast_insertion
older_form = _process.older_form
layout_conversion = _process.layout_conversion
memory_planner = _process.memory_planner
provider = _process.provider
available_providers = _process.available_providers
installed_providers = _process.installed_providers
list_provider_names = _process.list_provider_names
origin = _process.origin
host = _process.host
