"""Who may import what, and that the framework names no operator. A warm process loads neither Numba nor onnx.

Imports and names are read from the source, so that those inside functions count too. Relative imports are banned by ruff.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from ort_lite.plugins.rooms import HOOKS, hook
from ort_lite_transforms.schemas import FILES

ROOT = Path(__file__).parents[1]

# What providers, transforms and plugins may know of ort_lite.
CONTRACT = (
    "dtypes",
    "errors",
    "graph",
    "inference",
    "memory",
    "native",
    "partition.cost.work",
    "plugins.hookspecs",
    "provider",
    "record",
    "shapes",
    "transform",
)

# Distributions that call ort_lite as users' programs do, by its face, and others that they build on.
PROGRAMS = {"ort_lite_ray": ("ort_lite_serve",), "ort_lite_xla": ()}

# Distributions that run ort_lite's stages inside another runtime: they may import all of its core, and the conformance kit.
BRIDGES = ("ort_lite_ep",)

# Expensive or unstable packages, and the modules that know each.
KEEPERS = {
    "numba": (
        "ort_lite/native/compiler.py",
        "ort_lite/native/frontend.py",
        "ort_lite/native/libraries.py",
        "ort_lite/native/lowering.py",
        "ort_lite/native/translator.py",
        "ort_lite/native/writing.py",
    ),
    "onnx": (
        "ort_lite/load/proto.py",
        "ort_lite/testing/cases.py",
        "ort_lite/testing/generator/functions.py",
        "ort_lite/testing/generator/draft_proto.py",
        "ort_lite/testing/generator/reduction/protos.py",
        "ort_lite/tools/view/operators.py",
        "transforms/ort_lite_transforms/schemas/generate.py",
    ),
    "google.protobuf": ("ort_lite/load/proto.py",),
    "re2": ("providers/ort_lite_cpu/operators/patterns.py",),
}

# From the ground up: what is in a line imports only what is in lines above it, or beside it.
FLOORS = {
    "ort_lite": """
        _version errors dtypes record log
        shapes
        native
        options
        graph
        memory
        load
        inference
        transform
        provider
        plugins
        tensors
        execute
        partition
        compile
        session
        compat params testing
        tools
        __main__
    """,
    "ort_lite_cpu": """
        types costs
        run
        options
        kernels
        lowering registry operators
        program
        provider
        ort_lite_cpu
    """,
}
FRAMEWORK = "ort_lite"
STAGES = ("load", "transform", "partition", "compile", "execute", "session")
ROOMS = ("compat", "params", "testing", "tools")
FACE = ("__init__.py", "__main__.py", "_version.py", "py.typed")
MOST_ENTRIES = 23  # of the folder ort_lite, beside these four: a newcomer reads them all

# The files of the core in which rooms are named, as text: what they are to do for a session, and where the old paths lead.
NAMES_ROOMS = ("ort_lite/plugins/rooms.py", "ort_lite/plugins/moved.py")

# Operators that the rest of ort_lite names. The schema text states what it needs to know of all others, as traits.
NAMED = {
    "Constant": "tools mark these nodes with attributes that no schema has",
    "EPContext": "a compiled partition as a node",
    "Identity": "stands for a function's output that is one of its inputs, where the call is inlined",
    "If": "one of its bodies runs, and once; those of others run again and again",
}

Rule = Callable[[str, str], str | None]  # (path of the importing file, dotted name) -> what is wrong with it


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def package_of(path: str) -> str:
    """The import package that a file belongs to: "providers/ort_lite_cpu/lowering/lower.py" -> "ort_lite_cpu"."""
    return next((part for part in Path(path).parts if part.startswith("ort_lite")), "")


@cache
def imports_of(file: Path) -> tuple[tuple[int, str], ...]:
    """Each file is parsed once, however many rules look at it."""
    return tuple(imported(file.read_text(encoding="utf-8")))


def imported(source: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import; `from a import b` gives "a.b", `import_module("a")` gives "a"."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(function).split(".")[-1] in ("import_module", "__import__"):
                    yield node.lineno, name


def the_framework_imports_no_provider(path: str, name: str) -> str | None:
    if package_of(path) == "ort_lite" and name.startswith("ort_lite_"):
        return "ort_lite never imports ort_lite_*; find it through its entry point"
    return None


def plugins_import_contracts_only(path: str, name: str) -> str | None:
    own = package_of(path)
    if own == "ort_lite" or not name.startswith("ort_lite") or within(name, own):
        return None
    if any(within(name, f"ort_lite.{module}") for module in CONTRACT) or (own in PROGRAMS and name == "ort_lite"):
        return None
    if any(within(name, other) for other in PROGRAMS.get(own, ())):
        return None
    if own in BRIDGES and within(name, "ort_lite") and room_of(name) in (None, "testing"):
        return None
    return f"{own} may import itself and ort_lite's {', '.join(CONTRACT)}"


def each_expensive_package_has_one_keeper(path: str, name: str) -> str | None:
    for package, keepers in KEEPERS.items():
        if within(name, package) and path not in keepers:
            return f"only {' and '.join(keepers)} imports {package}"
    return None


def room_of(name: str) -> str | None:
    """The room that a module is in, None for the core: "ort_lite.compat.api" -> "compat"."""
    part = name.split(".")[1] if within(name, "ort_lite") and "." in name else ""
    return part if part in ROOMS else None


def the_core_imports_no_room(path: str, name: str) -> str | None:
    """The face and the command are no part of the core."""
    if package_of(path) != "ort_lite" or path in ("ort_lite/__init__.py", "ort_lite/__main__.py"):
        return None
    own, other = room_of(module_of(path)), room_of(name)
    if other is None or own in (other, "tools"):
        return None
    if own is not None:
        return f"the room {own} may import the core, and {other} is a room; tools alone imports rooms"
    return f"the core imports no room; ort_lite/plugins/rooms.py is where it has the hooks of {other}"


def folders_are_not_packages(path: str, name: str) -> str | None:
    if name.split(".")[0] in ("providers", "transforms", "plugins"):
        return "these folders are no packages; import ort_lite_<name>"
    return None


def violations(rule: Rule, files: list[Path]) -> list[str]:
    found = []
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        for line, name in imports_of(file):
            if wrong := rule(path, name):
                found.append(f"{path}:{line} imports {name}: {wrong}")
    return found


def sources(*patterns: str) -> list[Path]:
    return sorted(file for pattern in patterns for file in ROOT.glob(pattern))


PACKAGES = sources(
    "ort_lite/**/*.py", "providers/ort_lite_*/**/*.py", "transforms/ort_lite_*/**/*.py", "plugins/*/ort_lite_*/**/*.py"
)
REST = sources("tests/**/*.py", "plugins/*/tests/**/*.py", "examples/**/*.py")


def operators_named(source: str, operators: Collection[str]) -> list[str]:
    """The operators in strings that consist of their names. Docstrings and `__all__` are left out."""
    tree = ast.parse(source)
    exports = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
    ignored = {id(inner) for export in exports for inner in ast.walk(export)}
    ignored |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in ignored]
    words = [text.split() for text in texts if isinstance(text, str)]
    return [name for names in words if all(name in operators for name in names) for name in names]


def module_of(path: str) -> str:
    """The dotted name of a file: "providers/ort_lite_cpu/run/__init__.py" -> "ort_lite_cpu.run"."""
    parts = Path(path).with_suffix("").parts
    names = parts[parts.index(package_of(path)) :]
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def modules(package: str) -> dict[str, Path]:
    """The files of a package, by module."""
    files = [(file, file.relative_to(ROOT).as_posix()) for file in PACKAGES]
    return {module_of(path): file for file, path in files if package_of(path) == package and "/templates/" not in path}


def arrows(imports: Mapping[str, Iterable[tuple[int, str]]]) -> dict[str, set[str]]:
    """Which of the modules each one imports, at the top, inside functions or for types alone."""
    found: dict[str, set[str]] = {module: set() for module in imports}
    for module, lines in imports.items():
        for _, name in lines:
            while name and name not in imports:
                name = name.rpartition(".")[0]
            if name and name != module:
                found[module].add(name)
    return found


def arrows_of(package: str) -> dict[str, set[str]]:
    return arrows({module: imports_of(file) for module, file in modules(package).items()})


def in_circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules on circles, and on ways from one circle to another."""
    left = {module: set(names) for module, names in graph.items()}
    while True:
        read = {name for names in left.values() for name in names}
        ends = [module for module, names in left.items() if module not in read or left.keys().isdisjoint(names)]
        if not ends:
            return [f"{module} -> {', '.join(sorted(names))}" for module, names in sorted(left.items())]
        for module in ends:
            del left[module]
            for names in left.values():
                names.discard(module)


