import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ort_lite.errors import InvalidArgument, ProviderError
from ort_lite.graph import Graph, Node
from ort_lite.inference import Info, Op, shape_rule
from ort_lite.plugins import Registry, entry_points, hookspecs, plugins, scan
from ort_lite.provider import ExecutionProvider
from ort_lite.transform import Rewriter, graph_pass

Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a distribution in tmp_path: (name, entry_points.txt, source of its module)."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, entry_points: str, source: str) -> None:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_text(entry_points)
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return make


SCHEMAS = "from ort_lite.inference.schema_text import op_schema\n"
PROVIDER = """
from ort_lite.provider import ExecutionProvider
class Mine(ExecutionProvider):
    name = "MineExecutionProvider"
    default = {default}
"""


HOOK = "def ort_lite_providers(): return [Mine]"


@graph_pass(level="basic")
def nothing(graph: Graph, rewriter: Rewriter) -> int:
    return 0


@shape_rule("Unheard", domain="nowhere")
def unheard(op: Op) -> list[Info]:
    return []


def test_entry_points_are_read_from_the_files_of_a_directory(tmp_path: Path, install: Install) -> None:
    install("first", "[console_scripts]\nx = y\n\n[ort_lite.providers]\n# a comment\nA = first:A\nB = first:B.C [extra]\n", "")
    install("second", "[ort_lite.transforms]\nT = second\n[other]\nT = x\n", "")
    (tmp_path / "third-1.0.dist-info").mkdir()
    found = [(entry.group, entry.name, entry.value) for entry in scan([str(tmp_path), str(tmp_path / "missing")])]
    assert found == [
        ("ort_lite.providers", "A", "first:A"),
        ("ort_lite.providers", "B", "first:B.C"),
        ("ort_lite.transforms", "T", "second"),
    ]


def test_the_first_directory_that_has_a_name_wins(tmp_path: Path) -> None:
    for folder, value in (("a", "one:P"), ("b", "two:P")):
        (tmp_path / folder / "d-1.dist-info").mkdir(parents=True)
        (tmp_path / folder / "d-1.dist-info" / "entry_points.txt").write_text(f"[ort_lite.providers]\nP = {value}\n")
    assert [entry.value for entry in scan([str(tmp_path / "a"), str(tmp_path / "b")])] == ["one:P"]


def test_what_is_built_in_is_what_the_distribution_announces() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    announced = project["entry-points"]
    assert announced["ort_lite.providers"] == plugins.BUILT_IN_PROVIDERS
    assert announced["ort_lite.transforms"] == plugins.BUILT_IN_TRANSFORMS


@pytest.mark.parametrize(
    ("line", "more"), [("MineExecutionProvider = mine:Mine", ""), ("any = mine", HOOK)], ids=["class", "hook"]
)
def test_an_installed_provider_is_found_by_its_name(tmp_path: Path, install: Install, line: str, more: str) -> None:
    install("mine", f"[ort_lite.providers]\n{line}\n", PROVIDER.format(default=True) + more)
    registry = Registry([str(tmp_path)])
    assert registry.provider("MineExecutionProvider").__name__ == "Mine"
    assert registry.available_providers() == ["MineExecutionProvider", "CPUExecutionProvider"]


def test_providers_are_announced_without_being_imported(tmp_path: Path, install: Install) -> None:
    install("bad", "[ort_lite.providers]\nBadExecutionProvider = bad:Bad\nmany = bad\n", "raise AssertionError\n")
    registry = Registry([str(tmp_path)])
    registry.register_provider("MyExecutionProvider", ExecutionProvider)
    assert registry.list_provider_names() == ["BadExecutionProvider", "MyExecutionProvider", "many"]


def test_one_that_does_not_take_part_by_default_is_installed_but_not_available(tmp_path: Path, install: Install) -> None:
    install("mine", "[ort_lite.providers]\nMineExecutionProvider = mine:Mine\n", PROVIDER.format(default=False))
    registry = Registry([str(tmp_path)])
    assert registry.available_providers() == ["CPUExecutionProvider"]
    assert registry.installed_providers() == ["CPUExecutionProvider", "MineExecutionProvider"]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ProviderError, match="'CPUExecutionProvidr'; did you mean 'CPUExecutionProvider'"):
        Registry(paths=()).provider("CPUExecutionProvidr")


