"""Compiled partitions that onnxruntime saves in a model, in this release, in earlier ones and in ort-lite."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import ort_lite_ep
import pytest
from onnxruntime.capi import _pybind_state
from ort_lite_accelerator import program, provider

import ort_lite
from ort_lite.provider import Partition
from tests.devices_inside_onnxruntime import (
    BODIES,
    CARD,
    CHAIN,
    EXPECTED,
    VaultExecutionProvider,
    X,
    devices,
    model,
    options,
    register_both,
)

VERSIONS = ("1.24.4", "1.27.0", "1.31.1")


@pytest.fixture(scope="module", autouse=True)
def register() -> None:
    register_both()


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List the partitions that the card's compiler compiles."""
    found = list[str]()
    original = program.compile_program

    def noted(partition: Partition) -> Any:
        found.append(partition.name)
        return original(partition)

    monkeypatch.setattr(provider, "compile_program", noted)
    return found


def saved(folder: Path, embed: bool) -> Path:
    """Save the chain with its compiled partitions and return the file."""
    source, target = folder / "chain.onnx", folder / f"compiled_{int(embed)}.onnx"
    source.write_bytes(model(CHAIN))
    entries = {"context_enable": "1", "context_embed_mode": str(int(embed)), "context_file_path": str(target)}
    session = onnxruntime.InferenceSession(source, options(**entries))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    return target


@pytest.mark.parametrize("embed", [False, True])
def test_a_saved_model_runs_without_compiling(embed: bool, tmp_path: Path, compiled_once: list[str]) -> None:
    path = saved(tmp_path, embed)
    assert len(compiled_once) == 2
    compiled_once.clear()
    nodes = onnx.load(path).graph.node
    assert [node.op_type for node in nodes] == ["EPContext", "Abs", "EPContext"]
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in nodes[0].attribute}
    assert attributes["source"] == CARD.encode() and attributes["embed_mode"] == int(embed)
    assert attributes["ep_sdk_version"] == b"npu-program 2.0"
    files = [file.name for file in tmp_path.glob("*.bin")]
    assert len(files) == (0 if embed else 2)
    assert (b"\0" in attributes["ep_cache_context"]) == embed, "the program itself, or the name of its file"
    session = onnxruntime.InferenceSession(path, options())
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    own = ort_lite.InferenceSession(path, providers=[CARD, "CPUExecutionProvider"])
    np.testing.assert_array_equal(own.run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


def test_the_model_compiler_saves_partitions(tmp_path: Path, compiled_once: list[str]) -> None:
    (tmp_path / "chain.onnx").write_bytes(model(CHAIN))
    compiler = onnxruntime.ModelCompiler(options(), tmp_path / "chain.onnx", embed_compiled_data_into_model=True)
    data = compiler.compile_to_bytes()
    compiled_once.clear()
    np.testing.assert_array_equal(onnxruntime.InferenceSession(data, options()).run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


def test_a_model_that_ort_lite_saved_runs_inside(tmp_path: Path, compiled_once: list[str]) -> None:
    own = ort_lite.InferenceSession(model(CHAIN), providers=[CARD, "CPUExecutionProvider"])
    own.save_compiled(tmp_path / "compiled.onnx")
    compiled_once.clear()
    session = onnxruntime.InferenceSession(tmp_path / "compiled.onnx", options(devices()[1]))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once


@pytest.mark.parametrize("attribute", ["ep_sdk_version", "ep_cache_context"])
def test_a_saved_partition_that_does_not_fit_is_refused(attribute: str, tmp_path: Path) -> None:
    proto = onnx.load(saved(tmp_path, embed=True))
    for found in proto.graph.node[0].attribute:
        if found.name == attribute:
            found.s = b"npu-program 9.0" if attribute == "ep_sdk_version" else found.s[:-40]
    with pytest.raises(Exception, match="compiled for 'npu-program 9.0'" if "sdk" in attribute else "deserialize"):
        onnxruntime.InferenceSession(proto.SerializeToString(), options())


def test_onnxruntime_asks_if_a_compiled_model_fits() -> None:
    ask, found = _pybind_state.get_model_compatibility_for_ep_devices, _pybind_state.OrtCompiledModelCompatibility
    assert ask(devices()[:1], "npu-program 2.0") == found.EP_SUPPORTED_OPTIMAL
    assert ask(devices()[:1], "npu-program 9.0") == found.EP_UNSUPPORTED


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, embed=False)
    first = next(iter(tmp_path.glob("*.bin")))
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(Exception, match="cut short, or of another model"):
        onnxruntime.InferenceSession(path, options())


def test_a_provider_that_saves_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "neg.onnx").write_bytes(model("(float[N] x) => (float[N] y) { y = Neg(x) }"))
    chosen = options(devices(VaultExecutionProvider.name)[0], context_enable="1")
    with pytest.raises(Exception, match="cannot be saved: VaultExecutionProvider has no serialize"):
        onnxruntime.InferenceSession(tmp_path / "neg.onnx", chosen)