def upwards(graph: Mapping[str, set[str]], floors: str) -> list[str]:
    """Imports of what is on a higher floor; every folder and file directly in the package has one, but for the face of ort_lite: its
    names are those of all rooms.
    """
    floor = {name: k for k, line in enumerate(floors.strip().splitlines()) for name in line.split()}

    def of(module: str) -> int:
        package, _, rest = module.partition(".")
        return floor[rest.partition(".")[0] or package]

    inner = {one: names - {FRAMEWORK} for one, names in graph.items() if one != FRAMEWORK}
    return [f"{one} -> {other}" for one, names in inner.items() for other in sorted(names) if of(other) > of(one)]


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


@pytest.mark.parametrize("package", ["ort_lite", "ort_lite_cpu", "ort_lite_transforms"])
def test_no_file_imports_itself_by_way_of_others(package: str) -> None:
    assert in_circles(arrows_of(package)) == []


@pytest.mark.parametrize("package", FLOORS)
def test_no_folder_imports_one_above_it(package: str) -> None:
    assert upwards(arrows_of(package), FLOORS[package]) == []


def test_the_top_floor_can_be_taken_in_at_once() -> None:
    assert len([entry for entry in entries(ROOT / "ort_lite") if entry not in FACE]) <= MOST_ENTRIES


