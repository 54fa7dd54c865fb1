"""Mutants are what their numbers say, and leave no kernel out."""

import hashlib
import subprocess
import sys

import onnx.printer
import pytest

from ort_lite_cpu.operators import FAMILIES, STRING_FAMILIES
from tests.conformance.versions.registry import EXCEPTIONS
from tests.conformance.versions.schemas import schemas
from tests.fuzz.checking import ROOT
from tests.fuzz.mutants import SETTLED, keys, mutant
from tests.fuzz.mutations import MUTATIONS, element_type
from tests.fuzz.seeds import has_kernel

SOME = range(0, 60_000, 179)


@pytest.mark.slow
def test_a_number_is_always_the_same_model_with_the_same_feeds() -> None:
    """In another process too, where texts have other hashes."""
    lines = "import sys; from tests.fuzz.test_mutants import fingerprint; sys.stdout.write(fingerprint())"
    done = subprocess.run([sys.executable, "-c", lines], check=True, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.stdout == fingerprint()


def fingerprint() -> str:
    """Of some mutants."""
    return hashlib.sha256("".join(map(_told, SOME)).encode()).hexdigest()


def _told(number: int) -> str:
    draft = mutant(number)
    try:
        model = draft.model()
    except (TypeError, ValueError) as error:
        return str(error)
    return f"{onnx.printer.to_text(model)} {draft.feeds()} {draft.optimised} {draft.threads}"


def test_every_operator_version_with_a_kernel_occurs() -> None:
    wanted = {key for key in schemas() if has_kernel(key) and key not in EXCEPTIONS}
    met = {mutant(number).key for number in range(0, 2 * len(keys()), 2)}
    assert met >= wanted
    sparse = {("com.microsoft", "SparseToDenseMatMul")}  # drafts feed no sparse tensors
    assert {key[:2] for key in met} >= {*FAMILIES, *STRING_FAMILIES} - sparse


def test_a_test_run_meets_every_operator_version() -> None:
    """The mutants that test_fuzz.py runs are enough for that."""
    assert 2 * len(keys()) <= 2000


def test_every_mutation_is_met() -> None:
    missing, numbers = {mutation.__name__ for mutation in MUTATIONS}, iter(range(0, 60_000, 7))
    while missing and (number := next(numbers, None)) is not None:
        missing -= {line.partition(":")[0] for line in mutant(number).story}
    assert not missing


def test_small_numbers_keep_to_the_types_of_the_cases() -> None:
    for number in range(0, SETTLED, 50):
        assert not any(line.startswith(element_type.__name__) for line in mutant(number).story)
