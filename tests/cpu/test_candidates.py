"""The kernels of nodes, and why other candidates were not taken: `explain(kernels=True)`."""

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_lite
from ort_lite.__main__ import main
from tests.tools.cli.output import parse

CONVOLUTIONS = {
    "pointwise": ("float[1,64,1,3] x", (48, 64, 1, 1), "", "channels", "planes", "3 pixels, at least"),
    "general": ("float[1,4,9,9] x", (40, 4, 3, 3), "", "conv", "Winograd", "no transform has its window"),
    "deep": ("float[1,64,20,20] x", (64, 64, 3, 3), "", "winograd", "vectors of pixels", "Winograd's convolution fits"),
    "depthwise": (
        "float[1,64,9,9] x",
        (64, 1, 3, 3),
        "group = 64, dilations = [2, 2]",
        "depthwise",
        "matrix product",
        "several pixels",
    ),
    "few outputs": ("float[1,32,30,30] x", (1, 32, 3, 3), "", "conv_pixels", "planes", "neither pointwise nor depthwise"),
}


def model(image: str, shape: tuple[int, ...], attributes: str) -> onnx.ModelProto:
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> g ({image}) => (float[A,B,C,D] y) {{ [conv] y = Conv<{attributes}>(x, w) }}'
    )
    made = onnx.parser.parse_model(text.replace("<>", ""))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), "w"))
    return made


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_a_convolution_names_its_kernel_and_the_reasons_against_others(
    case: tuple[str, tuple[int, ...], str, str, str, str],
) -> None:
    image, shape, attributes, kernel, rejected, reason = case
    session = ort_lite.InferenceSession(model(image, shape, attributes), providers=["CPUExecutionProvider"])
    choice = session.explain(kernels=True).kernels["conv"]
    assert any(name.partition("<")[0] == kernel for name in choice.kernels)
    assert choice.rejected[rejected].startswith(reason) or reason in choice.rejected[rejected]
    assert f"    not {rejected}: " in str(session.explain(kernels=True))
    assert session.explain().kernels == {} and "not planes" not in str(session.explain())


def test_the_command_prints_them(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/model.onnx"
    onnx.save(model(*CONVOLUTIONS["general"][:3]), path)
    assert main(["explain", path, "--kernels", "--json"]) == 0
    found = parse(capsys.readouterr().out)["kernels"]["conv"]
    assert found["kernels"][-1].startswith("conv<f32") and "planes" in found["rejected"]
    assert main(["explain", path, "--kernels"]) == 0
    assert "    not planes: it is neither pointwise nor depthwise" in capsys.readouterr().out
