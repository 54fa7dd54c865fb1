"""What a process does before its first result, once the kernels of its model are in the cache: it compiles nothing, and imports
no more than it needs.
"""

import importlib.util
import os
import subprocess
import sys

import pytest

from ort_lite.native import object_linking
from ort_lite.native.cpu import host

_HEAVY_NAMES = """
dataclasses google.protobuf.json_format importlib.metadata llvmlite ml_dtypes numba numpy.ma onnx ort_lite.native.compiler
ort_lite.native.workers pathlib pluggy re2 rich tempfile
"""
HEAVY = frozenset(_HEAVY_NAMES.split())
"""Worth 5 ms or more each; `workers` is imported when a kernel has to be compiled."""
if host().triple not in object_linking.MACHINES:
    HEAVY -= {"llvmlite"}  # there it links

CHILD = """
import sys
import numpy as np
before = set(sys.modules)
import ort_lite
options = ort_lite.SessionOptions()
options.add_session_config_entry("ort_lite.prepared", sys.argv[2])
session = ort_lite.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feed = {a.name: np.ones([d if isinstance(d, int) else 1 for d in a.shape], np.float32) for a in session.get_inputs()}
(result,) = session.run(None, feed)
assert np.isfinite(result).all()
print(*sorted(set(sys.modules) - before))
"""


def light_model(name: str) -> str:
    """A file in the installed package onnx, which is not imported for it."""
    package = importlib.util.find_spec("onnx")
    assert package is not None and package.submodule_search_locations
    return os.path.join(package.submodule_search_locations[0], "backend", "test", "data", "light", f"light_{name}.onnx")


def modules_of_a_process(model: str, prepared: str = "1") -> set[str]:
    """Those that it imported beyond NumPy's own."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, model, prepared], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("prepared", ["0", "1"])
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_a_second_process_compiles_nothing_and_imports_little(name: str, prepared: str) -> None:
    model = light_model(name)
    modules_of_a_process(model, prepared)  # fills the cache, where it is not filled yet
    assert modules_of_a_process(model, prepared) & HEAVY == set()


def test_a_process_that_reads_a_prepared_program_imports_no_shape_rules() -> None:
    modules_of_a_process(light_model("squeezenet"))
    assert "ort_lite_transforms.shapes.conv" not in modules_of_a_process(light_model("squeezenet"))


def test_shape_rules_are_imported_for_the_operators_that_a_model_has() -> None:
    imported = modules_of_a_process(light_model("squeezenet"), "0")
    assert "ort_lite_transforms.shapes.conv" in imported
    assert "ort_lite_transforms.shapes.recurrent" not in imported
