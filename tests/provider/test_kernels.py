"""A provider out of kernels: what it claims, where operands are, and who shares memory."""

from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pytest

import ort_lite
from ort_lite.errors import ProviderError, RuntimeException
from ort_lite.graph import Node
from ort_lite.provider import DataTransfer, Device
from ort_lite.provider.kernels import KernelProvider, KernelRegistration, KernelRegistry
from ort_lite.transform import NHWC_DOMAIN
from tests.provider.numpy_provider import Box, BoxTransfer, CpuStandIn
from tests.provider.texts import owners, plain, proto

X = np.array([1, -2, 3], np.float32)
FLOAT = {"float32"}


def provider(kernels: KernelRegistry) -> type[KernelProvider]:
    return type("Made", (KernelProvider,), {"name": "MadeExecutionProvider", "kernels": kernels})


def session(kernels: KernelRegistry, text: str, opset: int = 17, cls: Any = provider) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text, opset), plain(), providers=[cls(kernels), CpuStandIn()])


def why_not(made: ort_lite.InferenceSession, node: str) -> str:
    return str(made.explain().verdicts()[node]["MadeExecutionProvider"])


def test_kernels_of_plain_functions_and_of_attributes_run() -> None:
    kernels = KernelRegistry()
    kernels.add("Abs", np.abs, types=FLOAT)

    @kernels.kernel("Elu", since=6, types=FLOAT)
    def elu(node: Node) -> Any:
        alpha = np.float32(node.attr("alpha", 1.0))
        return lambda x: np.where(x < 0, alpha * np.expm1(x), x)

    made = session(kernels, "(float[3] x) => (float[3] y) { a = Elu<alpha=2.0>(x)  b = Neg(a)  y = Abs(b) }")
    assert owners(made) == "Made CPU Made"
    np.testing.assert_allclose(made.run(None, {"x": X})[0], np.abs(np.where(X < 0, 2 * np.expm1(X), X)), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "opset", "why"),
    [
        ("(float[3] x) => (float[3] y) { y = Neg(x) }", 17, "declined operator: no kernel for ai.onnx.Neg"),
        ("(float[3] x) => (float[3] y) { y = Tanh(x) }", 6, "declined opset: Tanh of opset 6, takes 13 and newer"),
        ("(float[3] x) => (float[3] y) { y = Abs(x) }", 17, "declined opset: Abs of opset 17, takes 6 to 12"),
        ("(double[3] x) => (double[3] y) { y = Tanh(x) }", 17, "declined type: 'x' is float64, takes float32"),
        ("(float[3] x, float[3] z) => (float[3] y) { y = Add(x, z) }", 17, "declined type: 'z' is float32, takes float64"),
        ("(float[3] x) => (float[3] y) { y = Relu(x) }", 17, "declined type: 'y' is float32, takes float64"),
    ],
)
def test_what_does_not_fit_a_registration_is_declined_with_the_reason(text: str, opset: int, why: str) -> None:
    kernels = KernelRegistry()
    kernels.add("Tanh", np.tanh, since=13, types=FLOAT)
    kernels.add("Abs", np.abs, since=6, until=12)
    kernels.add("Add", np.add, types=FLOAT, inputs=(None, {"float64"}))
    kernels.add("Relu", np.abs, types=FLOAT, outputs=({"float64"},))
    assert why in why_not(session(kernels, text, opset), f"{text.split('y = ')[1].split('(')[0]}_0")


def test_of_several_kernels_the_first_that_fits_counts() -> None:
    kernels = KernelRegistry()
    kernels.add("Tanh", lambda x: x + 1, types={"float64"})
    kernels.add("Tanh", np.tanh, types=FLOAT)
    kernels.add("Tanh", lambda x: x + 2, types=FLOAT)
    made = session(kernels, "(float[3] x) => (float[3] y) { y = Tanh(x) }")
    np.testing.assert_array_equal(made.run(None, {"x": X})[0], np.tanh(X))


