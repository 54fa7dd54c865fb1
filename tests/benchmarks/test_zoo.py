"""The zoo: its catalog, what it compares and bounds, and the pages that its measurements give."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.tools.cli.benchmark.machine_peaks import Peaks
from ort_lite.tools.cli.benchmark.nodes import profile
from tests.benchmarks.compare.processes import Failed
from tests.benchmarks.document import performance, readme
from tests.benchmarks.measurements import measured
from tests.benchmarks.record import merge, parse
from tests.benchmarks.speed_chart import speed_chart, zoo_chart
from tests.benchmarks.zoo.__main__ import line, measurements, sizes_of
from tests.benchmarks.zoo.agreement import difference
from tests.benchmarks.zoo.catalog import ZOO
from tests.benchmarks.zoo.measure import Measured, Pool, Sizes, measure
from tests.benchmarks.zoo.roofline import bound

FOLDER = Path(__file__).with_name("zoo")
FOUND = Measured({"ort_lite": 2e-3, "onnxruntime": 4e-3, "control": 5e-3, "openvino": 1e-3}, {}, {}, 1e-3)
VERSIONS = {"ort_lite": "0.1.0", "onnxruntime": "1.32.0", "control": "1.32.0", "openvino": "2026.4.1-22982"}


def test_each_model_has_a_function_in_the_file_of_its_family() -> None:
    functions = {
        path.stem: {n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)}
        for path in FOLDER.glob("*.py")
    }
    assert len(ZOO) == 29
    assert all(name in functions[entry.family] for name, entry in ZOO.items())
    assert len({entry.title for entry in ZOO.values()}) == len(ZOO)


def test_the_roofline_of_a_product_is_its_operations_over_the_peak() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> main (float[N,64] x, float[64,32] w) => (float[N,32] y) { y = MatMul(x, w) }'
    )
    feeds = {"x": np.ones((128, 64), np.float32), "w": np.ones((64, 32), np.float32)}
    with ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        lines = profile(session, feeds, 0).lines
    operations, nbytes = 2 * 128 * 64 * 32, 4 * (128 * 64 + 64 * 32 + 128 * 32)
    slow = Peaks(operations={"fma f32": 1e9, "amx u8s8": 8e9}, bandwidth=1e12)
    assert bound(lines, slow, 1) == pytest.approx(operations / 1e9)
    assert bound(lines, slow, 2) == pytest.approx(operations / 2e9)
    assert bound(lines, Peaks(operations={"fma f32": 1e15}, bandwidth=1e9), 1) == pytest.approx(nbytes / 1e9)


def test_outputs_differ_by_a_share_of_the_largest_element() -> None:
    expected = [np.array([0.0, -4.0, np.inf, np.nan], np.float32), np.array([1, 2])]
    assert difference(expected, expected) == 0
    assert difference([expected[0] + np.float32(0.5), expected[1]], expected) == pytest.approx(0.125)
    assert difference([expected[0], np.array([1, 3])], expected) == np.inf
    assert difference([np.nan_to_num(expected[0]), expected[1]], expected) == np.inf
    assert difference([expected[0][:3], expected[1]], expected) == np.inf
    assert difference(expected[:1], expected) == np.inf


def test_a_model_gives_a_measurement_for_each_rival() -> None:
    made = list(measurements("gpt2", 2, FOUND, VERSIONS, 3.0))
    assert [(m.kind, m.title, m.rival, m.ratio, m.noise, m.roofline, m.differs) for m in made] == [
        ("zoo", "gpt2", "onnxruntime", 2.0, 0.8, 1e-3, False),
        ("zoo", "gpt2", "openvino", 0.5, 0.8, 1e-3, False),
    ]
    assert [parse(m.as_json()) for m in made] == made
    assert line("gpt2", FOUND) == (
        "gpt2  ort_lite 2 ms, 50% of the roofline  onnxruntime 4 ms, ratio 2.00  openvino 1 ms, ratio 0.50  "
        "(onnxruntime to itself 0.80)"
    )


def test_a_runtime_that_differs_has_no_ratio() -> None:
    wrong = FOUND.replace(wrong={"openvino": "0.3 of the largest element"})
    assert [m.ratio for m in measurements("gpt2", 1, wrong, VERSIONS, 3.0)] == [2.0, None]
    ours = FOUND.replace(wrong={"ort_lite": "0.3 of the largest element"})
    assert [m.ratio for m in measurements("gpt2", 1, ours, VERSIONS, 3.0)] == [None, None]


def test_a_record_of_two_models_gives_tables_and_a_chart() -> None:
    rows = [m for name in ("gpt2", "unet") for m in measurements(name, 1, FOUND, VERSIONS, 3.0)]
    record = merge((), [measured(date="2026-01-01"), *rows])
    page, front, chart = performance(record), readme(record), zoo_chart(record)
    assert "### Modern models" in page
    assert "| U-Net, 192 x 192 | 2 ms | 50% | 2.00 (4 ms), noise 20% | 0.50 (1 ms), noise 20% |" in page
    assert "Slower than OpenVINO with 1 thread, 2 of 2: GPT-2, a token after 128 (0.50); U-Net, 192 x 192 (0.50)." in page
    assert "| GPT-2, a token after 128 | 2 ms | 2.00 | 0.50 |" in front
    assert "| U-Net" not in front, "some models are in the README, and all in the means"
    assert "| geometric mean of all 2 |  | 2.00 | 0.50 |" in front
    assert "compared with OpenVINO: GPT-2, a token after 128 (0.50); U-Net, 192 x 192 (0.50)." in front
    assert "U-Net, 192 x 192, OpenVINO: 0.50" in chart
    assert "U-Net" not in speed_chart(record)


def test_a_cpu_with_more_features_in_the_zoo_is_another_section() -> None:
    row = measured("GEMM 512", features=("avx2",))
    page = performance(merge((), [row, measured("gpt2", kind="zoo", features=("avx2", "amx_int8"))]))
    assert "\n## Alpha without amx_int8\n" in page
    assert "| GEMM 512 | 1 ms | 2.00 (2 ms) |" in page
    assert "\n## Alpha with amx_int8\n" in page


def test_undated_measurements_and_earlier_features_are_not_in_the_chart() -> None:
    new = measured(cpu="Beta", features=("avx2", "fma"), date="2026-02-01", ratio=3.0)
    old = measured(cpu="Beta", features=("avx2",), date="2026-01-01", ratio=5.0)
    chart = speed_chart([measured(cpu="Alpha"), new, old])
    assert "Alpha" not in chart
    assert "Beta: 3.00" in chart
    assert "5.00" not in chart


def test_a_model_that_was_not_built_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"does not exist; build it with: python -m tests.benchmarks.zoo build .* gpt2"):
        sizes_of(tmp_path, "gpt2")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs onnxruntime")
def test_processes_take_turns_on_a_model(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> main (float[N,64] x) => (float[N,64] y) { y = Softmax(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    for name, rows in (("feeds", 64), ("feeds2", 3)):
        np.savez(tmp_path / f"{name}.npz", x=np.random.default_rng(0).standard_normal((rows, 64)).astype(np.float32))
    sizes = Sizes(tmp_path / "model.onnx", tmp_path / "feeds.npz", tmp_path / "feeds2.npz", 1e-5)
    with Pool([], 1) as pool:
        found = measure(pool, sizes, 0)
        assert found.times.keys() == {"ort_lite", "onnxruntime", "control"}
        assert not found.wrong
        assert found.roofline is not None
        assert found.roofline > 0
        (tmp_path / "model.onnx").write_bytes(b"no model")
        with pytest.raises(Failed, match="ort_lite: "):
            measure(pool, sizes, 0)
