"""Compiles listed kernels, in as many processes as there are cores, and makes a pack of them: the same bytes every time."""

import os
from collections.abc import Mapping, Set
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ort_lite.native import Spec, cpu, elf, object_linking, packs
from ort_lite.native import cache as store
from ort_lite.native.spec import key_of, symbol_of

TARGETS = {
    "x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4", "x86-64-v4+avx512vnni", "x86-64-v4+avx512vnni+amx"),
    "aarch64": ("armv8.0-a", "armv8.2-a+dotprod", "armv8.6-a"),
}
"""By architecture: a CPU of each level, and of each level with what kernels name beyond it."""


def own() -> str:
    """The best of TARGETS that runs here."""
    machine = cpu.host()
    return [name for name in TARGETS[machine.architecture] if cpu.parse_target(name).runs_on(machine)][-1]


def build(file: Path, asked: Mapping[str, Set[Spec]]) -> list[str]:
    """Makes a pack of the specs by target; what did not compile. Objects are taken from the kernel cache, and kept there."""
    work: dict[str, tuple[str, Spec]] = {}
    for name, specs in asked.items():
        work.update((key_of(spec, cpu.parse_target(name)), (name, spec)) for spec in specs)
    objects: dict[str, bytes] = {}
    problems = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        keys = sorted(work)
        for key, found in zip(keys, pool.map(_compiled, keys, *zip(*map(work.get, keys), strict=True)), strict=True):
            if isinstance(found, bytes):
                objects[key] = found
            else:
                problems.append(found)
    file.parent.mkdir(parents=True, exist_ok=True)
    packs.write(str(file), packs.own_base(), objects)
    return problems


def _compiled(key: str, target: str, spec: Spec) -> bytes | str:
    """An encoded object, or why there is none."""
    from ort_lite.native.compiler import compile_object

    data = store.read(store.directory(), key)
    if data is None:
        try:
            data = compile_object(spec, cpu.parse_target(target), symbol_of(key))
        except Exception as error:  # noqa: BLE001  the others are compiled nevertheless
            return f"{target}: {spec.name}: {error}"
        store.write(store.directory(), key, data)
    return packs.encode(elf.parse(data, object_linking.MACHINES[cpu.parse_target(target).triple], symbol_of(key)))
