"""The switch for the shortcuts through Numba: off for a release that nobody has verified, and then kernels are the same."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import llvmlite
import numpy as np
import onnx
import onnx.parser
import pytest

from ort_lite import InferenceSession
from ort_lite.native import Spec, binding, cache, compilers, llvm, loader
from ort_lite.native.compiler import compile_object, write
from ort_lite.native.cpu import host, parse_target
from ort_lite.native.spec import key_of, symbol_of
from tests.native import kernels

ROOT = Path(__file__).parents[2]
verified = pytest.mark.skipif(
    bool(compilers.unknown_release()), reason="there are no shortcuts for the installed Numba to compare with"
)


@pytest.fixture
def unknown_release(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it, the installed releases are none that anybody has verified."""
    monkeypatch.setattr(compilers, "VERIFIED", {"llvmlite": "0.1", "numba": "0.1"})
    for each in (compilers.unknown_release, compilers.warn_of_unknown_release):
        each.cache_clear()
    yield
    for each in (compilers.unknown_release, compilers.warn_of_unknown_release):
        each.cache_clear()


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (("llvmlite-0.50.0.dist-info", "numba-0.68.1.dist-info"), ""),
        (("llvmlite-0.50.7.dist-info", "numba-0.68.0rc1.dist-info"), ""),
        (("llvmlite-0.50.0.dist-info", "numba-0.69.0.dist-info"), "numba 0.69.0"),
        (("llvmlite-0.51.0.dist-info", "numba-0.68.1.dist-info"), "llvmlite 0.51.0"),
        (("llvmlite-0.5.0.dist-info", "numba-0.68.1.dist-info"), "llvmlite 0.5.0"),
        (("llvmlite-0.50.0.dist-info", "numba"), "numba"),
    ],
)
def test_a_release_is_known_by_its_first_two_numbers(
    installed: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilers, "compilers", lambda folders: installed)
    compilers.unknown_release.cache_clear()
    try:
        assert compilers.unknown_release() == expected
    finally:
        compilers.unknown_release.cache_clear()


@pytest.mark.usefixtures("unknown_release")
def test_one_warning_tells_that_kernels_compile_more_slowly(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        compilers.warn_of_unknown_release()
    [record] = caplog.records
    known = "numba 0.1 and llvmlite 0.1"
    assert record.message.startswith(
        f"llvmlite {llvmlite.__version__} is installed: kernels compile more slowly than with {known};"
    )


@verified
def test_the_bindings_of_llvmlite_tell_the_same() -> None:
    for name in ("process_triple", "host_cpu_name", "host_cpu_features"):
        assert getattr(binding, name)() == getattr(llvm, name)()


@verified
def test_broken_text_is_an_error_of_the_same_class() -> None:
    for each in (binding, llvm):
        with pytest.raises(RuntimeError, match="expected"):
            each.Module("no module", host().triple, host().tuning, host().features)


@pytest.mark.usefixtures("unknown_release")
def test_objects_are_linked_by_llvmlites_engine() -> None:
    spec = Spec.plain(kernels.large, "i64(i64)")
    engine = compilers.llvm().Engine()
    engine.add([compile_object(spec, host(), "k")])
    expected = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loader.load([spec])[0])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.address("k"))(7) == expected(7)


@verified
@pytest.mark.slow
@pytest.mark.usefixtures("unknown_release")
def test_a_kernel_for_another_architecture_is_the_same() -> None:
    spec, target = Spec(kernels.gather, ("f32", "i64", "f32")), parse_target("neoverse-n1")
    plain = write(spec, target, "k").emit_object()
    compilers.VERIFIED.update(llvmlite="0.50", numba="0.68")
    compilers.unknown_release.cache_clear()
    assert write(spec, target, "k").emit_object() == plain


@verified
@pytest.mark.slow
@pytest.mark.usefixtures("unknown_release")
def test_the_kernels_of_a_model_are_the_same() -> None:
    """The cache needs no second key: an object of either way serves both."""
    model = ROOT / "examples" / "digits" / "digits_cnn.onnx"
    InferenceSession(model)
    specs = [spec for spec in loader._by_spec[host()] if spec.function is None or "ort_lite_cpu" in spec.function.__module__]
    different = []
    for spec in specs[:: len(specs) // 12 + 1]:  # other tests of this process loaded kernels, too
        key = key_of(spec, host())
        kept = cache.read(cache.directory(), key)
        if kept is not None and compile_object(spec, host(), symbol_of(key)) != kept:
            different.append(spec.name)
    assert different == []


CODE = """
import sys
from ort_lite.native import compilers
compilers.VERIFIED = {"llvmlite": "0.1", "numba": "0.1"}
sys.executable = ""  # kernels compile in this process
import llvmlite
import numpy as np
import ort_lite
x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
np.save(sys.argv[2], ort_lite.InferenceSession(sys.argv[1]).run(None, {"x": x})[0])
shortcuts = ("ort_lite.native.frontend", "ort_lite.native.writing", "ort_lite.native.llvm")
print([name for name in shortcuts if name in sys.modules])
"""
TEXT = """<ir_version: 10, opset_import: ["": 21]>
main (float[3, 4] x) => (float[3, 4] y) { e = Exp(x) y = Softmax(e) }"""


@pytest.mark.slow
def test_a_session_compiles_without_shortcuts(tmp_path: Path) -> None:
    model, result = tmp_path / "model.onnx", tmp_path / "result.npy"
    proto = onnx.parser.parse_model(TEXT)
    onnx.save(proto, model)
    environment = {**os.environ, "ORT_LITE_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CODE, str(model), str(result)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout == "[]\n"
    assert "kernels compile more slowly" in done.stderr
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(np.load(result), InferenceSession(proto).run(None, {"x": x})[0])
