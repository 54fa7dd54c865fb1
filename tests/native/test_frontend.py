"""The front end that leaves out what kernels do not need: the same code, all of Numba where it fails, nothing left behind."""

import pytest

from ort_lite.errors import KernelCompileError
from ort_lite.native import Spec
from ort_lite.native.compiler import Written, compile_object
from ort_lite.native.compilers import unknown_release
from ort_lite.native.cpu import host
from ort_lite.native.translator import Translator
from tests.native import kernels
from tests.native.calls import plain

if unknown_release():
    pytest.skip("the installed Numba is not one whose private parts are replaced", allow_module_level=True)

from numba.core import ir, lowering, postproc, ssa, typeinfer

from ort_lite.native.frontend import LeanTranslator, shortcuts

PATCHED = (
    (postproc.PostProcessor, "run"),
    (ir.Inst, "_rec_list_vars"),
    (typeinfer.ConstraintNetwork, "propagate"),
    (ssa, "_run_ssa_block_pass"),
    (lowering, "new_error_context"),
)


@pytest.mark.parametrize(
    "spec",
    [
        Spec(kernels.gather, ("f32", "i64", "f32")),
        Spec(kernels.total, ("f32", "f32")),
        Spec(kernels.scaled, ("f32", "f32", "f32"), {"kind": "relu", "limit": 0.0}),
        Spec(kernels.grouped, ("f32",)),
        Spec(kernels.with_records, ("f32", "f32"), {"factors.static": 5}),
    ],
    ids=["branches", "fastmath", "static", "named tuple", "static field"],
)
def test_the_code_is_that_of_all_of_numba(spec: Spec) -> None:
    lean, full = (translator(host()).text(spec, "k") for translator in (LeanTranslator, Translator))
    assert Written("", lean, host()).emit_object() == Written("", full, host()).emit_object()


def test_where_it_fails_all_of_numba_compiles_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A closure: a pass that is left out inlines it."""
    text = "def f(x: int) -> int:\n    def twice(y):\n        return y + y\n    return twice(x)\n"
    spec = Spec(None, source=("f", text, "tests.native.kernels"), signature="i64(i64)")
    assert plain(spec, 3) == 6
    caplog.clear()
    compile_object(spec, host(), "k")
    [record] = caplog.records
    assert record.message.startswith("kernel tests.native.kernels.f: compiled with all of Numba, since a part of it fails: ")


def test_numba_is_as_before_behind_it() -> None:
    before = [getattr(owner, name) for owner, name in PATCHED]

    def fail() -> None:
        assert all(getattr(owner, name) != was for (owner, name), was in zip(PATCHED, before, strict=True))
        raise KernelCompileError

    with pytest.raises(KernelCompileError), shortcuts():
        fail()
    assert [getattr(owner, name) for owner, name in PATCHED] == before
