from ort_lite.plugins import plugins
from ort_lite.transform.transform import transform
from ort_lite_transforms.dead_nodes import remove_dead_nodes
from ort_lite_transforms.duplicate_initializers import merge_duplicate_initializers
from tests.text_graphs import check, model

SIGNATURE = "(float[2] x) => (float[2] z)"
BODY = "{ y = Add(x, a) z = Mul(y, b) }"


def merged(constants: str) -> bool:
    found = model(SIGNATURE, BODY, constants)
    transform(found, [merge_duplicate_initializers, remove_dead_nodes], "basic", rules=plugins.shape_rules())
    return len(found.graph.initializers) == 1


def test_equal_initializers_become_one() -> None:
    check(
        merge_duplicate_initializers,
        SIGNATURE,
        BODY,
        "{ y = Add(x, a) z = Mul(y, a) }",
        constants="<float[2] a = {1, 2}, float[2] b = {1, 2}>",
    )
    assert merged("<float[2] a = {1, 2}, float[2] b = {1, 2}>")


def test_others_stay_apart() -> None:
    assert not merged("<float[2] a = {1, 2}, float[2] b = {1, 3}>")
    assert not merged("<float[2] a = {1, 2}, float[1,2] b = {1, 2}>")


def test_zeros_of_different_sign_stay_apart() -> None:
    assert not merged("<float[2] a = {0, 0}, float[2] b = {-0.0, -0.0}>")


def test_one_that_differs_between_the_samples_stays_apart() -> None:
    numbers = list(range(100))
    other = [*numbers[:50], 7, *numbers[51:]]
    a, b = (", ".join(map(str, values)) for values in (numbers, other))
    constants = f"<int64[100] a = {{{a}}}, int64[100] b = {{{b}}}>"
    check(merge_duplicate_initializers, "(int64[100] x) => (int64[100] z)", BODY, constants=constants)


def test_an_overridable_initializer_stays_apart() -> None:
    check(
        merge_duplicate_initializers,
        "(float[2] x, float[2] b = {1, 2}) => (float[2] z)",
        BODY,
        constants="<float[2] a = {1, 2}>",
    )


def test_many_that_agree_in_the_samples_are_told_apart() -> None:
    """Each is read once, not compared with each other one."""
    count = 30
    rows = [[0, 0, 0, k % 10, *[0] * 60] for k in range(count)]
    constants = ", ".join(f"int64[64] w{k} = {{{', '.join(map(str, row))}}}" for k, row in enumerate(rows))
    names = ", ".join(f"w{k}" for k in range(count))
    found = model("(int64[64] x) => (int64[64] z)", f"{{ z = Max(x, {names}) }}", f"<{constants}>")
    transform(found, [merge_duplicate_initializers, remove_dead_nodes], "basic", rules=plugins.shape_rules())
    assert len(found.graph.initializers) == 10
