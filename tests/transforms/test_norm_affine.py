from ort_lite.plugins import shape_rules
from ort_lite.transform.transform import transform
from ort_lite_transforms.norm_affine import fuse_norm_affine
from tests.text_graphs import check, model

CONSTANTS = """<float[3] s = {1, 2, 0.5}, float[3] t = {0.1, 0.2, 0.3}, float[3] m = {1, -1, 0}, float[3] v = {1, 4, 0.25},
  float[3,1,1] c = {2, -1, 3}, float[3] rows = {1, 2, 3}>"""
SIGNATURE = "(float[N,3,H,3] x) => (float[N,3,H,3] z)"


def test_scale_and_shift_are_taken() -> None:
    before = "{ a = BatchNormalization<epsilon=0.1>(x, s, t, m, v) b = Mul(a, c) z = Add(c, b) }"
    check(fuse_norm_affine, SIGNATURE, before, "{ z = BatchNormalization<epsilon=0.1>(x, s, t, m, v) }", constants=CONSTANTS)


def test_does_not_fire_on_a_constant_along_another_axis() -> None:
    before = "{ a = BatchNormalization(x, s, t, m, v) z = Mul(a, rows) }"
    check(fuse_norm_affine, SIGNATURE, before, constants=CONSTANTS, skip="rows is not one number for each channel")


def test_does_not_fire_on_a_scale_of_another_type() -> None:
    before = "{ a = BatchNormalization(x, s, t, m, v) z = Mul(a, c) }"
    constants = CONSTANTS.replace("float[3] s", "double[3] s").replace("float[3] t", "double[3] t")
    report = transform(model(SIGNATURE, before, constants), [fuse_norm_affine], "all", rules=shape_rules())
    assert report.changes == ()