@pytest.mark.parametrize("method", [KernelRegistry.add, KernelRegistry.kernel])
def test_the_keywords_are_the_fields_of_a_registration(method: Any) -> None:
    keywords = [name for name, parameter in signature(method).parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    assert keywords == [name for name in KernelRegistration.__match_args__ if name not in ("op_type", "make")]


def test_every_keyword_reaches_the_registration() -> None:
    kernels, node = KernelRegistry(), Node("Op", [], [], domain="my", version=3)
    more: dict[str, Any] = {
        "domain": "my",
        "since": 2,
        "until": 4,
        "types": {"int8"},
        "inputs": ({"int16"},),
        "outputs": ({"bool"},),
    }
    more |= {"host_inputs": (1,), "host_outputs": (2,), "aliases": {3: 4}, "inplace": {5: 6}, "declines": lambda node: None}
    kernels.add("Op", np.abs, **more)
    found = kernels.find(node)
    assert isinstance(found, KernelRegistration)
    assert {name: getattr(found, name) for name in more} == more
    assert found.make(node) is np.abs


# Memory


class Counted:
    """Kernels that note whether they were given memory to write to."""

    def __init__(self) -> None:
        self.out: list[bool] = []
        self.kernels = KernelRegistry()
        self.kernels.add("Neg", self._neg, inplace={0: 0})
        self.kernels.add("Add", self._add, inplace={0: 0})
        self.kernels.add("Identity", lambda x: x, aliases={0: 0})
        self.kernels.add("Abs", np.abs)

    def _neg(self, x: Any, out: Any = None) -> Any:
        self.out.append(out is not None)
        return np.negative(x, out=out)

    def _add(self, a: Any, b: Any, out: Any = None) -> Any:
        self.out.append(out is not None)
        return np.add(a, b, out=out)


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("(float[3] x) => (float[3] y) { a = Abs(x)  y = Neg(a) }", [True]),
        ("(float[3] x) => (float[3] y) { y = Neg(x) }", [False]),
        ("(float[3] x) => (float[3] y, float[3] a) { a = Abs(x)  y = Neg(a) }", [False]),
        ("(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Add(b, a) }", [False, True]),
        ("(float[3] x) => (float[3] y) { a = Abs(x)  y = Add(a, a) }", [False]),
        ("(float[3] x) => (float[3] y) { a = Abs(x)  i = Identity(a)  b = Neg(a)  y = Add(b, i) }", [False, True]),
        ("(float[3] x) => (float[3] y) { a = Abs(x)  i = Identity(a)  y = Neg(i) }", [True]),
        ("(float[3] x) => (float[3] y) { i = Identity(x)  y = Neg(i) }", [False]),
        ("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Add(w, x) }", [False]),
        ("(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Neg(b) }", [True, True]),
        ("(float[1] s, float[3] x) => (float[3] y) { a = Abs(s)  y = Add(a, x) }", [False]),
    ],
    ids=[
        "own",
        "input",
        "output",
        "read later",
        "read twice",
        "alias read later",
        "alias",
        "input's alias",
        "constant",
        "chain",
        "shape",
    ],
)
def test_a_kernel_writes_to_an_input_that_nobody_reads_any_more(text: str, out: list[bool]) -> None:
    counted, feed = Counted(), {"x": X.copy(), "s": X[:1].copy()}
    made = session(counted.kernels, text)
    feed = {arg.name: feed[arg.name] for arg in made.get_inputs()}
    expected = session(KernelRegistry(), text).run(None, feed)
    for _ in range(2):
        for mine, right in zip(made.run(None, feed), expected, strict=True):
            np.testing.assert_array_equal(mine, right)
    assert counted.out == out * 2
    np.testing.assert_array_equal(feed["x"], X) if "x" in feed else None


def test_a_kernel_that_writes_to_an_input_gets_an_array_where_numpy_gave_a_scalar() -> None:
    counted = Counted()
    (y,) = session(counted.kernels, "(float x) => (float y) { a = Abs(x)  y = Neg(a) }").run(None, {"x": np.float32(-2)})
    assert (y, counted.out) == (-2, [True])


def test_an_output_that_is_an_alias_is_the_callers_own() -> None:
    text = "(float[3] x) => (float[3] y, float[3] z) { y = Identity(x)  a = Abs(x)  b = Identity(a)  z = Neg(a) }"
    made = session(Counted().kernels, text)
    y, z = made.run(None, {"x": X})
    assert not np.shares_memory(y, X)
    assert not np.shares_memory(y, z)