def test_a_provider_that_cannot_be_imported_names_its_entry_point(tmp_path: Path, install: Install) -> None:
    install("bad", "[ort_lite.providers]\nBadExecutionProvider = bad:Bad\n", "import nowhere_at_all\n")
    registry = Registry([str(tmp_path)])
    with pytest.raises(ProviderError, match=r"BadExecutionProvider = bad:Bad .*bad-1.0.dist-info.* ModuleNotFoundError"):
        registry.provider("BadExecutionProvider")
    with pytest.warns(RuntimeWarning, match="it is left out"):
        assert registry.available_providers() == ["CPUExecutionProvider"]


PASSES = """
from tests.plugins.test_plugins import nothing, unheard
def ort_lite_transforms(): return [nothing]
def ort_lite_fusions(): return [nothing]
def ort_lite_shape_rules(): return [unheard]
"""


@pytest.mark.parametrize("names", [{"mine"}, {"all"}, {"mine", "all"}], ids=lambda names: "+".join(sorted(names)))
def test_installed_transforms_come_after_the_built_in_ones_where_they_are_named(
    tmp_path: Path, install: Install, names: set[str]
) -> None:
    install("passes", "[ort_lite.transforms]\nmine = passes\n", PASSES)
    registry, bare = Registry([str(tmp_path)]), Registry(paths=())
    assert registry.transforms() == bare.transforms() and registry.fusions() == bare.fusions()
    assert registry.transforms(names) == [*bare.transforms(), nothing]
    assert registry.fusions(names) == [*bare.fusions(), nothing]


def test_a_name_that_no_installed_plugin_has_is_refused(tmp_path: Path, install: Install) -> None:
    install("passes", "[ort_lite.transforms]\nmine = passes\n", PASSES)
    with pytest.raises(
        InvalidArgument, match=r"no installed plugin is called 'mime'; did you mean 'mine'\? \(installed: mine;"
    ):
        Registry([str(tmp_path)]).transforms({"mime"})
    with pytest.raises(InvalidArgument, match=r"no installed plugin is called 'mine' \(installed: none;"):
        Registry(paths=()).fusions({"mine"})


def test_a_plugin_that_is_installed_and_registered_is_asked_once(tmp_path: Path, install: Install) -> None:
    install("passes", "[ort_lite.transforms]\nmine = passes\n", PASSES)
    registry = Registry([str(tmp_path)])
    registry.register_plugin(import_module("passes"))
    assert registry.transforms().count(nothing) == registry.transforms({"all"}).count(nothing) == 1


def test_installed_shape_rules_and_schemas_hold_everywhere(tmp_path: Path, install: Install) -> None:
    source = PASSES + "def ort_lite_schemas(): return [op_schema('Unheard-1 x:float -> y:float', 'nowhere')]\n"
    install("passes", "[ort_lite.transforms]\nmine = passes\n", source.replace(PASSES, f"{SCHEMAS}{PASSES}"))
    rules = Registry([str(tmp_path)]).shape_rules()
    assert rules.knows("nowhere", "Unheard") and rules.schemas.knows("nowhere", "Unheard")