def mapped() -> list[str]:
    """What the docstring of ort_lite lists, in its order."""
    text = ast.get_docstring(ast.parse((ROOT / "ort_lite" / "__init__.py").read_text(encoding="utf-8")))
    assert text is not None
    return re.findall(r"^- `(\w+)`: ", text, re.MULTILINE)


def test_the_map_of_the_modules_is_the_layering() -> None:
    """Stages first, in the order in which a model passes them; then what they stand on, from the ground up; then the rooms."""
    floors = [name for line in FLOORS["ort_lite"].strip().splitlines() for name in line.split()]
    ground = [name for name in floors if name not in (*STAGES, *ROOMS, "_version", "__main__")]
    assert mapped() == [*STAGES, *ground, *sorted(ROOMS, key=floors.index)]
    assert set(mapped()) == {entry.removesuffix(".py") for entry in entries(ROOT / "ort_lite")} - {
        face.removesuffix(".py") for face in FACE
    }


def test_the_core_takes_nothing_from_the_face() -> None:
    """The files that are served under onnxruntime's names do: their names are its names."""
    readers = [module for module, names in arrows_of(FRAMEWORK).items() if FRAMEWORK in names]
    assert {room_of(module) for module in readers} == {"compat"}


def names_of_rooms(source: str) -> list[str]:
    """Texts that are a module of a room: an import that no rule would see."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return [
        text for text in texts if isinstance(text, str) and re.fullmatch(r"ort_lite(\.\w+)+(:\w+)?", text) and room_of(text)
    ]


def test_the_core_names_rooms_in_one_table_alone() -> None:
    files = {file.relative_to(ROOT).as_posix(): file for name, file in modules("ort_lite").items() if room_of(name) is None}
    found = {path: names_of_rooms(file.read_text(encoding="utf-8")) for path, file in files.items()}
    assert {path: texts for path, texts in found.items() if texts and path not in NAMES_ROOMS} == {}
    assert found["ort_lite/plugins/rooms.py"] == list(HOOKS.values())


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_there(name: str) -> None:
    assert callable(hook(name))


@pytest.mark.parametrize(
    "rule",
    [
        the_framework_imports_no_provider,
        plugins_import_contracts_only,
        each_expensive_package_has_one_keeper,
        the_core_imports_no_room,
    ],
    ids=lambda rule: rule.__name__,
)
def test_the_packages_keep_the_rule(rule: Rule) -> None:
    assert violations(rule, PACKAGES) == []


@pytest.mark.slow
def test_no_file_imports_a_folder_as_a_package() -> None:
    assert violations(folders_are_not_packages, PACKAGES + REST) == []


def test_the_core_names_no_operator_but_the_listed_ones() -> None:
    operators = {op_type for file in FILES for _, op_type in file.operators()} | NAMED.keys()
    core = [file for file in sources("ort_lite/**/*.py") if file.relative_to(ROOT / "ort_lite").parts[0] not in ROOMS]
    named = {file: operators_named(file.read_text(encoding="utf-8"), operators) for file in core}
    strange = {file.relative_to(ROOT).as_posix(): set(names) - NAMED.keys() for file, names in named.items()}
    assert {path: names for path, names in strange.items() if names} == {}, (
        "say what it needs of them as a trait in the schemas"
    )
    assert {name for names in named.values() for name in names} == NAMED.keys()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = {'Add', 'y'}", ["Add"]),
        ("x = 'Add Mul'.split()", ["Add", "Mul"]),
        ("def f(x):\n    return x.op_type == 'Mul'", ["Mul"]),
        ("f(x, 'Add')", ["Add"]),
        ("x = 'Add what'", []),
        ("'Add'\ndef f():\n    'Mul'\nx = 1\n'Add'", []),
        ("__all__ = ['Add']", []),
    ],
)
def test_operators_are_found_in_strings(source: str, expected: list[str]) -> None:
    assert operators_named(source, {"Add", "Mul"}) == expected


def test_every_layer_is_looked_at() -> None:
    assert {"ort_lite", "ort_lite_cpu", "ort_lite_transforms"} <= {
        package_of(file.relative_to(ROOT).as_posix()) for file in PACKAGES
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from a.b import c, d", ["a.b.c", "a.b.d"]),
        ("def f():\n    import a", ["a"]),
        ("if TYPE_CHECKING:\n    from a import b", ["a.b"]),
        ("importlib.import_module('a.b')", ["a.b"]),
        ("__import__('a')", ["a"]),
        ("f('a')", []),
    ],
)
def test_every_kind_of_import_is_seen(source: str, expected: list[str]) -> None:
    assert [name for _, name in imported(source)] == expected


@pytest.mark.parametrize(
    ("rule", "path", "name", "allowed"),
    [
        (the_framework_imports_no_provider, "ort_lite/session/session.py", "ort_lite_cpu.provider", False),
        (the_framework_imports_no_provider, "ort_lite/session/session.py", "ort_lite.graph.Graph", True),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite.graph.Graph", True),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite.native.lang.OK", True),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite_cpu.registry.kernel", True),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite.session", False),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite", False),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite.graphics", False),
        (plugins_import_contracts_only, "providers/ort_lite_cpu/lowering/lower.py", "ort_lite_transforms.rules", False),
        (each_expensive_package_has_one_keeper, "ort_lite/native/compiler.py", "numba.core", True),
        (each_expensive_package_has_one_keeper, "ort_lite/native/loader.py", "numba.core", False),
        (each_expensive_package_has_one_keeper, "ort_lite/load/proto.py", "numba", False),
        (each_expensive_package_has_one_keeper, "ort_lite/session/session.py", "onnxruntime", True),
        (the_core_imports_no_room, "ort_lite/session/session.py", "ort_lite.compat.ort_options.SessionOptions", False),
        (the_core_imports_no_room, "ort_lite/session/session.py", "ort_lite.plugins.rooms.hook", True),
        (the_core_imports_no_room, "ort_lite/compat/io_binding.py", "ort_lite.compat.ort_value.OrtValue", True),
        (the_core_imports_no_room, "ort_lite/compat/io_binding.py", "ort_lite.params.params.load_params", False),
        (the_core_imports_no_room, "ort_lite/tools/cli/run_command.py", "ort_lite.compat.ort_options.RunOptions", True),
        (the_core_imports_no_room, "ort_lite/__init__.py", "ort_lite.compat.api.version", True),
        (folders_are_not_packages, "tests/test_x.py", "providers.ort_lite_cpu", False),
        (folders_are_not_packages, "tests/test_x.py", "ort_lite_cpu.providers", True),
    ],
)
def test_the_rules_tell_right_from_wrong(rule: Rule, path: str, name: str, allowed: bool) -> None:
    assert (rule(path, name) is None) == allowed


TYPES_ALONE = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"p.a": "from p.b import B", "p.b": "import numpy"}, []),
        ({"p.a": "from p.b import B", "p.b": "def f():\n    from p.a import A"}, ["p.a -> p.b", "p.b -> p.a"]),
        ({"p.a": "from p.b import B", "p.b": TYPES_ALONE}, ["p.a -> p.b", "p.b -> p.a"]),
        (
            {"p.a": "from p import b", "p.b": "import p.c", "p.c": "import p.a", "p.d": "import p.a"},
            ["p.a -> p.b", "p.b -> p.c", "p.c -> p.a"],
        ),
        ({"p": "from p.a import A", "p.a": "from p import f"}, ["p -> p.a", "p.a -> p"]),
    ],
)
def test_circles_are_found(sources: dict[str, str], expected: list[str]) -> None:
    assert in_circles(arrows({module: imported(source) for module, source in sources.items()})) == expected


def test_imports_upwards_are_found() -> None:
    graph = {"p.one.a": {"p.two.b", "p.one.c", "p.beside"}, "p.beside": {"p.one.a"}, "p.two.b": {"p.one.a"}, "p": {"p.two.b"}}
    assert upwards(graph, "one beside\ntwo\np") == ["p.one.a -> p.two.b"]
    with pytest.raises(KeyError, match="three"):
        upwards({"p.three": {"p.one"}}, "one")
