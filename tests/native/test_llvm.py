"""What `ort_lite.native.llvm` declares is what llvmlite declares, and LLVM sees the machine that ort-lite sees without it."""

import ctypes
from typing import Any

import llvmlite.binding
import pytest

from ort_lite.native import llvm, object_linking, x86
from ort_lite.native.compilers import unknown_release
from ort_lite.native.cpu import _detect

pytestmark = pytest.mark.skipif(bool(unknown_release()), reason="the installed llvmlite is called through its own bindings")


def kind(declared: Any) -> Any:
    """All pointers to LLVM's objects count as one type, which ours are."""
    is_pointer = declared is not None and hasattr(declared, "contents")
    return ctypes.c_void_p if is_pointer and declared is not ctypes.POINTER(ctypes.c_char_p) else declared


@pytest.mark.parametrize("name", llvm.SIGNATURES)
def test_a_function_is_declared_as_llvmlite_declares_it(name: str) -> None:
    result, parameters = llvm.SIGNATURES[name]
    theirs = getattr(llvmlite.binding.ffi.lib, f"LLVMPY_{name}")
    if result is not None:  # llvmlite leaves out that a function returns nothing
        assert kind(theirs.restype) is result
    if name != "DisposeString":  # nor does it declare this one's parameter
        assert tuple(map(kind, theirs.argtypes or ())) == parameters


def test_the_machine_is_the_one_that_llvmlite_sees() -> None:
    assert llvm.process_triple() == llvmlite.binding.get_process_triple()
    assert llvm.host_cpu_name() == llvmlite.binding.get_host_cpu_name()
    assert llvm.host_cpu_features() == llvmlite.binding.get_host_cpu_features().flatten()


@pytest.mark.skipif(_detect().triple not in object_linking.MACHINES, reason="LLVM alone is asked here")
def test_the_triple_is_the_one_of_programs_here() -> None:
    theirs = llvm.process_triple().split("-")
    assert _detect().triple.split("-")[0] == theirs[0] and "linux" in theirs


@pytest.mark.skipif(_detect().triple != "x86_64-unknown-linux-gnu", reason="another processor")
def test_every_feature_is_what_llvm_sees() -> None:
    theirs = llvm.host_cpu_features().split(",")
    known = [feature for feature in theirs if feature[1:] in x86.FEATURES]
    assert len(known) == len(x86.FEATURES)
    assert ",".join(feature for feature in known if feature.startswith("+")) == x86.features(*x86.processor())


def test_a_failing_call_says_what_llvm_says() -> None:
    with pytest.raises(RuntimeError, match=r"LLVM: .*triple"):
        llvm._call_or_raise("GetTargetFromTriple", b"no-such-triple")
