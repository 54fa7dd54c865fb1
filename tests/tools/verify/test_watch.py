"""session.run(verify="partition"): what is compared, what is said of it, and what the search for the bad node finds."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import InvalidArgument, RuntimeException, VerificationError
from ort_lite.provider import Capability
from ort_lite.tools.verify import Tolerance, Verification, VerificationReport
from tests.provider.numpy_provider import Box, NumpyProvider, OtherDevice
from tests.threads import run_together
from tests.tools.verify.providers import CHAIN, FEED, LOOP, Off, model, poisoned, shifted


def session(provider: Any, text: Any = CHAIN) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    return ort_lite.InferenceSession(text, options, providers=[provider])


def found(made: ort_lite.InferenceSession, feed: Any = FEED, verify: Any = "partition") -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        made.run(None, feed, verify=verify)
    return caught.value


@pytest.mark.parametrize("provider", [NumpyProvider, OtherDevice])
def test_a_right_provider_has_no_findings(provider: type[NumpyProvider]) -> None:
    made = session(provider())
    (y,) = made.run(["y"], FEED, verify="partition")
    np.testing.assert_array_equal(y, made.run(["y"], FEED)[0])
    report = made.verification
    assert report is not None and report.ok and report.first_nan is None
    (partition,) = report.partitions
    assert (partition.calls, partition.nodes, partition.skipped) == (1, 5, "")
    assert [tensor.name for tensor in partition.tensors] == ["y"]
    assert partition.tensors[0].greatest_ulps < 8


def test_one_wrong_operator_of_several_is_named_with_tensor_and_worst_element() -> None:
    error = found(session(Off(shifted("Tanh"))))
    assert (error.partition, error.provider) == ("OffExecutionProvider_0", "OffExecutionProvider")
    assert (error.tensor, error.node) == ("y", "Tanh_0")
    (tensor,) = error.report.wrong[0].tensors
    x = np.abs(FEED["x"])
    expected = (np.tanh(x) - np.float32(0.25)) ** 2 - np.tanh(x) ** 2
    assert tensor.index == error.index == (0, int(np.argmax(np.abs(expected))))
    assert tensor.greatest_difference == pytest.approx(np.abs(expected).max(), rel=1e-5)
    assert tensor.wrong == 3 and tensor.greatest_ulps > 1000
    culprit = error.report.wrong[0].culprit
    assert (culprit.operator, culprit.how, culprit.tensor.name) == ("Tanh", "prefix", "c")
    assert culprit.tensor.greatest_difference == pytest.approx(0.25)
    for part in ("OffExecutionProvider_0 (OffExecutionProvider)", "'y' float32[1, 3]", "first bad node Tanh 'Tanh_0'"):
        assert part in str(error)


@pytest.mark.parametrize(("operator", "node"), [("Abs", "Abs_0"), ("Neg", "Neg_0"), ("Mul", "Mul_0"), ("Sub", "Sub_0")])
def test_the_first_bad_node_is_found_wherever_it_stands(operator: str, node: str) -> None:
    assert found(session(Off(shifted(operator)))).node == node


def test_of_two_bad_operators_the_first_is_named() -> None:
    assert found(session(Off(shifted("Mul", "Abs")))).node == "Abs_0"


def test_every_partition_that_is_off_is_in_the_report() -> None:
    made = session(Off(shifted("Abs", "Tanh"), takes=lambda node: node.op_type in ("Abs", "Tanh"), group=_apart))
    error = found(made)
    assert [part.culprit.node for part in error.report.wrong] == ["Abs_0", "Tanh_0"]
    assert "; 1 more partitions are off; " in str(error)
    assert made.verification is error.report


def _apart(node: Any) -> Capability:
    return Capability([node], merge=False)


def test_a_nan_that_the_cpu_does_not_have_is_followed_to_where_it_appears() -> None:
    error = found(session(Off(poisoned("Mul"))))
    assert error.report.first_nan == ("OffExecutionProvider_0", "y")
    (tensor,) = error.report.wrong[0].tensors
    assert (tensor.nans, tensor.wrong, tensor.index, error.node) == (1, 1, (0, 2), "Mul_0")
    assert "1 NaN of its own" in str(error) and "the first NaN that the CPU does not have: 'y'" in str(error.report)
    assert json.loads(error.report.to_json())["first_nan"] == {"partition": "OffExecutionProvider_0", "tensor": "y"}


def test_a_nan_that_the_cpu_has_as_well_is_none() -> None:
    made = session(NumpyProvider())
    made.run(None, {"x": np.array([[np.nan, np.inf, 1]], np.float32)}, verify="partition")
    assert made.verification is not None and made.verification.ok


def test_tolerances_are_settable_for_all_and_by_type() -> None:
    made = session(Off(shifted("Sub")))
    made.run(None, FEED, verify=Verification(atol=0.3))
    made.run(None, FEED, verify=Verification(tolerances={"float32": Tolerance(atol=0.3)}))
    assert made.verification is not None and made.verification.partitions[0].tensors[0].greatest_difference > 0.2
    found(made, verify=Verification(atol=0.2))
    with pytest.raises(InvalidArgument, match="no element type is called 'float'"):
        made.run(None, FEED, verify=Verification(tolerances={"float": Tolerance()}))
    with pytest.raises(InvalidArgument, match="expected 'partition'"):
        made.run(None, FEED, verify="nodes")


def test_bodies_are_looked_into_each_time_they_run() -> None:
    made = session(Off(shifted("Tanh"), operators=("Tanh", "Neg")), LOOP)
    error = found(made, {"x": FEED["x"][0], "n": np.array(3)})
    (part,) = error.report.partitions
    assert (part.graph, part.calls, error.node) == ("Loop 'Loop_0'.body", 3, "Tanh_0")
    right = session(NumpyProvider(operators=("Tanh", "Neg", "Loop")), LOOP)
    right.run(None, {"x": FEED["x"][0], "n": np.array(2)}, verify="partition")
    assert right.verification is not None and right.verification.ok
    assert [(p.graph, p.calls) for p in right.verification.partitions] == [("Loop 'Loop_0'.body", 2), ("", 1)]


def test_a_body_that_a_provider_takes_whole_is_part_of_its_node() -> None:
    whole = Off(shifted("Loop"), group=lambda node: Capability([node], whole=node.op_type == "Loop"))
    error = found(session(whole, LOOP), {"x": FEED["x"][0], "n": np.array(2)})
    assert (len(error.report.partitions), error.node) == (1, "Loop_0")


def test_a_control_flow_node_that_is_off_is_told_from_its_body() -> None:
    error = found(session(Off(shifted("Loop")), LOOP), {"x": FEED["x"][0], "n": np.array(2)})
    assert error.node == "Loop_0"
    assert [part.ok for part in error.report.partitions] == [True, False]


def test_a_branch_that_is_not_taken_is_not_looked_into() -> None:
    text = """(float[3] x, bool c) => (float[3] y) { y = If (c) <
        then_branch = t () => (float[3] a) { a = Abs(x) }, else_branch = e () => (float[3] b) { b = Neg(x) }> }"""
    made = session(NumpyProvider(operators=("Abs", "Neg")), model(text))
    made.run(None, {"x": FEED["x"][0], "c": np.array(False)}, verify="partition")
    assert made.verification is not None
    assert [(p.graph[-11:], p.skipped) for p in made.verification.partitions] == [
        ("else_branch", ""),
        ("then_branch", "it did not run"),
    ]


class OffBox(OtherDevice):
    """Wrong in a memory of its own."""

    def compile(self, partitions: Any) -> Any:
        return [self._off(p, f) for p, f in zip(partitions, super().compile(partitions), strict=True)]

    def _off(self, partition: Any, function: Any) -> Any:
        bad = any(node.op_type == "Tanh" for node in partition.nodes)
        return lambda inputs: [Box(self.device, y.open(self.device) + bad) for y in function(inputs)]


def test_values_of_another_device_are_looked_at_on_the_cpu() -> None:
    error = found(session(OffBox()))
    assert (error.provider, error.node) == ("BoxExecutionProvider", "Tanh_0")


def test_bodies_that_read_from_outside_are_run_for_the_search() -> None:
    text = model("""(float[3] x, int64 n) => (float[3] y) <bool go = {1}, float[3] w = {1, 2, 3}> {
        a = Neg(x)
        b = Abs(x)
        y = Loop (n, go, b) <body = trip (int64 i, bool c, float[3] v) => (bool c_out, float[3] u) {
            c_out = Identity(c)
            s = Mul(v, w)
            u = Add(s, a)
        }>
    }""")
    error = found(session(Off(shifted("Loop")), text), {"x": FEED["x"][0], "n": np.array(2)})
    assert (error.node, error.report.wrong[0].culprit.how) == ("Loop_0", "prefix")
    assert [part.ok for part in error.report.partitions] == [True, False]


def test_random_numbers_are_not_compared() -> None:
    text = model("(float[3] x) => (float[3] y) { r = RandomNormalLike(x)  y = Add(x, r) }")
    made = session(Anything(), text)
    made.run(None, {"x": FEED["x"][0]}, verify="partition")
    assert made.verification is not None and made.verification.ok
    assert [part.skipped for part in made.verification.omissions] == [
        "RandomNormalLike 'RandomNormalLike_0' draws random numbers"
    ]


class Anything(NumpyProvider):
    def __init__(self) -> None:
        super().__init__(operators=("RandomNormalLike", "Add"))

    def compile(self, partitions: Any) -> Any:
        return [lambda inputs: [inputs[0] + 1] for _ in partitions]


def test_what_the_cpu_does_not_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = session(NumpyProvider())
    broken = "ort_lite.tools.verify.reference.prepare"
    monkeypatch.setattr(broken, lambda *given: (_ for _ in ()).throw(RuntimeException("no room")))
    made.run(None, FEED, verify="partition")
    assert made.verification is not None
    assert made.verification.partitions[0].skipped == "the CPU provider does not run it: RuntimeException: no room"


class Moody(Off):
    """Wrong in company alone: parts of its partitions are right."""

    def __init__(self) -> None:
        super().__init__(lambda node, y: y)

    def _evaluate(self, partition: Any, inputs: Any) -> list[Any]:
        return [y + (len(self.compiled) == 1) for y in super()._evaluate(partition, inputs)]


def test_a_partition_that_is_right_when_it_is_compiled_again_says_so() -> None:
    error = found(session(Moody()))
    assert error.node == ""
    assert "no node is bad by itself; compiled once more, the partition is right" in str(error)


class Whole(Off):
    """Compiles single nodes and the whole, nothing in between."""

    def compile(self, partitions: Any) -> Any:
        if any(1 < len(p.nodes) < 5 for p in partitions):
            raise ValueError("only all of it")
        return super().compile(partitions)


def test_where_prefixes_do_not_compile_each_node_is_run_by_itself() -> None:
    error = found(session(Whole(shifted("Neg"))))
    assert (error.node, error.report.wrong[0].culprit.how) == ("Neg_0", "alone")


def test_the_search_can_be_left_out() -> None:
    provider = Off(shifted("Neg"))
    error = found(session(provider), verify=Verification(bisect=False))
    assert (error.node, len(provider.compiled)) == ("", 1)


class Overwrites(Off):
    def _evaluate(self, partition: Any, inputs: Any) -> list[Any]:
        inputs[0][...] = 7
        return super()._evaluate(partition, inputs)


def test_a_provider_that_writes_to_its_inputs_says_so_or_fails() -> None:
    with pytest.raises(RuntimeException, match=r"failed: ValueError: assignment destination is read-only"):
        session(Overwrites(lambda node, y: y)).run(None, FEED, verify="partition")

    class Unseen(Overwrites):
        writes_no_input = True

    x = FEED["x"]
    error = found(session(Unseen(lambda node, y: y)), {"x": x.copy()})
    written, tensor = error.report.wrong[0].tensors
    assert written.name == "x" and "is an input, and was written to" in str(written)
    assert tensor.expected == pytest.approx((np.tanh(x) ** 2 - np.abs(x))[tensor.index], rel=1e-5)


def test_a_run_that_fails_after_a_finding_raises_the_finding() -> None:
    class Fails(NumpyProvider):
        name = "FailsExecutionProvider"

        def compile(self, partitions: Any) -> Any:
            return [_fail for _ in partitions]

    options = ort_lite.SessionOptions()
    first = Off(shifted("Abs"), operators=("Abs",))
    made = ort_lite.InferenceSession(CHAIN, options, providers=[first, Fails()])
    error = found(made)
    assert isinstance(error.__cause__, RuntimeException) and "out of luck" in error.report.failed
    alone = session(Fails())
    with pytest.raises(RuntimeException, match="out of luck"):
        alone.run(None, FEED, verify="partition")
    assert alone.verification is not None and alone.verification.partitions[0].skipped == "it did not run"


def _fail(inputs: Any) -> Any:
    raise ValueError("out of luck")


def test_threads_have_reports_of_their_own() -> None:
    made = session(Off(lambda node, y: y + (y.shape[0] == 2) if node.op_type == "Neg" else y))
    reports: dict[int, VerificationReport | None] = {}

    def work(k: int) -> None:
        rows = 1 + k % 2
        for _ in range(4):
            with suppress(VerificationError):
                made.run(None, {"x": np.full((rows, 3), k / 5, np.float32)}, verify="partition")
            made.run(None, {"x": np.ones((rows, 3), np.float32)})
        reports[k] = made.verification

    run_together(work, 6)
    assert {k: report.ok for k, report in reports.items() if report is not None} == {k: k % 2 == 0 for k in range(6)}
    assert made.verification is None


def test_overridden_initialisers_hooks_and_closing_work_as_in_other_runs() -> None:
    text = model("(float[3] x, float[3] w) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }")
    made = session(Off(shifted("Mul")), text)
    x = FEED["x"][0]
    assert found(made, {"x": x}).node == found(made, {"x": x, "w": x}).node == "Mul_0"
    made.close()
    with pytest.raises(RuntimeException, match="the session is closed"):
        made.run(None, {"x": x}, verify="partition")
