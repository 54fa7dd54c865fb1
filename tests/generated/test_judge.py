"""The judge: planted differences are reported, and what it explains is no fault."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ort_lite.dtypes import Array
from tests.generated import configurations, judge, oracles, saved
from tests.generated.judge import UNOPTIMIZED
from tests.generated.nodes import CONDITIONING
from tests.generated.noise import NoisySession
from tests.generated.verdict import DIFFERENT, EXPLAINED, INVALID, SAME, Verdict
from tests.generated.walk import Site, sites

DATA = Path(__file__).parents[1] / "data" / "generated"
Feeds = dict[str, Any]
X = np.array([[0.5, -1.25, 2], [3, 0.125, -0.75]], np.float32)
PLAIN = "(float[N,3] x) => (float[N,3] y) { a = Tanh(x)  b = Mul(a, x)  y = Add(b, a) }"
TIE = "(float[N,3] x, float[3] s) => (float[N,3] y) { a = Mul(x, s)  y = Round(a) }"


def model(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]> main {text}')


def planted(monkeypatch: pytest.MonkeyPatch, change: Callable[[Array], Any], level: str = "") -> None:
    """Change the first result of sessions: of those without optimizations ("unoptimized"), of the others, or of all ("both")."""
    original = oracles.session

    def session(*arguments: Any, **options: Any) -> Any:
        opened: Any = original(*arguments, **options)
        plain = len(arguments) == 1 and not options
        if level == "both" or (level == "" and plain) or (level == UNOPTIMIZED and not plain):
            run = opened.run
            opened.run = lambda names, feeds: [change(value) if not k else value for k, value in enumerate(run(names, feeds))]
        return opened

    monkeypatch.setattr(judge, "session", session)


def verdict(text: str, feeds: Mapping[str, Any], opset: int = 21) -> Verdict:
    return judge.judge(model(text, opset), feeds)


def oracles_of(found: Verdict) -> set[str]:
    return {one.oracle for one in found.differences if not one.explanation}


def test_oracles_agree() -> None:
    found = verdict(PLAIN, {"x": X})
    assert found.status == SAME
    assert set(found.oracles) == {UNOPTIMIZED, "onnxruntime", "float64"}


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y * np.float32(1.001),
        lambda y: np.where(y > 1, np.float32(np.nan), y),
        lambda y: y.astype(np.float64),
        lambda y: y[:1],
        lambda y: None,
        lambda y: [y],
    ],
    ids=["values", "NaN", "type", "shape", "nothing", "sequence"],
)
def test_a_planted_difference_is_reported(monkeypatch: pytest.MonkeyPatch, change: Callable[[Array], Any]) -> None:
    planted(monkeypatch, change)
    found = verdict(PLAIN, {"x": X})
    assert found.status == DIFFERENT
    assert UNOPTIMIZED in oracles_of(found)


def test_a_wrong_operator_differs_from_both_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong kernel, which sessions without optimizations run too."""
    planted(monkeypatch, lambda y: y + np.float32(1e-3), "both")
    found = verdict(PLAIN, {"x": X})
    assert {"float64", "onnxruntime", "onnxruntime, whole model"} <= oracles_of(found)
    assert UNOPTIMIZED not in oracles_of(found)


def test_two_runs_that_differ_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(range(9))
    planted(monkeypatch, lambda y: y + np.float32(1e-9) * next(runs))
    assert "second run" in oracles_of(verdict(PLAIN, {"x": X * 1e-9}))


def test_a_feed_that_is_written_to_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.copy()

    def write(y: Array) -> Array:
        x[0, 0] = 7
        return y

    planted(monkeypatch, write)
    assert "feeds" in oracles_of(verdict(PLAIN, {"x": x}))


def test_a_refused_model_fails_if_an_oracle_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise ValueError("not today")

    monkeypatch.setattr(judge, "session", refuse)
    found = verdict(PLAIN, {"x": X})
    assert found.status == DIFFERENT
    assert oracles_of(found) == {judge.SUBJECT}


def test_a_model_that_ort_lite_refuses_because_of_its_optimizations_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other oracle runs the model."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1:
            raise ValueError("not optimized")
        return oracles.session(*arguments, **options)

    monkeypatch.setattr(judge, "session", refuse)
    monkeypatch.setattr(judge, "ORACLES", {})
    assert oracles_of(verdict(PLAIN, {"x": X})) == {judge.SUBJECT}


