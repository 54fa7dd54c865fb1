"""The key of prepared programs: each component changes it, one at a time."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.memory.planning.planner import DEFAULT_PLANNER, PLANNERS
from ort_lite.native.cpu import Target, host
from ort_lite.options.options import SessionOptions
from ort_lite.session.prepared import key
from ort_lite_cpu import CPUExecutionProvider
from ort_lite_cpu.costs import Costs
from ort_lite_cpu.options import CPUOptions

ENUMS = {
    "execution_mode": ort_lite.ExecutionMode.ORT_PARALLEL,
    "execution_order": ort_lite.ExecutionOrder.PRIORITY_BASED,
    "graph_optimization_level": ort_lite.GraphOptimizationLevel.ORT_ENABLE_BASIC,
}
LESSER = {"x86_64": "x86-64"}.get(host().architecture, host().architecture)
MORE: dict[str, Callable[[SessionOptions], object]] = {
    "config entry": lambda options: options.add_session_config_entry("ort_lite.fusion", "0"),
    "dimension by name": lambda options: options.add_free_dimension_override_by_name("N", 2),
    "dimension by denotation": lambda options: options.add_free_dimension_override_by_denotation("DATA_BATCH", 2),
}


def key_of(options: SessionOptions | None = None, **other: Any) -> str:
    given = {"outline": b"model", "provider": "cpu"} | other
    return key.key_of(options=SessionOptions() if options is None else options, **given)


def names() -> list[str]:
    """Return the attributes of options, as users see them."""
    return sorted(
        name
        for name in vars(SessionOptions)
        if isinstance(vars(SessionOptions)[name], (bool, int, float, str)) and name[0] != "_"
    )


@pytest.mark.parametrize("name", names())
def test_each_option_is_part_of_the_key(name: str) -> None:
    options = SessionOptions()
    value = getattr(options, name)
    setattr(options, name, ENUMS[name] if name in ENUMS else not value if isinstance(value, bool) else type(value)(f"{value}1"))
    assert key_of(options) != key_of()


@pytest.mark.parametrize("name", MORE)
def test_each_other_entry_of_options_is_part_of_the_key(name: str) -> None:
    options = SessionOptions()
    MORE[name](options)
    assert key_of(options) != key_of()


@pytest.mark.parametrize("other", [{"outline": b"modem"}, {"provider": "other"}, {"code": b"other code"}])
def test_model_provider_and_code_are_parts_of_the_key(other: dict[str, Any]) -> None:
    assert key_of(**other) != key_of()


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (key, "__version__", "other"),
        (key, "FORMAT", 0),
        (key, "base", lambda: b"other compilers"),
        (key, "host", lambda: Target("x86_64-unknown-linux-gnu", "other")),
        (np, "__version__", "other"),
        (sys, "version", "other"),
    ],
    ids=["ort-lite", "format", "compilers", "machine", "numpy", "python"],
)
def test_versions_and_the_machine_are_parts_of_the_key(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of()
    monkeypatch.setattr(owner, name, value)
    assert key_of() != before


@pytest.mark.parametrize("name", sorted(key.DISTRIBUTIONS))
def test_the_version_of_each_package_is_part_of_the_key(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(found.startswith(f"{name}-") for found in key.distributions(tuple(sys.path)))
    keys = set()
    for version in ("1.0", "1.1"):
        folder = tmp_path / version
        (folder / f"{name}-{version}.dist-info").mkdir(parents=True)
        (folder / "unrelated-1.0.dist-info").mkdir()
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
        keys.add(key_of())
        monkeypatch.undo()
    assert len({*keys, key_of()}) == 3


def test_other_packages_do_not_change_the_key(tmp_path: Path) -> None:
    (tmp_path / "unrelated-1.0.dist-info").mkdir()
    assert key.distributions((str(tmp_path), str(tmp_path / "missing"))) == ()


@pytest.mark.parametrize("change", ["edited", "touched", "added", "renamed"])
def test_a_changed_source_file_changes_the_digest_of_the_code(change: str, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    file = tmp_path / "inside" / "module.py"
    file.write_text("a = 1\n")
    before = key.digest_of_folders([str(tmp_path)])
    if change == "edited":
        file.write_text("a = 22\n")
    elif change == "touched":
        os.utime(file, ns=(1, 1))
    elif change == "added":
        (tmp_path / "inside" / "table.txt").write_text("1")
    else:
        file.rename(tmp_path / "inside" / "other.py")
    assert key.digest_of_folders([str(tmp_path)]) != before


def described(provider: CPUExecutionProvider, **entries: str) -> str:
    options = SessionOptions()
    for name, value in entries.items():
        options.add_session_config_entry(name, value)
    provider.configure(options)
    state = provider.prepared_state()
    assert not isinstance(state, str)
    return state[0]


FIELDS: dict[str, Any] = {
    "threads": 7,
    "fusion": False,
    "winograd": False,
    "planner": next(planner for planner in PLANNERS.values() if planner is not DEFAULT_PLANNER),
    "target": LESSER,
    "inline": False,
    "steps": frozenset({"bfloat16", "float16"}),
    "seed": 5,
    "pins": (("conv", "winograd-2"),),
    "costs": Costs({"copy": 2.0}),
}


def test_the_key_of_the_provider_has_all_fields() -> None:
    """Memory is the session's own; without compiling nothing is stored."""
    assert {*FIELDS, "pool", "compile"} == {*CPUOptions.__match_args__}


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_of_the_provider_is_part_of_the_key(name: str) -> None:
    provider = CPUExecutionProvider()
    before = described(provider)
    provider.options = provider.options.replace(**{name: FIELDS[name]})
    state = provider.prepared_state()
    assert not isinstance(state, str)
    assert state[0] != before


@pytest.mark.parametrize("entry", [("ort_lite.round_16_bit", "steps"), ("ort_lite.kernels", '{"conv": "winograd-2"}')])
def test_each_entry_of_the_provider_is_part_of_the_key(entry: tuple[str, str]) -> None:
    assert described(CPUExecutionProvider(), **dict([entry])) != described(CPUExecutionProvider())