def test_installed_shape_rules_and_schemas_change_no_operator_that_ort_lite_knows(
    tmp_path: Path, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    source = f"""{SCHEMAS}
from ort_lite.inference import shape_rule
from ort_lite.inference.shape_rules import RuleFamily

@shape_rule("Relu", "Unheard", since=99)
def changed(op): raise AssertionError

class Source:
    def versions(self, domain, op_type): return (99,) if op_type in ("Abs", "Heard") else ()
    def schema(self, domain, op_type, since): return op_schema(f"{{op_type}}-99 x:float -> y:float", domain)
    def complete(self): return {{"": 99, "nowhere": 3}}

def ort_lite_shape_rules():
    return [changed, RuleFamily({{("", "Neg"), ("nowhere", "Neg")}}, lambda: [])]
def ort_lite_schemas():
    return [op_schema("Relu-99 x:float -> y:float", ""), Source()]
"""
    install("passes", "[ort_lite.transforms]\nmine = passes\n", source)
    rules, bare = Registry([str(tmp_path)]).shape_rules(), Registry(paths=()).shape_rules()
    for op_type in ("Relu", "Abs", "Neg"):
        newest = Node(op_type, [None], [None], version=99)
        assert rules._rules["", op_type] == bare._rules["", op_type]
        assert str(rules.schemas.find(newest)) == str(bare.schemas.find(newest))
    assert rules.knows("", "Unheard") and rules.knows("nowhere", "Neg") and rules.knows("", "Heard")
    assert rules.schemas.complete("") == bare.schemas.complete("") and rules.schemas.complete("nowhere") == 3
    assert sorted(caplog.messages) == [
        "an installed plugin has a schema for Relu, which ort_lite knows; it is not used",
        "an installed plugin has a shape rule for Neg, which ort_lite knows; it is not used",
        "an installed plugin has a shape rule for Relu, which ort_lite knows; it is not used",
    ]


def test_a_plugin_registered_in_the_process_is_asked() -> None:
    registry = Registry(paths=())
    before = len(registry.transforms())
    registry.register_plugin(SimpleNamespace(ort_lite_transforms=lambda: [nothing], ort_lite_cast_insertion=lambda: None))
    assert len(registry.transforms()) == before + 1
    assert registry.cast_insertion().__module__ == "ort_lite_transforms.cast_insertion"


def test_plugins_are_asked_in_the_order_in_which_they_were_registered() -> None:
    registry = Registry(paths=())
    for name in ("a", "b", "c"):
        plugin: Any = ModuleType(name)
        plugin.ort_lite_transforms = lambda name=name: [graph_pass(level="basic", name=name)(nothing.function)]
        registry.register_plugin(plugin)
    assert [t.name for t in registry.transforms()][-3:] == ["a", "b", "c"]


def test_a_transform_plugin_that_cannot_be_imported_costs_a_warning_and_itself(tmp_path: Path, install: Install) -> None:
    install("bad", "[ort_lite.transforms]\nbad = bad\n", "import nowhere_at_all\n")
    with pytest.warns(RuntimeWarning, match="bad = bad .*its hooks are not called"):
        assert Registry([str(tmp_path)]).transforms({"bad"}) == Registry(paths=()).transforms()


def test_a_plugin_that_breaks_the_contract_of_a_hook_is_refused() -> None:
    registry = Registry(paths=())
    registry.register_plugin(SimpleNamespace(ort_lite_transforms=lambda unexpected: []))
    with pytest.raises(Exception, match="unexpected"):
        registry.transforms()


def test_every_hook_is_documented() -> None:
    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("ort_lite_")]
    assert len(hooks) == 9
    assert all(hook.__doc__ for hook in hooks)


def test_without_plugins_neither_pluggy_nor_importlib_metadata_is_imported() -> None:
    program = """
import sys
from ort_lite.plugins import Registry
registry = Registry(paths=())
registry.transforms(), registry.shape_rules(), registry.cast_insertion()
print([name for name in ("pluggy", "importlib.metadata", "numba", "onnx") if name in sys.modules])
"""
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=240
    )
    assert done.stdout.strip() == "[]"


def test_an_import_that_ends_the_program_ends_the_plugin_alone(tmp_path: Path, install: Install) -> None:
    install("leaving", "[ort_lite.providers]\nLeavingExecutionProvider = leaving:L\n", "raise SystemExit('no licence')\n")
    with pytest.raises(ProviderError, match="cannot be imported: SystemExit: no licence"):
        Registry([str(tmp_path)]).provider("LeavingExecutionProvider")


