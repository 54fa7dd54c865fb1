"""Plugins: entry points, imports, and what hooks of modules answer."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ort_lite
from ort_lite.errors import InvalidGraph
from ort_lite.plugins import Registry, plugins
from ort_lite.provider import ExecutionProvider
from tests.nasty.cases import NASTY, feeds, nasty, options, raises, ran, says, session, wanted
from tests.nasty.judging import Case, Table, crossed, table

HOOKS = (
    "ort_lite_providers",
    "ort_lite_transforms",
    "ort_lite_fusions",
    "ort_lite_shape_rules",
    "ort_lite_schemas",
    "ort_lite_memory_planners",
)
SINGLE = ("ort_lite_cast_insertion", "ort_lite_older_form", "ort_lite_layout_conversion")
ANSWERS: dict[str, Any] = {"number": 3, "texts": ["all"], "numbers": [3], "nones": [None], "classes": [object], "function": len}
ERRORS = {"os": OSError("bus"), "ours": InvalidGraph("ours"), "stop": StopIteration(), "assertion": AssertionError()}
ASKED: dict[str, Callable[[Registry], Any]] = {
    "ort_lite_providers": lambda registry: registry.installed_providers(),
    "ort_lite_transforms": lambda registry: registry.transforms(),
    "ort_lite_fusions": lambda registry: registry.fusions(),
    "ort_lite_shape_rules": lambda registry: registry.shape_rules(),
    "ort_lite_schemas": lambda registry: registry.shape_rules(),
    "ort_lite_memory_planners": lambda registry: registry.memory_planner("mine"),
    "ort_lite_cast_insertion": lambda registry: registry.cast_insertion(),
    "ort_lite_older_form": lambda registry: registry.older_form(),
    "ort_lite_layout_conversion": lambda registry: registry.layout_conversion(),
}


def plugin(**hooks: Any) -> Any:
    return SimpleNamespace(__name__="nasty_plugin", **hooks)


def asked(hook: str, member: Any) -> None:
    registry = Registry(paths=())
    registry.register_plugin(plugin(**{hook: member}))
    ASKED[hook](registry)


def in_a_session(hook: str, member: Any) -> Any:
    plugins.register_plugin(plugin(**{hook: member}))
    if hook == "ort_lite_fusions":
        return ran("chain", nasty("Abs Neg", fusions=says(["all"])), with_=options("ORT_ENABLE_ALL"))
    ort_lite.get_available_providers()
    return ran("chain", nasty("Abs"), with_=options("ORT_ENABLE_ALL"))


BASE = "from ort_lite.provider import ExecutionProvider\n"
# Modules that entry points name.
SOURCES: dict[str, str] = {
    "raises": "raise OSError('bus')",
    "ends-the-program": "import sys; sys.exit(3)",
    "is-no-python": "def (",
    "imports-nothing-known": "import nowhere_at_all",
    "lacks-the-name": "",
    "is-a-number": "Mine = 3",
    "is-a-function": "def Mine(**options): return None",
    "is-an-instance": "from ort_lite.provider import ExecutionProvider\nMine = ExecutionProvider()",
    "is-another-class": "class Mine: name = 'MineExecutionProvider'",
    "has-another-name": f"{BASE}class Mine(ExecutionProvider): name = 'OtherExecutionProvider'",
    "has-no-name": "from ort_lite.provider import ExecutionProvider\nclass Mine(ExecutionProvider): pass",
    "imports-itself": "from mine import Mine",
    "recurses": "def f(): f()\nf()",
    "has-a-lone-surrogate": "raise ValueError('\\udc80')",
    "abstract": (
        f"{BASE}class Mine(ExecutionProvider):\n name = 'MineExecutionProvider'\n"
        " def __init__(self, **options): raise RuntimeError('no card')"
    ),
}
LINES: dict[str, str] = {
    "no-value": "MineExecutionProvider =",
    "no-module": "MineExecutionProvider = :Mine",
    "no-attribute": "MineExecutionProvider = mine:",
    "colons": "MineExecutionProvider = mine:Mine:Mine",
    "spaces": "MineExecutionProvider = mi ne:Mi ne",
    "dots": "MineExecutionProvider = ...:Mine",
}


def installed(source: str, line: str = "MineExecutionProvider = mine:Mine") -> Registry:
    folder = Path(tempfile.mkdtemp(prefix="nasty"))
    (folder / "mine-1.0.dist-info").mkdir()
    (folder / "mine-1.0.dist-info" / "entry_points.txt").write_text(f"[ort_lite.providers]\n{line}\n")
    (folder / "mine.py").write_text(source)
    sys.path.insert(0, str(folder))
    return Registry([str(folder)])


def used(source: str, line: str = "MineExecutionProvider = mine:Mine") -> Any:
    made = installed(source, line)
    plugins._process._paths, plugins._process._entries = made._paths, None
    return ran("chain", "MineExecutionProvider")


def listed(source: str, line: str = "MineExecutionProvider = mine:Mine") -> None:
    """Others are available all the same."""
    assert "CPUExecutionProvider" in installed(source, line).available_providers()


FILES: dict[str, bytes] = {
    "empty": b"",
    "not-text": b"\xff\xfe\x00[ort_lite.providers]\n",
    "no-group": b"A = b:C\n[",
    "zeros": b"\x00" * 64,
    "a-long-line": b"[ort_lite.providers]\n" + b"A" * 100000 + b" = b:C\n",
}


def scanned(data: bytes) -> None:
    registry = installed("")
    folder = Path((registry._paths or [""])[0])
    (folder / "mine-1.0.dist-info" / "entry_points.txt").write_bytes(data)
    assert "CPUExecutionProvider" in registry.available_providers()


REGISTERED: dict[str, Any] = {"none": None, "number": 3, "class": dict, "instance": ExecutionProvider(), "text": "mine"}


def same_plugin_twice() -> Any:
    one = plugin(ort_lite_transforms=says([]))
    plugins.register_plugin(one)
    plugins.register_plugin(one)
    return ran("chain", with_=options("ORT_ENABLE_ALL"))


def removed_while_in_use() -> Any:
    plugins.register_provider(NASTY, type(nasty()))
    made = session("chain", nasty())
    plugins.unregister_provider(NASTY)
    return [(made.run(None, feeds("chain")), wanted("chain"))]


def two_rules_of_one_name() -> Any:
    from ort_lite.transform import graph_pass

    for _ in range(2):
        plugins.register_plugin(
            plugin(ort_lite_transforms=lambda: [graph_pass(level="basic", name="same")(lambda graph, rewriter: 0)])
        )
    return ran("chain", with_=options("ORT_ENABLE_ALL"))


def wrong_names() -> None:
    Registry(paths=()).unregister_provider("NoSuchExecutionProvider")


def _cases() -> Iterator[tuple[str, Case]]:
    told = "nasty_plugin"
    for name, (hook, answer) in crossed(hook={hook: hook for hook in HOOKS}, answer=ANSWERS):
        yield f"answers-{name}", Case(lambda h=hook, a=answer: asked(h, lambda: a), (hook,))
    for name, (hook, error) in crossed(hook={hook: hook for hook in (*HOOKS, *SINGLE)}, error=ERRORS):
        yield f"raises-{name}", Case(lambda h=hook, e=error: asked(h, raises(e)), (told, hook), either=hook in SINGLE)
    for name, (hook, answer) in crossed(hook={hook: hook for hook in HOOKS[:5]}, answer=ANSWERS):
        yield f"session-{name}", Case(lambda h=hook, a=answer: in_a_session(h, lambda: a), (told, hook))
    for name, source in SOURCES.items():
        yield f"module-{name}", Case(lambda s=source: used(s), ("MineExecutionProvider",))
        yield f"module-listed-{name}", Case(lambda s=source: listed(s))
    for name, line in LINES.items():
        names_no_class = name == "no-value"  # such a provider is not installed: a warning, and the CPU provider
        yield (f"line-{name}", Case(lambda x=line: used("Mine = 3", x), ("MineExecutionProvider",), either=names_no_class))
        yield f"line-listed-{name}", Case(lambda x=line: listed("Mine = 3", x))
    for name, data in FILES.items():
        yield f"file-{name}", Case(lambda d=data: scanned(d))
    for name, cls in REGISTERED.items():
        yield (
            f"registers-{name}",
            Case(lambda c=cls: Registry(paths=()).register_provider(NASTY, c), (NASTY, "register_provider")),
        )


CASES: Table = table(
    [
        *_cases(),
        ("the-same-twice", Case(same_plugin_twice)),
        ("removed-while-in-use", Case(removed_while_in_use)),
        ("two-of-one-name", Case(two_rules_of_one_name, ("same",))),
        ("never-registered", Case(wrong_names, ("NoSuchExecutionProvider",))),
        (
            "hook-takes-arguments",
            Case(lambda: asked("ort_lite_transforms", lambda graph: []), ("nasty_plugin", "ort_lite_transforms")),
        ),
        ("hook-is-a-number", Case(lambda: asked("ort_lite_transforms", 3))),
        ("hook-is-a-class", Case(lambda: asked("ort_lite_transforms", list), ("nasty_plugin", "ort_lite_transforms"))),
        ("hook-nobody-knows", Case(lambda: in_a_session("ort_lite_no_such_hook", says([])))),
    ]
)
