"""Keys of object code: what changes them, what does not, and that every process computes the same."""

import importlib.util
import os
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement

from ort_lite.native import Spec
from ort_lite.native import spec as keys
from ort_lite.native.compilers import COMPILERS, compilers
from ort_lite.native.cpu import host
from ort_lite.native.fingerprint import _describe
from ort_lite.native.lang import Ptr
from ort_lite.native.spec import key_of, parameters, target_of
from tests.native import kernels
from tests.native.calls import HASWELL, SSE2

PARTS = (("part", "i64"), ("parts", "i64"))
KERNEL = """
from ort_lite.native.lang import OK, Ptr, emitter, native
import helper_module
from helper_module import scale, FACTOR, double

SETS = {"a", "b"}

@native
def kernel(x: Ptr, y: Ptr, part: int, parts: int) -> int:
    y[0] = scale(x[0]) * FACTOR + helper_module.shifted(x[1]) + double(1)
    return OK if 3 in {1, 2, 3} else 1

def unrelated():
    return 1
"""
HELPERS = """
from ort_lite.native.lang import emitter

FACTOR = 2

def scale(v):
    return inner(v) * 2.0

def inner(v):
    return v + 1

def shifted(v):
    '''What it does.'''
    return v - 1

@emitter("i64(i64)")
def double(builder, x):
    return builder.add(x, x)

def unrelated():
    return 1
"""


def module(name: str, text: str) -> ModuleType:
    """A module of this text, importable until the next one of its name."""
    spec = importlib.util.spec_from_loader(name, loader=None)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    exec(compile(text, f"{name}.py", "exec"), vars(made))
    return made


def key(kernel: str = KERNEL, helpers: str = HELPERS) -> str:
    module("helper_module", helpers)
    return key_of(Spec(module("kernel_module", kernel).kernel, ("f32", "f32")), HASWELL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[0] =", "y[1] ="),
        ("+ double(1)", "+ double(2)"),
        ("scale(x[0])", "scale(x[1])"),
        ("@native\n", "@native(fastmath=())\n"),
        ("{1, 2, 3}", "{1, 2, 4}"),
    ],
)
def test_a_change_of_the_kernel_changes_its_key(old: str, new: str) -> None:
    assert key(kernel=KERNEL.replace(old, new)) != key()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v + 1", "v + 2"),
        ("v - 1", "v - 2"),
        ("* 2.0", "* 2.5"),
        ("FACTOR = 2", "FACTOR = 3"),
        ("builder.add", "builder.sub"),
        ('"i64(i64)"', '"i32(i32)"'),
    ],
)
def test_a_change_of_a_helper_in_another_module_changes_the_key(old: str, new: str) -> None:
    assert key(helpers=HELPERS.replace(old, new)) != key()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return 1\n", "    return 2\n"),
        ("def scale", "# a comment\n\n\ndef scale"),
        ("What it does.", "What it does, said better."),
    ],
    ids=["other function", "comment", "docstring"],
)
def test_an_unrelated_change_does_not_change_the_key(old: str, new: str) -> None:
    assert key(kernel=KERNEL.replace("return 1\n", "return 2\n")) == key()
    assert key(helpers=HELPERS.replace(old, new)) == key()


def test_types_statics_signature_and_target_are_part_of_the_key() -> None:
    specs = [
        Spec(kernels.scaled, ("f32",) * 3, {"kind": "relu", "limit": 0}),
        Spec(kernels.scaled, ("f64",) * 3, {"kind": "relu", "limit": 0}),
        Spec(kernels.scaled, ("f32",) * 3, {"kind": "none", "limit": 0}),
        Spec(kernels.scaled, ("f32",) * 3, {"kind": "relu", "limit": 0.0}),
        Spec.plain(kernels.large, "i64(i64)"),
        Spec.plain(kernels.large, "i32(i64)"),
    ]
    assert len({key_of(spec, target) for spec in specs for target in (HASWELL, SSE2)}) == 12


