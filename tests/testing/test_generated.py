"""Generated models of the kit: the same each time, with names of their own, steered at what a provider takes."""

from itertools import islice

import numpy as np
import pytest

from ort_lite.errors import InvalidArgument
from ort_lite.plugins import plugins
from ort_lite.testing import GeneratedModels, Kit, check_provider
from ort_lite.testing.generated import KINDS, SPECIAL, Cases, GeneratedCase
from ort_lite.testing.kit import reference
from ort_lite.testing.sizes import resize_case
from ort_lite.testing.steering import LEAST
from ort_lite.transform import NHWC_DOMAIN, Rewriter, Skip, op, rule
from tests.testing.bad_provider import OPERATORS, BadProvider


@pytest.fixture(scope="module")
def kit() -> Kit:
    return Kit(BadProvider, OPERATORS, models=GeneratedModels(most=120))


def test_each_has_a_name_of_its_own_and_all_kinds_and_operators_are_there(kit: Kit) -> None:
    for kind in KINDS:
        found = kit.of_kind(kind)
        assert {case.kind for case in found} == {kind}
        assert len({case.name for case in found}) == len(found)
        assert {operator for case in found for operator in case.operators} >= set(OPERATORS)


def test_they_are_the_same_each_time(kit: Kit) -> None:
    first, second = kit.of_kind("graphs"), Kit(BadProvider, OPERATORS, models=GeneratedModels(most=120)).of_kind("graphs")
    assert not set(first) & set(second), "drawn again"
    assert [case.name for case in first] == [case.name for case in second]
    for one, other in zip(first, second, strict=True):
        assert one.model.SerializeToString() == other.model.SerializeToString()
        assert all(np.array_equal(one.feeds[0][name], array, equal_nan=True) for name, array in other.feeds[0].items())


def test_the_provider_takes_a_node_of_each(kit: Kit) -> None:
    assert all(kit.takes(case) for case in kit.generator_cases)


def test_of_many_operators_each_keeps_some() -> None:
    few = Kit(BadProvider, OPERATORS, models=GeneratedModels(most=20))
    assert len(few.generator_cases) <= 20 + len(OPERATORS) * sum(LEAST.values())
    assert {operator for case in few.of_kind("attributes") for operator in case.operators} == set(OPERATORS)


def test_a_name_says_shapes_attributes_and_constants() -> None:
    cases = Cases()
    names = [case.name for n in range(9) if (case := cases.alone("attributes", cases.usual("", "Gemm")[0], n)) is not None]
    assert any("const " in name for name in names) and all(name.startswith("Gemm(") and ", opset " in name for name in names)


def test_special_numbers_are_all_there() -> None:
    cases = Cases()
    found = [case for n in range(20) if (case := cases.alone("numbers", cases.usual("", "Floor")[0], n)) is not None]
    assert found
    for case in found:
        (array,) = case.feeds[0].values()
        assert np.isin(np.array(SPECIAL, np.float32), array).sum() == len(SPECIAL) - 1, "all but NaN, which equals nothing"
        assert np.isnan(array).any()


def test_one_session_serves_other_sizes_and_the_first_again(kit: Kit) -> None:
    case = kit.of_kind("sizes")[0]
    first, last = case.feeds[0], case.feeds[-1]
    assert [array.shape for array in first.values()] == [array.shape for array in last.values()]
    assert len({tuple(array.shape for array in feed.values()) for feed in case.feeds}) >= 3
    assert any(dim.dim_param for value in case.model.graph.input for dim in value.type.tensor_type.shape.dim)
    expected = kit.models.reference_outputs(case)
    assert expected is not None and len(expected) == len(case.feeds)


def test_sizes_that_shape_rules_refuse_are_left_out() -> None:
    """C of Gemm must broadcast to the product, even if beta is 0 and the CPU provider does not read it."""
    from onnx import numpy_helper, parser

    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 13]> g (float[4,6] x) => (y) { y = Gemm<beta = 0.0>(x, w, c) }'
    )
    constants = {"w": np.ones((6, 6), np.float32), "c": np.ones((4, 6), np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    case = GeneratedCase("gemm", "attributes", model, ({"x": np.ones((4, 6), np.float32)},), constants)
    assert resize_case(case, reference) is None


def test_one_model_alone() -> None:
    name = Kit(BadProvider, ["Neg"]).of_kind("attributes")[5].name
    report = check_provider(BadProvider, operators=["Neg"], case=name)
    assert report.passed and report.generated == 1 and list(report.findings) == ["attributes"]
    with pytest.raises(InvalidArgument, match="no generated model of which it takes a node is called 'nothing'"):
        check_provider(BadProvider, operators=["Neg"], case="nothing")


def test_patterns_of_fusions_are_models_that_run() -> None:
    models = GeneratedModels()
    found = [case for drawn in models.cases.of_patterns(plugins.fusions()) for case in islice(drawn, 6) if case is not None]
    assert len({case.name for case in found}) >= 50
    refused = [case for case in found if models.reference_outputs(case) is None]
    assert len(refused) < len(found) / 4, "most are drawn well"


def test_bodies_without_other_targets_are_empty_or_refused() -> None:
    cases = Cases()
    drawn = [cases.alone("attributes", target, number) for target in cases.usual("", "If") for number in range(6)]
    assert any(case is not None for case in drawn)


@rule(op("Add", op("Conv", domain=NHWC_DOMAIN), "z"), level="extended")
def fuse_sum(rewriter: Rewriter) -> Skip:
    return Skip("this is about its pattern")


@rule(op("Relu", op("FusedConv", domain="own")), level="extended")
def fuse_relu(rewriter: Rewriter) -> Skip:
    return Skip("this is about its pattern")


def test_what_fusions_make_is_drawn_as_what_they_match() -> None:
    several = Cases().of_patterns([fuse_sum, fuse_relu], ["Mul"])
    sums, relus = ([case for case in drawn if case is not None] for drawn in several)
    assert {case.operators for case in sums} == {("Conv", "Add"), ("Conv", "Add", "Mul")}
    assert {case.operators for case in relus} == {("Conv", "Add", "Relu"), ("Conv", "Add", "Relu", "Mul")}
    assert {len(case.model.graph.output) for case in relus} == {1, 3}, "in some models other readers have the inner results"
