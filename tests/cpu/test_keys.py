"""What the keys of kernels cover: the same in every process, or each would compile its kernels again."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import Any

import pytest

import ort_lite_cpu
from ort_lite.native import fingerprint as fingerprints
from ort_lite.native.loader import load

OF_THE_HOST = ("ort_lite.native.loader", "ort_lite.native.cache", "ort_lite_cpu.kernels.once")
"""They find compiled code and keep it: state of the process."""


def kernels() -> dict[str, FunctionType]:
    """All functions that are marked to be native code, by module and name."""
    found: dict[str, FunctionType] = {}
    for module in pkgutil.walk_packages(ort_lite_cpu.__path__, "ort_lite_cpu."):
        for name, value in vars(import_module(module.name)).items():
            if isinstance(value, FunctionType) and value.__module__ == module.name and hasattr(value, "__native__"):
                found[f"{module.name}.{name}"] = value
    return found


def reached(root: Any) -> Iterator[Any]:
    """All that its fingerprint takes in."""
    waiting, seen = [root], set[int]()
    while waiting:
        item = waiting.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            waiting.extend(fingerprints._own(item).references)


def of_the_host(root: Any) -> list[str]:
    return [item.__qualname__ for item in reached(root) if getattr(item, "__module__", "") in OF_THE_HOST]


def test_no_kernel_has_state_of_the_process_in_its_key() -> None:
    """An attribute that is called as a global of its module is taken for it."""
    found = kernels()
    assert len(found) > 200
    assert {name: wrong for name, kernel in found.items() if (wrong := of_the_host(kernel))} == {}


@pytest.mark.parametrize(("name", "wrong"), [("emit.load(x)", ["load"]), ("emit.loaded(x)", [])])
def test_state_in_a_key_is_found(name: str, wrong: list[str]) -> None:
    scope: dict[str, Any] = {"load": load, "__name__": "tests.cpu.test_keys"}
    exec(f"def f(emit, x):\n    return {name}", scope)
    assert of_the_host(scope["f"])[:1] == wrong
