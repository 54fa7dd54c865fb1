import pytest

from ort_lite_transforms.attention import compose_attention
from ort_lite_transforms.transpose_pair import merge_transposes, transpose_without_reshapes
from tests.text_graphs import check

CONSTANTS = """<float half = {0.5}, float two = {2}, float zero = {0}, float[1,3,1,1] each = {1, 2, 3}, float low = {-1e30},
  float nothing = {-inf}, bool[2,5] seen = {1, 1, 0, 1, 1, 0, 1, 1, 1, 1}, int64[3] folded = {-1, 5, 4}, int64[4] apart = {2, 3, 4, 5},
  int64[4] ones = {0, 0, -1, 5}, float[1] none = {nan}>"""
SIGNATURE = "(float[2,3,2,4] q, float[2,3,5,4] k, float[2,3,5,6] v) => (float[2,3,2,6] z)"
MASKED = SIGNATURE.replace(" v)", " v, float[2,1,2,5] mask)")
WIDER = "(float[1,3,2,4] q, float[1,3,5,4] k, float[1,3,5,6] v, float[2,1,2,5] mask) => (float[2,3,2,6] z)"
TURNED = "t = Transpose<perm=[0,1,3,2]>(k) "
END = " p = Softmax<axis=-1>(s) z = MatMul(p, v) }"
GUARDED = " p = Softmax<axis=-1>(s) n = IsNaN(p) g = Where(n, zero, p) z = MatMul(g, v) }"


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        ("s = MatMul(q, t)", 1.0),
        ("a = MatMul(q, t) s = Mul(a, half)", 0.5),
        ("a = MatMul(q, t) s = Mul(half, a)", 0.5),
        ("a = MatMul(q, t) s = Div(a, two)", 0.5),
    ],
)
@pytest.mark.parametrize("end", [END, GUARDED])
def test_the_parts_become_one_node(scores: str, scale: float, end: str) -> None:
    after = f"{{ z = Attention<scale = {scale}>(q, k, v) }}"
    check(compose_attention, SIGNATURE, "{ " + TURNED + scores + end, after, constants=CONSTANTS)


@pytest.mark.parametrize("scores", ["a = MatMul(q, t) s = Add(a, m)", "a = MatMul(q, t) b = Mul(a, half) s = Add(m, b)"])
@pytest.mark.parametrize(("other", "end"), [("low", END), ("low", GUARDED), ("nothing", GUARDED)])
def test_a_mask_is_part_of_it(scores: str, other: str, end: str) -> None:
    before = "{ " + TURNED + f"m = Where(seen, zero, {other}) " + scores + end
    scale = 0.5 if "half" in scores else 1.0
    after = f"{{ m = Where(seen, zero, {other}) z = Attention<scale = {scale}>(q, k, v, m) }}"
    check(compose_attention, SIGNATURE, before, after, constants=CONSTANTS)


def test_keys_are_transposed_with_heads_and_rows() -> None:
    signature = SIGNATURE.replace("[2,3,5,4] k", "[2,5,3,4] k")
    before = "{ t = Transpose<perm=[0,2,3,1]>(k) s = MatMul(q, t)" + END
    after = "{ t = Transpose<perm=[0,2,1,3]>(k) z = Attention<scale = 1.0>(q, t, v) }"
    check([merge_transposes, compose_attention], signature, before, after, constants=CONSTANTS)


def test_keys_are_transposed_with_batch_and_heads_as_one_axis() -> None:
    before = "{ a = Reshape(k, folded) b = Transpose<perm=[0,2,1]>(a) t = Reshape(b, apart) s = MatMul(q, t)" + END
    after = "{ z = Attention<scale = 1.0>(q, k, v) }"
    check([transpose_without_reshapes, compose_attention], SIGNATURE, before, after, constants=CONSTANTS)


@pytest.mark.parametrize(
    ("signature", "before", "reason"),
    [
        (SIGNATURE.replace("float", "double"), TURNED + "s = MatMul(q, t)" + END, "float32 of rank 4"),
        (
            "(float[6,2,4] q, float[6,5,4] k, float[6,5,6] v) => (float[6,2,6] z)",
            "t = Transpose<perm=[0,2,1]>(k) s = MatMul(q, t)" + END,
            "float32 of rank 4",
        ),
        (SIGNATURE, TURNED + "s = MatMul(q, t) p = Softmax<axis=-2>(s) z = MatMul(p, v) }", "the last axis"),
        (SIGNATURE, TURNED + "a = MatMul(q, t) s = Mul(a, zero)" + END, "by no constant number"),
        (SIGNATURE, TURNED + "a = MatMul(q, t) s = Mul(a, each)" + END, "by no constant number"),
        (MASKED, TURNED + "a = MatMul(q, t) s = Add(a, mask)" + END, "infinite"),
        (SIGNATURE, TURNED + "m = Where(seen, zero, nothing) a = MatMul(q, t) s = Add(a, m)" + END, "infinite"),
        (WIDER, TURNED + "a = MatMul(q, t) s = Add(a, mask)" + GUARDED, "the shape of the scores"),
        (SIGNATURE, TURNED + "a = MatMul(q, t) s = Add(a, two)" + GUARDED, "a number for each key"),
        (SIGNATURE.replace("[2,3,5,4] k", "[2,3,4,5] k"), "s = MatMul(q, k)" + END, "no transpose"),
        (SIGNATURE.replace("[2,3,5,4] k", "[2,1,5,4] k"), TURNED + "s = MatMul(q, t)" + END, "the same batch"),
        (SIGNATURE.replace("z)", "z, float[2,3,2,5] p)"), TURNED + "s = MatMul(q, t)" + END, "p has other readers"),
    ],
)
def test_does_not_fire(signature: str, before: str, reason: str) -> None:
    check(compose_attention, signature, "{ " + before, constants=CONSTANTS, skip=reason)
