"""Packages of execution providers for onnxruntime: which are found, by what, and what is imported for it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ort_lite_onnxruntime.wheels import find_wheels

Install = Callable[..., None]
FUNCTIONS = 'def get_library_path(): return "/opt/{0}.so"\ndef get_ep_name(): return "{0}"\n'


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution of one module as pip does, in a folder of its own."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(name: str, source: str, metadata: str = "", **files: str) -> None:
        module = name.replace("-", "_")
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text(source)
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\n{metadata}")
        (about / "RECORD").write_text(f"{module}/__init__.py,,\n{module}-1.0.dist-info/METADATA,,\n")
        for file, text in files.items():
            (about / file).write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return installed


def test_packages_are_found_by_their_functions(install: Install, tmp_path: Path) -> None:
    install("onnxruntime-qnn", FUNCTIONS.format("QNNExecutionProvider"))
    install("onnxruntime-ep-nv-tensorrt-rtx", FUNCTIONS.format("NvTensorRTRTXExecutionProvider"))
    install("onnxruntime-ep-mlx", FUNCTIONS.format("MLXExecutionProvider"))
    several = FUNCTIONS.format("A") + 'def get_ep_names(): return ["A", "B"]\n'
    install("acme-accelerator", several, "Summary: for ONNX Runtime\n", **{"top_level.txt": "acme_accelerator\n"})
    found = {name: wheel.library for wheel in find_wheels([str(tmp_path)]) for name in wheel.names}
    assert found == {
        "A": "/opt/A.so",
        "B": "/opt/A.so",
        "MLXExecutionProvider": "/opt/MLXExecutionProvider.so",
        "NvTensorRTRTXExecutionProvider": "/opt/NvTensorRTRTXExecutionProvider.so",
        "QNNExecutionProvider": "/opt/QNNExecutionProvider.so",
    }


def test_other_packages_are_not_imported(install: Install, tmp_path: Path) -> None:
    install("onnxruntime-extras", 'def get_library_path(): return ""\n')
    install("of-another-project", FUNCTIONS.format("Other"))
    install("ort-lite-ep", FUNCTIONS.format("Own"), "Requires-Dist: ort-lite<0.2,>=0.1\nSummary: providers in onnxruntime\n")
    assert find_wheels([str(tmp_path)]) == []
    assert not {"onnxruntime_extras", "of_another_project", "ort_lite_ep"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit('no licence')\n# get_library_path get_ep_name", "SystemExit: no licence"),
        ("def get_library_path(): raise FileNotFoundError('gone')\ndef get_ep_name(): return 'A'", "gone"),
        ("def get_library_path(): return ''\ndef get_ep_name(): return 3", "expected names"),
    ],
)
def test_a_broken_package_costs_a_warning(install: Install, tmp_path: Path, source: str, reason: str) -> None:
    install("onnxruntime-ep-broken", source)
    with pytest.warns(RuntimeWarning, match=f"onnxruntime_ep_broken are left out: .*{reason}"):
        assert find_wheels([str(tmp_path)]) == []