def test_machines_of_a_level_share_the_code_that_names_nothing_beyond_it() -> None:
    more = HASWELL.replace(name="more", features=f"{HASWELL.features},+avxvnni,+gfni,+vaes")

    def differ(helpers: str, text: str = "") -> bool:
        module("helper_module", helpers)
        scope = module("kernel_module", KERNEL)
        spec = Spec.from_source("f", text, "kernel_module") if text else Spec(scope.kernel, ("f32", "f32"))
        aims = {target_of(spec, target).name for target in (HASWELL, more)}
        assert len(aims) == len({key_of(spec, target) for target in (HASWELL, more)})
        return aims == {"x86-64-v3", "x86-64-v3+avxvnni"}

    source = "def f(x: Ptr, part: int, parts: int) -> int:\n    x[0] = double(1)\n    return 0\n"
    asking = HELPERS.replace('"i64(i64)"', '"i64(i64)", needs="avx512f|avxvnni|neon"')
    assert not differ(HELPERS) and not differ(HELPERS, source)
    assert differ(asking) and differ(asking, source)


def test_generated_source_is_keyed_by_its_text_and_by_what_it_names() -> None:
    def source_key(text: str, helpers: str = HELPERS) -> str:
        module("helper_module", helpers)
        module("kernel_module", KERNEL)
        return key_of(Spec.from_source("f", text, "kernel_module"), HASWELL)

    text = "def f(x: Ptr, part: int, parts: int) -> int:\n    x[0] = scale(x[0]) + helper_module.shifted(1)\n    return 0\n"
    same = source_key(text)
    assert source_key(text.replace("x[0]", "x[1]")) != same
    assert source_key(text, HELPERS.replace("v + 1", "v + 2")) != same
    assert source_key(text, HELPERS.replace("v - 1", "v - 2")) != same
    assert source_key(text, HELPERS.replace("builder.add", "builder.sub")) == same


def key_elsewhere(spec: str, target: str = "host()", before: str = "", **environment: str) -> str:
    """The key of a spec as another process computes it."""
    code = (
        f"{before}\nfrom tests.native import kernels\nfrom ort_lite.native import Spec\n"
        "from ort_lite.native.cpu import host, parse_target\nfrom ort_lite.native.spec import key_of\n"
        f"print(key_of({spec}, {target}))"
    )
    given = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


def test_processes_agree_whatever_their_hash_seed() -> None:
    own = key_of(Spec(kernels.scaled, ("f32",) * 3, {"limit": 0, "kind": "relu"}), host())
    spec = "Spec(kernels.scaled, ('f32',) * 3, {'kind': 'relu', 'limit': 0})"
    assert [key_elsewhere(spec, PYTHONHASHSEED=seed) for seed in ("1", "2")] == [own] * 2


def test_specs_are_equal_hashable_and_picklable() -> None:
    spec = Spec(kernels.scaled, ["f32"] * 3, {"limit": 0, "kind": "relu"})
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec == Spec(kernels.scaled, ("f32",) * 3, [("kind", "relu"), ("limit", 0)])
    assert len({again, spec}) == 1


def test_static_values_that_compare_equal_make_different_specs() -> None:
    values = [1, 1.0, True, 0.0, -0.0]
    assert len({Spec(kernels.scaled, ("f32",) * 3, {"kind": "relu", "limit": value}) for value in values}) == 5


def test_parameters_are_found_in_annotations_and_in_their_text() -> None:
    scope: dict[str, object] = {}
    exec("from __future__ import annotations\ndef f(x: lang.Ptr, n: int, a: float, k: Static): ...", scope)
    assert callable(scope["f"])
    assert parameters(scope["f"]) == (("x", "pointer"), ("n", "i64"), ("a", "f64"), ("k", "static"))


