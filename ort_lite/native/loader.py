"""Loading of object code, without numba and, on Linux, without LLVM. Code is never unloaded, since threads may be executing it."""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from ort_lite.errors import KernelLoadError, KernelMissing
from ort_lite.native import cache as store
from ort_lite.native import elf, object_linking, packs
from ort_lite.native.checkpoint import checkpoint
from ort_lite.native.compilers import llvm
from ort_lite.native.cpu import Target, host
from ort_lite.native.missing import WAIT, check_compiler, compiler_lacks
from ort_lite.native.spec import Spec, key_of, symbol_of

if TYPE_CHECKING:
    from ort_lite.native.llvm import Engine

_lock = threading.RLock()
_by_spec: dict[Target, dict[Spec, int]] = {}
_by_key: dict[str, int] = {}
_left: dict[tuple[Spec, Target], None] = {}
"""The specs that a program did without. `finish` compiles them, and so does, ahead of need, any compilation that is waited for."""

if hasattr(os, "register_at_fork"):
    # A forked child keeps what is loaded, but must not inherit the lock of a thread that it does not have.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def load(specs: Sequence[Spec], target: Target | None = None, compile: str = WAIT) -> list[int]:
    """Return the address of the native code of each spec. Compiles what the cache lacks, unless `compile` is NEVER.

    A spec that is already loaded costs a dict lookup, one in the cache about 0.1 ms. Thread-safe. `target` is this machine, or one
    with fewer features. Raises KernelCompileError, KernelMissing, KernelLoadError, and ValueError for a target that cannot run
    here.
    """
    target = target or host()
    known = _by_spec.get(target)
    if known is None:
        known = _by_spec.setdefault(target, {})
    found = [known.get(spec) for spec in specs]
    if None in found:
        with _hold_lock():
            _load(dict.fromkeys(spec for spec in specs if spec not in known), target, compile)
    return [known[spec] if address is None else address for spec, address in zip(specs, found, strict=True)]


def load_keys(keys: Sequence[str]) -> list[int]:
    """Return the addresses of native code by the keys of `key_of`. Raises KernelMissing for code that was never compiled here."""
    if any(key not in _by_key for key in keys):
        with _hold_lock():
            missing = [key for key in keys if key not in _by_key]
            packed, folder = packs.find(missing), store.directory()
            objects = {key: store.read(folder, key) for key in missing if key not in packed}
            found = {key: data for key, data in objects.items() if data is not None}
            if len(found) < len(objects):
                raise KernelMissing(f"{len(objects) - len(found)} kernels are not in the cache")
            _link(found, packed)
    return [_by_key[key] for key in keys]


@contextmanager
def _hold_lock() -> Iterator[None]:
    """Hold the lock. While another thread compiles, pass a checkpoint ten times a second."""
    while not _lock.acquire(timeout=0.1):
        checkpoint()
    try:
        yield
    finally:
        _lock.release()


def ahead(specs: Sequence[Spec]) -> None:
    """Start compiling specs that will certainly be loaded for this machine and are not cached. Does not wait."""
    target = host()
    if all(spec in _by_spec.setdefault(target, {}) for spec in specs) or not _lock.acquire(blocking=False):
        return
    try:
        folder, pack = store.directory(), packs.load_pack()
        keys = {key_of(spec, target): spec for spec in specs}
        absent = {
            key: spec
            for key, spec in keys.items()
            if key not in _by_key and (pack is None or pack.find(key) is None) and not os.path.exists(os.path.join(folder, key))
        }
        if absent and not compiler_lacks():  # otherwise loading them reports it
            from ort_lite.native import workers

            workers.compile_ahead(absent, target, folder)
    finally:
        _lock.release()


def leave(spec: Spec, target: Target) -> None:
    """Have a spec compiled for later processes, after what this one waits for; not if nothing else needs to be compiled."""
    with _lock:
        _left[spec, target] = None


def finish() -> None:
    """Compile what was left to later processes. Raises KernelCompileError."""
    for target in dict.fromkeys(target for _, target in list(_left)):
        load([spec for spec, other in list(_left) if other == target], target)


def is_available(spec: Spec, target: Target) -> bool:
    """Return True if `load` would find the spec without compiling."""
    if spec in _by_spec.get(target, ()):
        return True
    key = key_of(spec, target)
    return key in _by_key or bool(packs.find([key])) or store.read(store.directory(), key) is not None


def _load(specs: Iterable[Spec], target: Target, compile: str) -> None:
    if not target.runs_on(host()):
        raise ValueError(f"code for {target.name} ({target.triple}) does not run on {host().name}")
    keys = {spec: key_of(spec, target) for spec in specs}
    missing = {key: spec for spec, key in keys.items() if key not in _by_key}
    if missing:
        packed = packs.find(missing)
        left = {key: spec for key, spec in missing.items() if key not in packed}
        _link(_objects(left, target, compile), packed)
    _by_spec[target].update({spec: _by_key[key] for spec, key in keys.items()})


def _objects(specs: Mapping[str, Spec], target: Target, compile: str = WAIT) -> dict[str, bytes]:
    folder = store.directory()
    found = {key: store.read(folder, key) for key in specs}
    absent = {key: specs[key] for key, data in found.items() if data is None}
    compiled: dict[str, bytes] = {}
    if absent:
        from ort_lite.native import workers

        check_compiler(tuple(absent.values()), folder, compile)
        compiled = workers.compile_all(absent, target, folder)
        left = {key_of(spec, target): spec for spec, other in _left if other == target}
        left = {key: spec for key, spec in left.items() if not os.path.exists(os.path.join(folder, key))}
        if left:
            workers.compile_ahead(left, target, folder)
    return {key: compiled[key] if data is None else data for key, data in found.items()}


def _link(objects: Mapping[str, bytes], packed: Mapping[str, elf.Object]) -> None:
    """Load objects, from files and from a pack, and record their addresses."""
    machine = object_linking.MACHINES.get(host().triple)
    if machine is None:
        engine = _engine()
        engine.add(objects.values())
        _by_key.update((key, engine.address(symbol_of(key))) for key in objects)
        return
    folder = store.directory()
    parsed = {f"kernel pack: {key}": each for key, each in packed.items()}
    try:
        for key, data in objects.items():
            file = os.path.join(folder, key)
            parsed[file] = elf.parse(data, machine, symbol_of(key))
        _by_key.update(zip([*packed, *objects], object_linking.link(parsed), strict=True))
    except elf.BrokenObject as error:
        raise KernelLoadError(f"{file}: {error}: delete it, and it is compiled again") from None
    except object_linking.NotLinked as error:
        raise KernelLoadError(str(error)) from None


@cache
def _engine() -> "Engine":
    """Return LLVM's owner of code memory, for platforms with other object formats. Callers hold the lock."""
    engine: Engine = llvm().Engine()
    return engine