def test_an_import_that_takes_long_is_told_of(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install("mine", "[ort_lite.providers]\nMineExecutionProvider = mine:Mine\n", PROVIDER.format(default=True))
    monkeypatch.setattr(entry_points, "_LONG", -1.0)
    Registry([str(tmp_path)]).provider("MineExecutionProvider")
    assert "MineExecutionProvider = mine:Mine" in caplog.text and "s to import" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("OtherExecutionProvider = mine:Mine", "is a provider whose `name` is 'MineExecutionProvider': .* make them one"),
        ("MineExecutionProvider = mine:ExecutionProvider.get_capability", "is <function .*; expected a class derived from"),
        ("MineExecutionProvider = mine:Absent", "cannot be imported: AttributeError: .*Absent"),
    ],
)
def test_an_entry_point_is_the_class_that_it_says(tmp_path: Path, install: Install, line: str, message: str) -> None:
    install("mine", f"[ort_lite.providers]\n{line}\n", PROVIDER.format(default=True))
    with pytest.raises(ProviderError, match=message):
        Registry([str(tmp_path)]).provider(line.partition(" ")[0])


@pytest.mark.parametrize(
    ("hook", "answer", "message"),
    [
        ("ort_lite_providers", [3], "gave 3; expected classes derived from"),
        ("ort_lite_transforms", "fuse", "gave 'f'; expected what @rule and @graph_pass make"),
        ("ort_lite_transforms", 7, "failed: TypeError: 'int' object is not iterable"),
        ("ort_lite_shape_rules", [len], "gave <built-in function len>; expected what @shape_rule makes"),
        ("ort_lite_transforms", ZeroDivisionError("oops"), "failed: ZeroDivisionError: oops"),
    ],
)
def test_a_hook_that_fails_or_answers_nonsense_names_its_plugin(hook: str, answer: Any, message: str) -> None:
    def given() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    registry = Registry(paths=())
    registry.register_plugin(SimpleNamespace(__name__="theirs", **{hook: given}))
    ask: dict[str, Callable[[], Any]] = {
        "ort_lite_providers": registry.installed_providers,
        "ort_lite_transforms": registry.transforms,
    }
    with pytest.raises(ProviderError, match=f"plugin theirs: {hook} {message}"):
        ask.get(hook, registry.shape_rules)()


def test_what_was_registered_can_be_taken_back() -> None:
    registry = Registry(paths=())
    plugin = SimpleNamespace(ort_lite_transforms=lambda: [nothing])
    registry.register_plugin(plugin)
    registry.register_provider("MyExecutionProvider", type("Own", (ExecutionProvider,), {"name": "MyExecutionProvider"}))
    assert nothing in registry.transforms() and "MyExecutionProvider" in registry.installed_providers()
    registry.unregister_plugin(plugin)
    registry.unregister_provider("MyExecutionProvider")
    assert nothing not in registry.transforms() and "MyExecutionProvider" not in registry.installed_providers()
    with pytest.raises(ProviderError, match="no execution provider was registered as 'MyExecutionProvider'"):
        registry.unregister_provider("MyExecutionProvider")
    with pytest.raises(ProviderError, match="was not registered as a plugin"):
        registry.unregister_plugin(plugin)


def test_no_class_is_registered_that_is_none() -> None:
    wrong: Any = len
    with pytest.raises(ProviderError, match="'X' is <built-in function len>; expected a class derived from"):
        Registry(paths=()).register_provider("X", wrong)


def test_a_provider_says_where_it_is_from(tmp_path: Path, install: Install) -> None:
    install("mine", "[ort_lite.providers]\nMineExecutionProvider = mine:Mine\n", PROVIDER.format(default=True))
    registry = Registry([str(tmp_path)])
    registry.register_provider("MyExecutionProvider", type("Own", (ExecutionProvider,), {"name": "MyExecutionProvider"}))
    assert registry.origin("MineExecutionProvider") == "mine 1.0"
    assert registry.origin("MyExecutionProvider") == "registered in this process"
    assert registry.origin("CPUExecutionProvider").startswith("ort-lite ")