def test_a_model_that_all_refuse_is_not_valid() -> None:
    found = verdict("(float[N,3] x) => (float[N,3] y) { y = Softmax<axis = 5>(x) }", {"x": X}, 11)
    assert found.status == INVALID
    assert "axis" in found.invalid


CANCELLING = "(float[N,3] x, float[1] c) => (float[N,3] y) { a = Add(x, c)  b = Sub(a, c)  y = Div(b, x) }"


def test_conditioning_explains_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """y is 1 in exact arithmetic, and what rounding x + 4096 leaves in float32."""
    feeds = {"x": X / 3, "c": np.array([4096], np.float32)}
    planted(monkeypatch, np.ones_like)
    found = verdict(CANCELLING, feeds)
    assert found.status == EXPLAINED
    assert {one.explanation for one in found.differences} == {CONDITIONING}


def test_conditioning_does_not_explain_more_than_rounding_does(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda y: np.full_like(y, 1.25))
    assert verdict(CANCELLING, {"x": X / 3, "c": np.array([4096], np.float32)}).status == DIFFERENT


def test_conditioning_explains_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.5 * 1 is a tie, and 2 * 1 is none."""
    feeds = {"x": X, "s": np.ones(3, np.float32)}
    planted(monkeypatch, lambda y: np.where(y == 0, np.where(X == 0.5, np.float32(1), y), y))
    assert verdict(TIE, feeds).status == EXPLAINED
    planted(monkeypatch, lambda y: np.where(X == 2, np.float32(3), y))
    assert verdict(TIE, feeds).status == DIFFERENT


def test_conditioning_reaches_into_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """(float[3] x, float[1] c, int64 n, bool go) => (float[3] y) {
        y = Loop(n, go, x) <body = trip (int64 i, bool k, float[3] v) => (bool k_out, float[3] w) {
            k_out = Identity(k)  a = Add(v, c)  w = Sub(a, c) }> }"""
    feeds = {"x": X[0] / 3, "c": np.array([4096], np.float32), "n": np.array(3), "go": np.array(True)}
    planted(monkeypatch, lambda y: y + np.float32(2**-12))
    assert verdict(text, feeds).status == EXPLAINED
    planted(monkeypatch, lambda y: y + np.float32(2**-6))
    assert verdict(text, feeds).status == DIFFERENT


def test_a_result_of_another_length_is_explained_by_trials_of_another_length(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "(float[3] x, float[3] s) => (int64[1,M] y) { a = Mul(x, s)  b = Round(a)  y = NonZero(b) }"
    feeds = {"x": np.array([0.5, 2, 3], np.float32), "s": np.ones(3, np.float32)}
    planted(monkeypatch, lambda y: np.array([[0, 1, 2]]))
    assert verdict(text, feeds).status == EXPLAINED
    feeds["x"] = np.array([0.25, 2, 3], np.float32)
    assert verdict(text, feeds).status == DIFFERENT


def test_random_numbers_are_compared_by_their_form() -> None:
    found = verdict("(float[N,3] x) => (float[N,3] y) { a = RandomNormalLike(x)  y = Exp(a) }", {"x": X})
    assert found.status == SAME


def test_other_configurations_agree() -> None:
    found = judge.judge(model(PLAIN), {"x": X}, thorough=True)
    assert found.status == SAME
    assert {"3 threads", "generic kernels", "other target", "saved and loaded", "accelerator"} <= set(found.oracles)


def test_a_configuration_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(contents: bytes, feeds: Feeds) -> list[Any]:
        raise ValueError("no")

    monkeypatch.setattr(configurations, "_saved", fail)
    assert oracles_of(judge.judge(model(PLAIN), {"x": X}, thorough=True)) == {"saved and loaded"}


def test_conditioning_does_not_explain_operators_without_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal elements, moved apart, are no longer equal; but the oracles are given equal ones."""
    planted(monkeypatch, lambda y: y[:2], "both")
    found = verdict("(float[4] x) => (float[N] y) { y = Unique(x) }", {"x": np.array([3, 1, 1, 2], np.float32)})
    assert "float64" in oracles_of(found)


