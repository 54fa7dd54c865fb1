"""Installed does not mean enabled: what a plain session does in an environment with other distributions."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.__main__ import main
from ort_lite.inference.annotate import annotate
from ort_lite.plugins import Registry, plugins, selection

NPU = "MyNpuExecutionProvider"
CHAIN = "(float[2,3] x) => (float[2,3] y) { a = Neg(x)  b = LeakyRelu(a)  c = Softmax(b)  y = Neg(c) }"
X = np.array([[1, -2, 3], [0, 5, -6]], np.float32)
NAMES = [name for name, found in vars(plugins).items() if getattr(found, "__self__", None) is plugins._process]
PASS = """
from ort_lite.inference import shape_rule
from ort_lite.transform import graph_pass

@graph_pass(level="basic")
def drop_negations(graph, rewriter):
    found = [node for node in graph if node.op_type == "Neg" and node.outputs[0] not in graph.outputs]
    for node in found:
        rewriter.replace(node, node.inputs[0])
    return len(found)

@shape_rule("Same", domain="nowhere")
def same(op):
    return [op.tensor(op.dtype(0), op.shape(0))]

def ort_lite_transforms(): return [drop_negations]
def ort_lite_fusions(): return [drop_negations]
def ort_lite_shape_rules(): return [same]
"""


class Environment:
    """A folder of distributions, as `pip install` leaves them, that this process finds."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch

    def install(self, name: str, group: str, entry_points: dict[str, str]) -> None:
        info = self._folder / f"{name}-1.0.dist-info"
        info.mkdir()
        lines = [f"[ort_lite.{group}]", *(f"{key} = {value}" for key, value in entry_points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
        registry = Registry([str(self._folder)])
        for method in NAMES:
            self._monkeypatch.setattr(plugins, method, getattr(registry, method))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(selection, "_PROCESS", selection._ProcessDefaults())
    return Environment(folder, monkeypatch)


@pytest.fixture
def template(environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """With the distribution that `ort-lite new-provider` writes."""
    assert main(["new-provider", "my-npu", "--directory", str(tmp_path / "npu")]) == 0
    monkeypatch.syspath_prepend(str(tmp_path / "npu"))
    for module in ("ort_lite_my_npu", "ort_lite_my_npu.provider"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    project = tomllib.loads((tmp_path / "npu" / "pyproject.toml").read_text())["project"]
    environment.install("ort_lite_my_npu", "providers", project["entry-points"]["ort_lite.providers"])
    return environment


@pytest.fixture
def passes(environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """With a distribution that has a transform, which is wrong, and a shape rule."""
    (tmp_path / "site" / "their_passes.py").write_text(PASS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "their_passes", raising=False)
    environment.install("their_passes", "transforms", {"theirs": "their_passes"})
    return environment


def ran(providers: Any = None, **config: str) -> tuple[list[list[float]], dict[str, str]]:
    """The result of a session, and who runs each node."""
    options = ort_lite.SessionOptions()
    for key, value in config.items():
        options.add_session_config_entry(f"ort_lite.{key}", value)
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {CHAIN}')
    session = ort_lite.InferenceSession(model, options, providers)
    places = session.explain().assignment.placements.values()
    return session.run(None, {"x": X})[0].tolist(), {str(place.node): place.provider for place in places}


def test_an_installed_provider_changes_no_plain_session(request: pytest.FixtureRequest) -> None:
    before = ran()
    request.getfixturevalue("template")
    assert plugins.available_providers() == [NPU, "CPUExecutionProvider"]
    assert ran() == before
    assert set(before[1].values()) == {"CPUExecutionProvider"}
    for listed in ([NPU], plugins.available_providers()):
        assert NPU in ran(listed)[1].values()


@pytest.mark.usefixtures("template")
def test_a_plain_session_does_not_import_an_installed_provider() -> None:
    ran()
    assert "ort_lite_my_npu" not in sys.modules
    ran([NPU])
    assert "ort_lite_my_npu" in sys.modules


@pytest.mark.usefixtures("template")
def test_a_registered_provider_has_to_be_named_as_well() -> None:
    cls = plugins.provider(NPU)
    plugins.register_provider(NPU, cls)
    assert set(ran()[1].values()) == {"CPUExecutionProvider"}
    assert NPU in ran([NPU])[1].values()


@pytest.mark.usefixtures("template")
def test_the_command_line_uses_an_installed_provider_where_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {CHAIN}')
    onnx.save(model, tmp_path / "model.onnx")
    capsys.readouterr()
    for arguments, used in ([], False), (["--providers", NPU], True):
        assert main(["explain", str(tmp_path / "model.onnx"), *arguments]) == 0
        assert (f"{NPU}_0" in capsys.readouterr().out) is used
    assert main(["providers"]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert [NPU, "no"] in rows and ["CPUExecutionProvider", "yes"] in rows


def test_an_installed_transform_changes_no_plain_session(request: pytest.FixtureRequest) -> None:
    before = ran()
    request.getfixturevalue("passes")
    assert ran() == before


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("names", ["theirs", "all", " theirs ; theirs"])
def test_a_session_asks_for_an_installed_transform(names: str) -> None:
    plain, asked = ran(), ran(transforms=names)
    assert plain[0] != asked[0] and plain[1].keys() != asked[1].keys()
    options = ort_lite.SessionOptions()
    options.add_session_config_entry("ort_lite.transforms", names)
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> main {CHAIN}')
    without = ort_lite.InferenceSession(model, options, disabled_optimizers=["drop_negations"])
    assert without.run(None, {"x": X})[0].tolist() == plain[0]


@pytest.mark.usefixtures("passes")
def test_a_shape_rule_of_an_installed_plugin_types_operators_of_its_domain() -> None:
    signature = "main (float[2,3] x) => (float[2,3] y)"
    text = f'<ir_version: 8, opset_import: ["": 17, "nowhere": 1]> {signature} {{ a = nowhere.Same(x)  y = Neg(a) }}'
    model = ort_lite.load(onnx.parser.parse_model(text))
    annotate(model.graph, plugins.shape_rules())
    assert str(next(iter(model.graph)).output.type) == "float32[2, 3]"
