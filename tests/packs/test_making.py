"""Packs are made of what lowering asks for, on any target, and twice to the same bytes."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_lite
from ort_lite.native import Spec, loader, packs, workers
from ort_lite.native.cpu import host, parse_target
from ort_lite.native.spec import key_of, parameters
from ort_lite_cpu.kernels.gemm import pack
from ort_lite_cpu.program.segment import NOTHING
from ort_lite_cpu.run.kernels import Kernels
from tests.native import kernels
from tests.packs import asked, listing, wheels
from tests.packs.__main__ import LIST
from tests.packs.build import TARGETS, build

SPECS = (
    Spec(kernels.scaled, ("f32",) * 3, {"kind": "relu", "limit": 0.5}),
    Spec(kernels.scaled, ("f32",) * 3, {"kind": "none", "limit": 1}),
    Spec.plain(kernels.curved, "i64(i64)"),
    Spec.from_source("f", "def f(x: Ptr, part: int, parts: int) -> int:\n    return OK\n", "ort_lite.native.lang", ("f64",)),
)


def product() -> bytes:
    x, w, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 5]) for name in "xwy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [x, w], [y])
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    return made


def test_a_list_gives_back_what_was_written_in_order(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    listed = {spec: frozenset({"x86-64-v3", "armv8.0-a"} if spec.source else {"x86-64-v2"}) for spec in SPECS}
    listing.write(file, listed)
    assert listing.read(file) == listed
    text = file.read_text(encoding="utf-8")
    listing.write(file, dict(reversed(listed.items())))
    assert file.read_text(encoding="utf-8") == text
    file.write_text(text.replace("scaled", "renamed"), encoding="utf-8")
    assert len(listing.read(file)) == 2


def test_the_list_in_the_repository_names_what_is_there() -> None:
    """Otherwise `python -m tests.packs list` has to be run."""
    found = listing.read(LIST)
    assert len(found) == len(LIST.read_text(encoding="utf-8").splitlines())
    for spec in found:
        if spec.function is not None and not spec.signature:
            of_kinds = [
                [name for name, kind in parameters(spec.function) if kind == wanted] for wanted in ("pointer", "static")
            ]
            assert [len(spec.types), [name for name, _ in spec.statics]] == [len(of_kinds[0]), sorted(of_kinds[1])], spec.name


def test_what_a_target_asks_for_is_heard_and_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = [{name: np.ones((5, 5), np.float32) for name in "xw"}]
    before, machine, compile_all = loader._load, host(), workers.compile_all

    def of_this_machine(specs: Mapping[str, Spec], *rest: Any) -> dict[str, bytes]:
        assert all(spec.signature or spec == NOTHING for spec in specs.values()), "a kernel is compiled"
        return compile_all(specs, *rest)

    monkeypatch.setattr(workers, "compile_all", of_this_machine)
    lanes = {}
    for name in ("x86-64-v2", "x86-64-v4", "armv8.0-a"):
        with asked.pretended(parse_target(name)) as specs:
            asked.run(product(), feeds)
        lanes[name] = {value for spec in specs for key, value in spec.statics if key == "tile.lanes"}
    assert lanes == {"x86-64-v2": {4}, "x86-64-v4": {16}, "armv8.0-a": {4}}
    assert loader._load is before and host() == machine


def test_what_runs_ask_for_is_heard() -> None:
    with asked.recorded() as specs:
        asked.run(product(), None)
        asked.run(b"no model", None)
    loaded = set(loader._by_spec[host()])
    assert specs <= loaded


def test_what_is_packed_without_a_kernel_is_listed_with_it() -> None:
    filters = np.ones((3, 2, 3, 3), np.float32)
    with asked.pretended(parse_target("x86-64-v4")) as loaded:
        pack.filters(filters, 1, 16, Kernels(parse_target("x86-64-v4")))
    assert [spec.name for spec in loaded] == ["ort_lite_cpu.kernels.gemm.pack.pack_filters<f32, f32>"]


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From two empty caches, in another order; levels share what they do not name."""
    names = ["x86-64-v3", "x86-64-v3+avxvnni", "armv8.0-a"]
    made = []
    for folder, order in (("first", 1), ("second", -1)):
        monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path / folder))
        file = tmp_path / folder / "x86_64.pack"
        assert build(file, {name: set(SPECS[::order]) for name in names[::order]}) == []
        made.append(file.read_bytes())
    assert made[0] == made[1]
    pack = packs.Pack(str(file), packs.own_base())
    assert pack.count == 2 * len(SPECS)
    assert all(pack.find(key_of(spec, parse_target(name))) for spec in SPECS for name in names)
    [problem] = build(tmp_path / "none.pack", {names[0]: {Spec.plain(kernels.curved, "wrong(i64)")}})
    assert problem.startswith("x86-64-v3: tests.native.kernels.curved: ")


def test_a_wheel_is_for_one_python_and_architecture(tmp_path: Path) -> None:
    file = tmp_path / "aarch64-all.pack"
    file.write_bytes(b"a pack")
    [first, second] = [wheels.kernels(file, tmp_path / folder) for folder in "ab"]
    assert first.read_bytes() == second.read_bytes()
    assert first.name.startswith(f"ort_lite_kernels-{ort_lite.__version__}-cp3") and first.name.endswith("_aarch64.whl")
    with zipfile.ZipFile(first) as archive:
        assert archive.read(f"ort_lite_kernels/{packs.file_name('aarch64')}") == b"a pack"
        [record] = [name for name in archive.namelist() if name.endswith("RECORD")]
        assert len(archive.read(record).decode().splitlines()) == len(archive.namelist())


def test_every_target_of_a_pack_is_a_level_and_what_it_names() -> None:
    """Or two of them would share all objects."""
    targets = [parse_target(name) for names in TARGETS.values() for name in names]
    everything = ["avx512f,avx512vnni|avxvnni|neon,i8mm|neon,dotprod", "lse|"]
    assert len({target.narrow(everything).features for target in targets}) == len(targets)
