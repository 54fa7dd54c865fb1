import pytest

from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.gather_first import gather_before_computing
from tests.text_graphs import check, model

CONSTANTS = """<int8[4,2] q = {1, 2, 3, 4, 5, 6, 7, 8}, float scale = {0.5}, float[4,1] rows = {1, 2, 3, 4},
  float[2] columns = {1, 2}>"""
SIGNATURE = "(int64[N] i) => (float[N,2] z)"


def test_quantised_weights_are_gathered_before_they_are_converted() -> None:
    before = "{ a = Cast<to=1>(q) b = Mul(a, scale) z = Gather(b, i) }"
    after = "{ a = Gather(q, i) b = Cast<to=1>(a) z = Mul(b, scale) }"
    check(gather_before_computing, SIGNATURE, before, after, constants=CONSTANTS)


def test_scales_of_rows_are_gathered_too() -> None:
    before = "{ a = Cast<to=1>(q) b = Mul(rows, a) z = Gather<axis=0>(b, i) }"
    after = "{ s = Gather<axis=0>(rows, i) a = Gather<axis=0>(q, i) b = Cast<to=1>(a) z = Mul(s, b) }"
    check(gather_before_computing, SIGNATURE, before, after, constants=CONSTANTS)


def test_does_not_fire_on_data_of_a_type_that_gather_does_not_take() -> None:
    """onnxruntime has no kernel that `check` could run."""
    constants = "<float8e4m3fn[4,2] q = {1, 2, 3, 4, 5, 6, 7, 8}, float scale = {0.5}>"
    changed = model(SIGNATURE, "{ a = DequantizeLinear(q, scale) z = Gather(a, i) }", constants)
    report = transform(changed, [gather_before_computing], "all", rules=plugins.shape_rules())
    assert [node.op_type for node in changed.graph] == ["DequantizeLinear", "Gather"]
    assert any("does not take float8_e4m3fn" in skipped.reason for skipped in report.skipped)


@pytest.mark.parametrize(
    ("signature", "before", "reason"),
    [
        (SIGNATURE, "{ a = Cast<to=1>(q) b = Mul(a, columns) z = Gather(b, i) }", "neither one element nor a row"),
        ("(int64[N] i) => (float[4,N] z)", "{ a = Cast<to=1>(q) z = Gather<axis=1>(a, i) }", "not its rows are gathered"),
        (f"(float[4,2] x, {SIGNATURE[1:]}", "{ b = Mul(x, scale) z = Gather(b, i) }", "does not compute on a constant"),
    ],
    ids=["a constant along another axis", "another axis", "data that is fed"],
)
def test_does_not_fire(signature: str, before: str, reason: str) -> None:
    check(gather_before_computing, signature, before, constants=CONSTANTS, skip=reason)