def test_a_named_tuple_stands_for_its_fields() -> None:
    assert parameters(kernels.grouped) == (
        ("y", "pointer"),
        ("band.rows", "i64"),
        ("band.step", "i64"),
        ("band.low", "f64"),
        ("n", "i64"),
        *PARTS,
    )
    scope: dict[str, object] = {"Names": NamedTuple("Names", [("name", str)])}
    exec("def f(x: int, names: Names): ...", scope)
    assert callable(scope["f"])
    with pytest.raises(TypeError, match="parameter 'names' is annotated"):
        parameters(scope["f"])


def test_the_fields_of_a_named_tuple_are_part_of_the_key() -> None:
    def keyed(**fields: type) -> str:
        group = NamedTuple("group", list(fields.items()))  # type: ignore[misc]
        scope: dict[str, Any] = {"group": group, "Ptr": Ptr, "__name__": "tests.native.kernels"}
        exec("def f(y: Ptr, g: group, part: int, parts: int) -> int:\n    y[0] = g.a\n    return 0\n", scope)
        return key_of(Spec(scope["f"], ("i64",)), HASWELL)

    assert keyed(a=int, b=int) == keyed(a=int, b=int)
    assert len({keyed(a=int, b=int), keyed(b=int, a=int), keyed(a=float, b=int)}) == 3


def test_the_compilers_versions_are_found_without_importing_them() -> None:
    import llvmlite
    import numba

    found = compilers(tuple(sys.path))
    assert found == (f"llvmlite-{llvmlite.__version__}.dist-info", f"numba-{numba.__version__}.dist-info")


def test_versions_are_those_of_what_would_be_imported(tmp_path: Path) -> None:
    def install(folder: str, package: str, *versions: str) -> None:
        for name in (package, *(f"{package}-{version}.dist-info" for version in versions)):
            (tmp_path / folder / name).mkdir(parents=True)
        (tmp_path / folder / package / "__init__.py").touch()

    install("first", "numba", "0.68.7")
    install("second", "numba", "0.68.2")
    install("second", "llvmlite", "0.50.3")
    install("third", "llvmlite")
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    assert compilers([str(tmp_path / "missing"), first, second]) == ("llvmlite-0.50.3.dist-info", "numba-0.68.7.dist-info")
    assert compilers([third, second]) == ("llvmlite", "numba-0.68.2.dist-info")
    assert compilers([first]) == compilers([]) == COMPILERS  # one alone compiles nothing


def test_objects_for_processes_without_a_compiler_are_of_a_version_that_is_supported() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = {Requirement(text).name: Requirement(text).specifier for text in project["dependencies"]}
    for compiler in COMPILERS:
        name, _, version = compiler.removesuffix(".dist-info").partition("-")
        assert version in ranges[name]


def test_the_key_is_the_same_whatever_release_of_python_and_cpu_ask() -> None:
    own = key_of(Spec(kernels.large, ("f32",)), HASWELL)
    for version in ("3.11.2 (main)", "3.11.9 (other)"):
        target, before = f"parse_target('haswell').replace(name={version!r})", f"import sys\nsys.version = {version!r}"
        assert key_elsewhere("Spec(kernels.large, ('f32',))", target, before) == own


def test_the_key_follows_compilers_and_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    def key() -> str:
        keys.base.cache_clear()
        return key_of(Spec(kernels.large, ("f32",)), HASWELL)

    same = key()
    try:
        monkeypatch.setattr(keys, "compilers", lambda folders: ("llvmlite-0.50.0", "numba-0.68.99"))
        assert key() != same
        monkeypatch.undo()
        monkeypatch.setattr(keys, "MAGIC_NUMBER", b"other")
        assert key() != same
    finally:
        monkeypatch.undo()
        keys.base.cache_clear()


def test_a_look_at_annotations_changes_no_key() -> None:
    """A class without annotations gets an empty dict when somebody asks for them, in one process and not in another."""

    class Plain:
        pass

    before = _describe(Plain).digest
    assert Plain.__annotations__ == {}
    assert _describe(Plain).digest == before
