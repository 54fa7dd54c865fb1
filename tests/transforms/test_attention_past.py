import pytest

from ort_lite_transforms.attention import compose_attention
from ort_lite_transforms.attention_past import append_past
from tests.text_graphs import check

CONSTANTS = "<float half = {0.5}, float two = {2}, float nothing = {0}, float[1,3,1,1] each = {1, 2, 3}>"
NEW = "float[2,3,S,4] q, float[2,3,R,4] k, float[2,3,R,6] v"
PASTS = "float[2,3,P,4] pk, float[2,3,P,6] pv"
PRESENTS = "float[2,3,A,4] nk, float[2,3,A,6] nv"
SIGNATURE = f"({NEW}, {PASTS}) => (float[2,3,S,6] y, {PRESENTS})"
JOINED = "nk = Concat<axis=2>(pk, k) nv = Concat<axis=-2>(pv, v) "


def test_the_pasts_become_inputs_and_the_presents_outputs() -> None:
    before = "{ " + JOINED + "y = Attention<scale = 0.5>(q, nk, nv) }"
    after = "{ y, nk, nv = Attention<scale = 0.5>(q, k, v, , pk, pv) }"
    check(append_past, SIGNATURE, before, after, constants=CONSTANTS, opset=23)


@pytest.mark.parametrize("scaled", ["c = Mul(nk, half)", "c = Mul(half, nk)"])
def test_a_factor_of_the_keys_becomes_part_of_the_scale(scaled: str) -> None:
    before = "{ " + JOINED + scaled + " y = Attention<scale = 0.5>(q, c, nv) }"
    after = "{ y, nk, nv = Attention<scale = 0.25>(q, k, v, , pk, pv) }"
    check(append_past, SIGNATURE, before, after, constants=CONSTANTS, opset=23)


def test_attention_that_was_written_out() -> None:
    before = "{ " + JOINED + "t = Transpose<perm=[0,1,3,2]>(nk) s = MatMul(q, t) p = Softmax<axis=-1>(s) y = MatMul(p, nv) }"
    after = "{ y, nk, nv = Attention<scale = 1.0>(q, k, v, , pk, pv) }"
    check([compose_attention, append_past], SIGNATURE, before, after, constants=CONSTANTS)


def test_a_mask_stays() -> None:
    signature = f"({NEW}, float[S,7] mask, {PASTS}) => (float[2,3,S,6] y, {PRESENTS})"
    signature = signature.replace("[2,3,R", "[2,3,3").replace("[2,3,P", "[2,3,4")
    before = "{ " + JOINED + "y = Attention<scale = 0.5>(q, nk, nv, mask) }"
    after = "{ y, nk, nv = Attention<scale = 0.5>(q, k, v, mask, pk, pv) }"
    check(append_past, signature, before, after, constants=CONSTANTS, opset=23)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (JOINED + "y = Attention<is_causal = 1>(q, nk, nv)", "counts keys by their positions"),
        (JOINED + "j = Neg(nk) y = Attention(q, j, nv)", "no past with new rows"),
        (JOINED + "c = Mul(nk, half) y = Attention(q, c, nv)", "no scale of its own"),
        (JOINED + "c = Mul(nk, nothing) y = Attention<scale = 0.5>(q, c, nv)", "no scale of its own"),
        (JOINED + "c = Mul(nk, each) y = Attention<scale = 0.5>(q, c, nv)", "no past with new rows"),
        (
            "i = Identity(pk) nk = Concat<axis=2>(i, k) nv = Concat<axis=2>(pv, v) y = Attention(q, nk, nv)",
            "begins with no input",
        ),
        ("a = Concat<axis=2>(pk, k) nv = Concat<axis=2>(pv, v) nk = Neg(a) y = Attention(q, a, nv)", "has other readers"),
        ("a = Concat<axis=2>(pk, k) nk = Neg(pk) nv = Concat<axis=2>(pv, v) y = Attention(q, a, nv)", "is no output"),
    ],
)
def test_does_not_fire(body: str, reason: str) -> None:
    check(append_past, SIGNATURE, "{ " + body + " }", constants=CONSTANTS, skip=reason, opset=23)


def test_rows_of_another_axis_stay() -> None:
    signature = "(float[2,3,5,4] q, float[2,2,7,4] k, float[2,3,4,6] v, float[2,1,7,4] pk, float[2,3,3,6] pv)"
    before = "{ nk = Concat<axis=1>(pk, k) nv = Concat<axis=2>(pv, v) y = Attention(q, nk, nv) }"
    outputs = " => (float[2,3,5,6] y, float[2,3,7,4] nk, float[2,3,7,6] nv)"
    check(append_past, signature + outputs, before, skip="not along the rows", opset=23)


def test_pasts_of_different_lengths_stay() -> None:
    signature = "(float[2,3,5,4] q, float[2,3,3,4] k, float[2,3,4,6] v, float[2,3,4,4] pk, float[2,3,3,6] pv)"
    outputs = " => (float[2,3,5,6] y, float[2,3,7,4] nk, float[2,3,7,6] nv)"
    check(append_past, signature + outputs, "{ " + JOINED + "y = Attention(q, nk, nv) }", skip="the same rows", opset=23)