def test_bodies_are_not_saved(tmp_path: Path) -> None:
    (tmp_path / "if.onnx").write_bytes(model(BODIES))
    onnxruntime.InferenceSession(tmp_path / "if.onnx", options(context_enable="1", context_embed_mode="1"))
    reasons = [node.reason for node in ort_lite_ep.reports()[-1].nodes if "compiled" in node.reason]
    assert len(reasons) == 2 and "onnxruntime saves no compiled nodes of bodies" in reasons[0]
    session = onnxruntime.InferenceSession(tmp_path / "if_ctx.onnx", options())
    np.testing.assert_array_equal(session.run(None, {"x": X, "c": np.array(False)})[0], (3 * X) * (2 * X))


# Other releases

RUN = """
import sys, numpy as np, onnxruntime, ort_lite_ep
name, version, path, saved = sys.argv[1:]
assert onnxruntime.__version__ == version, onnxruntime.__version__
onnxruntime.register_execution_provider_library(name, ort_lite_ep.get_library_path())
options = onnxruntime.SessionOptions()
options.add_provider_for_devices([d for d in onnxruntime.get_ep_devices() if d.ep_name == name][:1], {})
if saved:
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", saved)
session = onnxruntime.InferenceSession(path, options)
print(session.run(None, {"x": np.float32([[1, -1, 2, 0], [3, 0, -0.5, 1]])})[0].tolist())
print(ort_lite_ep.reports()[-1])
"""


def run_in(version: str, path: Path, saved: str) -> str:
    """Run a model with another release, which may save it, and return what the provider said about its nodes."""
    folder = Path(sys.prefix) / f"onnxruntime-{version}"
    assert folder.is_dir(), f"{folder} is missing: pip install --no-deps --target it onnxruntime=={version}"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", RUN, CARD, version, str(path), saved]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    values, _, report = done.stdout.partition("\n")
    np.testing.assert_array_equal(np.float32(json.loads(values)), EXPECTED)
    return report


@pytest.mark.parametrize("version", VERSIONS)
def test_earlier_releases_load_what_this_one_saved(version: str, tmp_path: Path) -> None:
    path = saved(tmp_path, embed=False)
    proto = onnx.load(path)
    proto.ir_version = 9  # this release writes its own, which earlier ones refuse in any model
    onnx.save(proto, path)
    assert f"{CARD} runs 2 of 3 nodes" in run_in(version, path, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_this_release_loads_what_earlier_ones_saved(version: str, tmp_path: Path, compiled_once: list[str]) -> None:
    (tmp_path / "chain.onnx").write_bytes(model(CHAIN))
    assert f"{CARD} runs 4 of 5 nodes" in run_in(version, tmp_path / "chain.onnx", str(tmp_path / "saved.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "saved.onnx", options())
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], EXPECTED)
    assert not compiled_once