def test_views_and_scalars_become_arrays_that_others_can_read() -> None:
    kernels = KernelRegistry()
    kernels.add("Transpose", np.transpose)
    kernels.add("Neg", np.negative)
    made = session(kernels, "(float[2,3] x, float s) => (float[3,2] y, float z) { n = Neg(x)  y = Transpose(n)  z = Neg(s) }")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, z = made.run(None, {"x": x, "s": np.array(2, np.float32)})
    np.testing.assert_array_equal(y, -x.T)
    assert y.flags.c_contiguous
    assert isinstance(z, np.ndarray)
    assert z == -2


# Devices


class BoxedProvider(KernelProvider):
    name: ClassVar[str] = "MadeExecutionProvider"
    device = Device("box")
    kernels = KernelRegistry()

    def data_transfer(self) -> DataTransfer:
        return BoxTransfer(self.device)


def test_operands_that_a_kernel_wants_on_the_host_come_there() -> None:
    kernels = KernelRegistry()
    box = BoxedProvider.device

    def reshape(x: Box, shape: Any) -> Box:
        assert isinstance(shape, np.ndarray)
        return Box(box, x.open(box).reshape(shape))

    kernels.add("Reshape", reshape, host_inputs=(1,), inputs=(None, {"int64"}))
    kernels.add("Shape", lambda x: np.array(x.open(box).shape), host_outputs=(0,))
    text = "(float[2,3] x, float[6] z) => (float[6] y) { s = Shape(z)  y = Reshape(x, s) }"
    made = session(kernels, text, cls=lambda k: type("B", (BoxedProvider,), {"kernels": k}))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(made.run(None, {"x": x, "z": x.reshape(6)})[0], x.reshape(6))
    assert {p.provider for p in made.explain().assignment.placements.values()} == {"MadeExecutionProvider"}


def test_a_kernel_that_returns_too_little_is_named() -> None:
    kernels = KernelRegistry()
    kernels.add("TopK", lambda x, k: x)
    made = session(kernels, "(float[3] x, int64[1] k) => (float[K] y, int64[K] i) { y, i = TopK(x, k) }")
    with pytest.raises(ProviderError, match="TopK 'TopK_0': the kernel returned 1 of 2 outputs"):
        made.run(None, {"x": X, "k": np.array([1])})


