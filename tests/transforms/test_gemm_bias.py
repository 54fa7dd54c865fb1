import pytest

from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.gemm_bias import fuse_gemm_bias, fuse_matmul_bias
from tests.text_graphs import check, model

CONSTANTS = """<float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, float[4] b = {1, 2, 3, 4}, float[1,4] c = {1, 2, 3, 4},
  float[1,1,4] deep = {1, 2, 3, 4}>"""
SIGNATURE = "(float[N,3] x) => (float[N,4] z)"


@pytest.mark.parametrize("sum", ["Add(y, b)", "Add(b, y)", "Add(y, c)"])
def test_a_product_of_matrices_and_a_bias_are_a_gemm(sum: str) -> None:
    bias = "c" if "c" in sum else "b"
    check(
        fuse_matmul_bias, SIGNATURE, f"{{ y = MatMul(x, w) z = {sum} }}", f"{{ z = Gemm(x, w, {bias}) }}", constants=CONSTANTS
    )


def test_a_bias_that_is_computed_will_do() -> None:
    before = "{ y = MatMul(x, w) z = Add(y, u) }"
    check(
        fuse_matmul_bias, "(float[N,3] x, float[N,4] u) => (float[N,4] z)", before, "{ z = Gemm(x, w, u) }", constants=CONSTANTS
    )


def test_an_add_behind_a_gemm_is_its_bias() -> None:
    check(
        fuse_gemm_bias,
        SIGNATURE,
        "{ y = Gemm<alpha=2.0>(x, w) z = Add(y, b) }",
        "{ z = Gemm<alpha=2.0, beta=1.0>(x, w, b) }",
        constants=CONSTANTS,
    )


def test_two_constant_biases_are_added() -> None:
    before = "{ y = Gemm<beta=0.5>(x, w, b) z = Add(c, y) }"
    check(fuse_gemm_bias, SIGNATURE, before, "{ z = Gemm<beta=1.0>(x, w, c) }", constants=CONSTANTS)


def test_does_not_fire_on_a_second_bias_that_is_computed() -> None:
    before = "{ y = Gemm(x, w, b) z = Add(y, u) }"
    check(fuse_gemm_bias, "(float[N,3] x, float[4] u) => (float[N,4] z)", before, constants=CONSTANTS)


@pytest.mark.parametrize("gemm", ["Gemm<alpha=2.0>(x, w)", "Gemm<beta=2.0>(x, w, b)"])
def test_integers_are_added_behind_the_gemm(gemm: str) -> None:
    """They overflow there in another way. onnxruntime has no Gemm of integers that `check` could run."""
    constants = "<int32[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}, int32[4] b = {1, 2, 3, 4}>"
    signature, text = "(int32[N,3] x) => (int32[N,4] z)", f"{{ y = {gemm} z = Add(y, b) }}"
    changed = model(signature, text, constants)
    report = transform(changed, [fuse_gemm_bias], "all", rules=plugins.shape_rules())
    assert [node.op_type for node in changed.graph] == ["Gemm", "Add"]
    assert "int32 is no floating-point type" in {skipped.reason for skipped in report.skipped}


@pytest.mark.parametrize(
    ("signature", "sum", "reason"),
    [
        ("(float[B,N,3] x) => (float[B,N,4] z)", "Add(y, b)", "not known to be matrices"),
        ("(float[1,3] x, float[M,4] u) => (float[M,4] z)", "Add(y, u)", "u is not known to fit"),
        ("(float[N,3] x) => (float[1,N,4] z)", "Add(y, deep)", "deep is not known to fit"),
        ("(int32[N,3] x, int32[3,4] w, int32[4] b) => (int32[N,4] z)", "Add(y, b)", "int32"),
        ("(float[N,3] x) => (float[N,4] y, float[N,4] z)", "Add(y, b)", "y has other readers"),
    ],
)
def test_a_sum_that_is_no_bias_stays(signature: str, sum: str, reason: str) -> None:
    constants = "" if "int32" in signature else CONSTANTS
    check(fuse_matmul_bias, signature, f"{{ y = MatMul(x, w) z = {sum} }}", constants=constants, skip=reason)