def test_a_known_defect_explains_a_function_that_has_it() -> None:
    """onnxruntime saturates products, if int32 is what the node in the function reads."""
    text = """<ir_version: 10, opset_import: ["" : 18, "local" : 1]>
    main (int32[N,3] x) => (int32[N,1] y) { y = local.Product<k = 1>(x) }
    <domain: "local", opset_import: ["" : 18]>
    Product<k>(x) => (y) { axis = Constant<value_ints = [1]>() y = ReduceProd<keepdims: int = @k>(x, axis) }"""
    found = judge.judge(onnx.parser.parse_model(text), {"x": np.full((2, 3), 1 << 20, np.int32)})
    assert found.status == EXPLAINED
    assert {one.explanation for one in found.differences} == {"onnxruntime: ReduceProd: saturates products of integers"}


def test_trials_keep_scales_that_a_kernel_takes_as_constants() -> None:
    """The scales of DynamicQuantizeLSTM: other floats of the same node move."""
    folder = next(DATA.glob("3_threads_com_microsoft_dynamicquantizelstm*"))
    lstm, feeds = saved.load(folder)
    session = NoisySession(lstm)
    assert not np.array_equal(session.run(feeds, 0)[0], session.run(feeds, 1)[0])


def test_constants_and_outer_values_are_known_in_bodies() -> None:
    text = """(bool go, float[2] x) => (float[2] y) {
        y = If(go) <then_branch = a () => (float[2] p) <float[2] c = {1, 2}> { p = Add(x, c) },
                    else_branch = b () => (float[2] q) { d = Constant<value = float[2] {3, 4}>()  q = Mul(d, x) }> }"""
    x = np.zeros(2, np.float32)
    found = {site.operator: [site.operand(k) for k in range(2)] for site in sites(model(text), {"x": x})}
    np.testing.assert_array_equal(found["Add"], [x, [1, 2]])
    np.testing.assert_array_equal(found["Mul"], [[3, 4], x])


def test_conditioning_does_not_explain_a_lost_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    """float16 has fewer digits than a third, and all implementations round it alike."""
    planted(monkeypatch, lambda y: X / 3)
    found = verdict("(float[N,3] x) => (float[N,3] y) { a = Cast<to = 10>(x)  y = Cast<to = 1>(a) }", {"x": X / 3})
    assert UNOPTIMIZED in oracles_of(found)


def test_an_attribute_that_the_caller_of_a_function_gives_is_not_known() -> None:
    node = onnx.NodeProto(op_type="Elu")
    node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="a")
    assert Site(node, 1, {}).attribute("alpha", 1.0) == 1.0


def test_trials_keep_counts_and_what_they_are_copied_from() -> None:
    """A depth of 3 that moves is one of 2: the trial would have another shape, which explains any shape."""
    text = """(float[4] x, float[1] n) => (float[4,N] y, float[4] z) <float[2] v = {0.1, 0.3}> {
        s = Constant<value_ints = [0]>()  d = Squeeze(n, s)  y = OneHot(x, d, v)  z = Mul(x, d) }"""
    session = NoisySession(model(text))
    feeds = {"x": np.arange(4, dtype=np.float32), "n": np.array([3], np.float32)}
    still, moved = session.run(feeds, 0), session.run(feeds, 1)
    assert still[0].shape == moved[0].shape == (4, 3)
    assert not np.array_equal(still[1], moved[1])


def test_trials_move_the_factors_of_learned_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of products are rounded to float32 where features are integers, which do not move, too."""
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml": 3]> main (int64[1,3] x) => (float[1,1] y) {
        y = ai.onnx.ml.LinearRegressor<coefficients = [0.1, 0.3, -0.1], targets = 1>(x) }"""
    regressor = onnx.parser.parse_model(text)
    feeds = {"x": np.array([[4000, 1, 4003]], np.int64)}
    planted(monkeypatch, lambda y: y + np.float32(5e-5), "both")
    assert judge.judge(regressor, feeds).status == EXPLAINED
    planted(monkeypatch, lambda y: y + np.float32(2e-2), "both")
    assert judge.judge(regressor, feeds).status == DIFFERENT