def test_a_kernel_that_fails_names_the_partition() -> None:
    kernels = KernelRegistry()
    kernels.add("Abs", lambda x: 1 // 0)
    with pytest.raises(RuntimeException, match=r"MadeExecutionProvider_0 .*ZeroDivisionError"):
        session(kernels, "(float[3] x) => (float[3] y) { y = Abs(x) }").run(None, {"x": X})


def test_its_chains_say_how_many_kernels_they_run() -> None:
    made = session(Counted().kernels, "(float[3] x) => (float[3] y) { a = Abs(x)  y = Neg(a) }")
    assert made.explain().facts == {"MadeExecutionProvider_0": {"kernels": 2}}


def beside_the_cpu(kernels: KernelRegistry, text: str) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(proto(text), providers=[provider(kernels), "CPUExecutionProvider"])


def test_a_kernel_declines_nodes_for_other_reasons_than_types() -> None:
    kernels = KernelRegistry()
    kernels.add("LeakyRelu", np.abs, declines=lambda node: None if node.attr("alpha", 0.01) < 1 else "alpha is 1 or more")
    made = beside_the_cpu(
        kernels, "(float[3] x) => (float[3] y) { a = LeakyRelu<alpha = 0.5>(x)  y = LeakyRelu<alpha = 2.0>(a) }"
    )
    assert why_not(made, "LeakyRelu_0").startswith("taken")
    assert why_not(made, "LeakyRelu_1") == "declined form: alpha is 1 or more"


def test_an_operator_that_is_there_channels_last_alone_says_what_is_missing() -> None:
    kernels = KernelRegistry()
    kernels.add("GlobalAveragePool", np.abs, domain=NHWC_DOMAIN, types=FLOAT)
    kernels.add("Relu", np.abs, types=FLOAT)
    assert (kernels.op_types(), kernels.op_types(NHWC_DOMAIN)) == (["Relu"], ["GlobalAveragePool"])
    made = beside_the_cpu(kernels, "(float[1,3,2,2] x) => (float[1,3,1,1] y) { y = GlobalAveragePool(x) }")
    assert why_not(made, "GlobalAveragePool_0") == (
        "declined operator: no kernel for ai.onnx.GlobalAveragePool, which is asked about before "
        "com.ms.internal.nhwc.GlobalAveragePool: register the ordinary form too"
    )


def test_each_kernel_is_timed_in_profile_and_timeline() -> None:
    kernels = KernelRegistry()
    kernels.add("Abs", np.abs, types=FLOAT)
    kernels.add("Neg", np.negative, types=FLOAT)
    made = session(kernels, "(float[3] x) => (float[3] y) { a = Abs(x)  y = Neg(a) }")
    document = made.view({"x": X}).document
    timed = [event["node"] for event in document["timeline"]["events"] if event["category"] == "Kernel"]
    assert timed == ["Abs_0", "Neg_0"]
    assert sorted(document["costs"]) == ["Abs_0", "Neg_0"]


class Trays(KernelProvider):
    """Sizes are computed on the host, everything else in Boxes. It counts copies."""

    name = "TraysExecutionProvider"
    device = Device("box")
    kernels = KernelRegistry()
    kernels.add("Abs", lambda x: Box(Device("box"), np.abs(x.open(Device("box")))))
    kernels.add("Shape", lambda x: np.array(x.open(Device("box")).shape), host_outputs=(0,))
    kernels.add("Gather", lambda x, i: np.asarray(x[i]), host_inputs=(0, 1), host_outputs=(0,))
    kernels.add("Concat", lambda *parts: np.concatenate(parts), host_inputs=range(9), host_outputs=(0,))
    kernels.add("Reshape", lambda x, to: Box(Device("box"), x.open(Device("box")).reshape(to)), host_inputs=(1,))
    kernels.add("Cast", lambda x: Box(Device("box"), x.open(Device("box")).astype(np.float32)))

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[str] = []

    def data_transfer(self) -> DataTransfer:
        return Noting(self.moved)


class Noting(BoxTransfer):
    def __init__(self, moved: list[str]) -> None:
        super().__init__(Device("box"))
        self.moved = moved

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        self.moved.append(f"{source} -> {destination}")
        return super().copy(value, source, destination)


SIZES = """(float[A, B, C] x) => (float[M, N] y, int64[P] to) <int64[1] one = {1}, int64[1] rest = {-1}> {
    s = Shape(x)
    first = Gather<axis = 0>(s, one)
    to = Concat<axis = 0>(first, rest)
    a = Abs(x)
    y = Reshape(a, to)
}"""


def test_sizes_stay_on_the_host() -> None:
    trays = Trays()
    session = ort_lite.InferenceSession(proto(SIZES), plain(), providers=[trays, CpuStandIn()])
    x = np.ones((2, 3, 4), np.float32)
    y, to = session.run(None, {"x": -x})
    assert (y.shape, to.tolist()) == ((3, 8), [3, -1])
    assert trays.moved == ["cpu:0 -> box:0", "box:0 -> cpu:0"], "x and y alone: constants that the host reads stay there"


def test_a_value_that_both_sides_read_is_copied_once() -> None:
    text = (
        "(int64[2] s, float[N] x) => (float[A, B] y, float[2] c) { y = Reshape(x, s)  z = Reshape(x, s)  c = Cast<to = 1>(s) }"
    )
    trays = Trays()
    session = ort_lite.InferenceSession(proto(text), plain(), providers=[trays, CpuStandIn()])
    y, c = session.run(None, {"s": np.array([2, 3]), "x": np.ones(6, np.float32)})
    assert (y.shape, c.tolist()) == ((2, 3), [2, 3])
    assert trays.moved == ["cpu:0 -> box:0"] * 2 + ["box:0 -> cpu:0"] * 3


@pytest.mark.parametrize("kind", ["old", "wrapping"])
def test_a_class_of_version_1_0_or_that_compiles_by_itself_has_no_host_values(kind: str) -> None:
    class Old(Trays):
        api_version = "1.0"

    class Wrapping(Trays):
        def compile(self, partitions: Any) -> Any:
            return [lambda inputs, chain=chain: chain(inputs) for chain in super().compile(partitions)]

    trays = Old() if kind == "old" else Wrapping()
    session = ort_lite.InferenceSession(proto(SIZES), plain(), providers=[trays, CpuStandIn()])
    y, to = session.run(None, {"x": np.ones((2, 3, 4), np.float32)})
    assert (y.shape, to.tolist()) == ((3, 8), [3, -1])
    assert trays.moved == ["cpu:0 -> box:0", "cpu:0 -> box:0", "box:0 -> cpu:0", "box:0 -> cpu:0"]
