"""Division by 0, shifts beyond the width, casts of what does not fit, indices far away: a defined result or an error with the
node's name, never a signal.
"""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_lite.dtypes import Array
from tests.conformance.hazards import Hazard, computed, failing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(330)]
Results = dict[str, Any]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Of a process that would have died of a signal."""
    file = tmp_path_factory.mktemp("hazards") / "results"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.conformance.hazards", str(file)]
    done = subprocess.run(command, check=False, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-2000:]}"
    found: Results = pickle.loads(file.read_bytes())
    return found


def wrapped(values: list[int], dtype: str) -> Array:
    bits = np.iinfo(dtype).bits
    return np.array([value % 2**bits for value in values], np.uint64).astype(f"uint{bits}").view(dtype)


def expected(hazard: Hazard) -> Array | None:
    """What Python's integers say; None where a float's result is NumPy's."""
    dtype = hazard.output
    if hazard.op == "Cast":
        return None
    pairs = [(int(a), int(b)) for a, b in zip(*hazard.inputs, strict=True)] if dtype[0] in "iu" else []
    if hazard.op == "Div":
        return wrapped([abs(a) // abs(b) * (1 if a * b >= 0 else -1) for a, b in pairs], dtype)
    if hazard.op == "Mod" and pairs:
        floor = [a % b for a, b in pairs]
        trunc = [abs(a) % abs(b) * (1 if a >= 0 else -1) for a, b in pairs]
        return wrapped(trunc if hazard.attributes["fmod"] else floor, dtype)
    if hazard.op == "BitShift":
        bits, left = np.iinfo(dtype).bits, hazard.attributes["direction"] == "LEFT"
        return wrapped([(0 if b >= bits else a << b) if left else a >> min(b, bits) for a, b in pairs], dtype)
    return np.full(hazard.inputs[0].shape, np.nan, dtype)


@pytest.mark.parametrize("name", [name for name, hazard in computed().items() if hazard.op != "Cast"])
def test_integers_never_trap(name: str, results: Results) -> None:
    np.testing.assert_array_equal(results[name], expected(computed()[name]))


@pytest.mark.parametrize("name", [name for name, hazard in computed().items() if hazard.op == "Cast"])
def test_floats_that_do_not_fit_become_what_x86_makes_of_them(name: str, results: Results) -> None:
    """Those up to 32 bits by way of int32, the others of int64: the smallest one for NaN and what is out of range."""
    hazard, got = computed()[name], results[name]
    if hazard.output == "bool":
        assert got.all()
        return
    info = np.iinfo(hazard.output)
    wide = 64 if info.bits == 64 or hazard.output == "uint32" else 32
    whole = [int(v) if -(2.0 ** (wide - 1)) <= v < 2.0 ** (wide - 1) else -(2 ** (wide - 1)) for v in hazard.inputs[0]]
    if hazard.output == "uint64":  # what is 2**63 or more is converted less 2**63
        whole = [w if not v >= 2.0**63 else int(v) if v < 2.0**64 else 0 for v, w in zip(hazard.inputs[0], whole, strict=True)]
    np.testing.assert_array_equal(got, wrapped(whole, hazard.output))


@pytest.mark.parametrize("name", computed())
def test_folding_gives_what_running_gives(name: str, results: Results) -> None:
    np.testing.assert_array_equal(results[f"constant {name}"], results[name])


@pytest.mark.parametrize("name", failing())
def test_indices_far_away_and_divisors_of_0_fail_with_the_nodes_name(name: str, results: Results) -> None:
    for found in (results[name], results[f"constant {name}"]):
        assert isinstance(found, str), f"{name} gave {found}"
        assert f"{failing()[name].op} '{name}'" in found
        words = ("element 1 of the divisor",) if "by 0" in name else ("out of range", "it should be from")
        assert any(text in found for text in words), found
