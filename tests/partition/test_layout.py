"""Providers that prefer images channels-last: Transposes around their nodes, a second query, and back where it is not taken."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import CompileError
from ort_lite.graph import Node
from ort_lite.provider import CompiledPartition, Partition
from ort_lite.transform import NHWC_DOMAIN
from tests.load.models import interpret
from tests.provider.numpy_provider import NumpyProvider
from tests.provider.texts import proto

X = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
POOLS = """(float[1,2,4,4] x) => (float[1,2,1,1] y, float[1,2,3,3] b) {
    a = AveragePool<kernel_shape=[1,1]>(x)
    b = MaxPool<kernel_shape=[2,2]>(a)
    y = GlobalAveragePool(b)
}"""


class Images(NumpyProvider):
    """Runs pools channels-last alone, and what `plain` names as it is."""

    name = "ImagesExecutionProvider"

    def __init__(self, prefers: str, last: str, plain: str, fails: bool = False) -> None:
        super().__init__(self._fits, operators=("AveragePool", "MaxPool", "GlobalAveragePool", "Transpose"))
        self.prefers, self.last, self.plain, self.fails = prefers.split(), last.split(), plain.split(), fails

    def _fits(self, node: Node) -> bool:
        return node.op_type in (self.last if node.domain == NHWC_DOMAIN else self.plain)

    def preferred_layout(self, node: Node) -> str | None:
        return "NHWC" if node.op_type in self.prefers else None

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        if self.fails and any(node.domain == NHWC_DOMAIN for p in partitions for node in p.nodes):
            raise ValueError("no room")
        return [partial(_evaluate, p) for p in partitions]


def _evaluate(partition: Partition, inputs: Sequence[Any]) -> list[Any]:
    values: dict[Any, Any] = dict(zip(partition.inputs, inputs, strict=True))
    for node in partition.nodes:
        x, last = values[node.inputs[0]], node.domain == NHWC_DOMAIN
        if node.op_type == "Transpose":
            values[node.output] = np.ascontiguousarray(x.transpose(node.attr("perm")))
            continue
        image = x.transpose(0, 3, 1, 2) if last else x
        if node.op_type == "GlobalAveragePool":
            image = image.mean(axis=(2, 3), keepdims=True)
        elif node.op_type == "MaxPool":
            parts = [image[:, :, i : i + 3, j : j + 3] for i in (0, 1) for j in (0, 1)]
            image = np.maximum.reduce(parts)
        assert node.output.shape == (image.transpose(0, 2, 3, 1) if last else image).shape
        values[node.output] = np.ascontiguousarray(image.transpose(0, 2, 3, 1) if last else image)
    return [values[value] for value in partition.outputs]


def session(provider: Images, **options: Any) -> ort_lite.InferenceSession:
    model = proto(POOLS)
    made = ort_lite.InferenceSession(model, providers=[(provider, options), "CPUExecutionProvider"])
    for mine, right in zip(made.run(None, {"x": X}), interpret(model, X), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5)
    return made


def operators(made: ort_lite.InferenceSession) -> str:
    """Providers and nodes, channels-last ones with a star, in the order of the graph."""
    return ", ".join(
        f"{p.provider.removesuffix('ExecutionProvider')} {p.node.op_type}{'*' if p.node.domain == NHWC_DOMAIN else ''}"
        for p in made.explain().assignment.placements.values()
    )


ALL = "AveragePool MaxPool GlobalAveragePool"


def test_nodes_come_channels_last_between_transposes_and_neighbours_need_none() -> None:
    made = session(Images(ALL, ALL, ALL))
    assert (
        operators(made)
        == "CPU Transpose, Images AveragePool*, Images MaxPool*, Images GlobalAveragePool*, CPU Transpose, CPU Transpose"
    )
    inserted = [p.inserted for p in made.explain().assignment.placements.values() if p.node.op_type == "Transpose"]
    assert set(inserted) == {"layout, for ImagesExecutionProvider, which prefers NHWC"}
    assert [arg.name for arg in made.get_outputs()] == ["y", "b"]


def test_a_node_that_is_not_taken_so_is_put_back() -> None:
    made = session(Images(ALL, "AveragePool GlobalAveragePool", ALL))
    taken = operators(made).replace("CPU Transpose, ", "").removesuffix(", CPU Transpose")
    assert taken == "Images AveragePool*, Images MaxPool, Images GlobalAveragePool*"
    assert made.explain().assignment.remarks == ("MaxPool 'MaxPool_0' is not taken channels-last: it is as it was",)


def test_where_none_is_taken_so_the_graph_is_as_it_was() -> None:
    assert operators(session(Images(ALL, "", ALL))) == "Images AveragePool, Images MaxPool, Images GlobalAveragePool"


def test_nodes_that_a_provider_does_not_prefer_or_take_stay() -> None:
    assert operators(session(Images("", ALL, ALL))) == "Images AveragePool, Images MaxPool, Images GlobalAveragePool"
    assert (
        operators(session(Images(ALL, ALL, "MaxPool")))
        == "CPU AveragePool, CPU Transpose, Images MaxPool*, CPU Transpose, CPU GlobalAveragePool"
    )


def test_what_cannot_be_compiled_so_goes_to_others_as_it_was() -> None:
    made = session(Images(ALL, ALL, ALL, fails=True))
    assert operators(made) == "CPU AveragePool, CPU MaxPool, CPU GlobalAveragePool"
    with pytest.raises(CompileError, match="no room"):
        session(Images(ALL, ALL, ALL, fails=True), on_compile_error="raise")


def test_a_run_that_fails_so_is_finished_by_others() -> None:
    class Faulty(Images):
        def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
            return [lambda inputs: [1 // 0] for _ in partitions]

    made = session(Faulty(ALL, ALL, ALL), on_run_error="next")
    assert "went to the next provider" in str(made.explain())


def test_what_moves_between_two_layouts_computes_the_same() -> None:
    text = """(float[1,2,4,4] x) => (float[1,4,3,3] y) <float[2,1,1] k = {1, -2}, float s = {3}> {
        a = AveragePool<kernel_shape=[1,1]>(x)
        b = Add(k, a)
        c = Sigmoid(b)
        d = Mul(b, c)
        e = Mul(d, s)
        f = Concat<axis=1>(e, b)
        y = MaxPool<kernel_shape=[2,2]>(f)
    }"""
    model = proto(text)
    made = ort_lite.InferenceSession(model, providers=[Images(ALL, ALL, ALL), "CPUExecutionProvider"])
    assert (
        operators(made)
        == "CPU Transpose, Images AveragePool*, CPU Add, CPU Sigmoid, CPU Mul, CPU Mul, CPU Concat, Images MaxPool*, CPU Transpose"
    )
    (expected,) = ort_lite.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_allclose(made.run(None, {"x": X})[0], expected, rtol=1e-6)


RESIDUAL = """(float[1,3,8,8] x, float[4,3,3,3] u, float[4,4,3,3] v, float[4,8,1,1] q,
    float[4] s, float[4] o, float[4] m, float[4] n, float[5,4] w, float[5] k) => (float[1,5] y) {
    a = Conv<pads=[1,1,1,1]>(x, u)
    b = BatchNormalization(a, s, o, m, n)
    c = Relu(b)
    d = Conv<pads=[1,1,1,1]>(c, v)
    e = Add(d, a)
    f = MaxPool<kernel_shape=[2,2], strides=[2,2]>(e)
    g = BatchNormalization(f, s, o, m, n)
    h = AveragePool<kernel_shape=[2,2]>(g)
    i = Concat<axis=1>(h, h)
    j = Conv(i, q)
    p = GlobalAveragePool(j)
    r = Flatten(p)
    y = Gemm<transB=1>(r, w, k)
}"""


class Everything(NumpyProvider):
    """All of a convolutional network, images channels-last; it is planned for alone."""

    IMAGES = ("AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "MaxPool")

    def __init__(self) -> None:
        super().__init__(self._fits, operators=(*self.IMAGES, "Add", "Concat", "Flatten", "Gemm", "Relu"))

    def _fits(self, node: Node) -> bool:
        return node.op_type not in self.IMAGES or node.domain in ("", NHWC_DOMAIN)

    def preferred_layout(self, node: Node) -> str | None:
        return "NHWC" if node.op_type in self.IMAGES else None


def test_a_network_has_transposes_at_its_borders_alone() -> None:
    places = list(ort_lite.plan(proto(RESIDUAL), [Everything(), "CPUExecutionProvider"]).assignment.placements.values())
    operators = [f"{p.node.op_type}{'*' if p.node.domain == NHWC_DOMAIN else ''}" for p in places]
    assert " ".join(operators) == (
        "Transpose Conv* BatchNormalization* Relu Conv* Add MaxPool* BatchNormalization* AveragePool* Concat "
        "Conv* GlobalAveragePool* Transpose Flatten Gemm"
    )
    assert len({p.partition for p in places if p.node.domain == NHWC_DOMAIN}) == 1
