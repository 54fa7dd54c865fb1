"""Models whose creation would take hours or gigabytes: constants that grow, graphs that are long, providers that are slow."""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import ort_lite
from ort_lite.errors import DeadlineExceeded, ModelLoadCanceled
from ort_lite.native import loader
from ort_lite.native.checkpoint import checkpoint, use_check
from ort_lite.provider import Capability, CompiledPartition, GraphView, Partition, Rejection
from ort_lite.session.composite import CompositeProvider
from tests.case_server import Outcome
from tests.provider.numpy_provider import CpuStandIn, NumpyProvider

LATE = 3.0
"""Seconds after its deadline in which a creation must end on a busy machine: 1 on an idle one."""


# Constants that grow: what exceeds the budget stays in the graph


def text(nodes: str, constants: str = "", opset: int = 21) -> bytes:
    """A model whose output y depends on a feed and on constants."""
    source = f'<ir_version: 10, opset_import: ["": {opset}]> g (float[N] x) => (y) <{constants}> {{ {nodes} }}'
    return bytes(parser.parse_model(source).SerializeToString())


def filled(size: str = "1073741824", kind: str = "float") -> tuple[str, str]:
    """A node whose output c has one element many times, and a constant: 4 GB of float by default, in 20 bytes of a model."""
    return f"c = ConstantOfShape <value = {kind}[1] {{1}}> (size)", f"int64[1] size = {{{size}}}"


def repeated(count: int, first: str, node: str, last: str) -> str:
    """A chain: `node` has {a} for what the node before computes and {b} for what it computes itself."""
    chain = [node.format(a=f"v{k}", b=f"v{k + 1}", k=k) for k in range(count)]
    return "\n".join([first.format(b="v0"), *chain, last.format(a=f"v{count}")])


def ends(make: Callable[[], bytes], seconds: float = 3.0) -> None:
    """All stages but compilation end soon. The child has less memory than the constants would take."""
    model = make()
    assert len(model) < 100_000
    begin = time.monotonic()
    ort_lite.plan(model, providers=["CPUExecutionProvider"])
    took = time.monotonic() - begin
    assert took < seconds, f"{took:.1f} s"


def of_filled(nodes: str, constants: str = "", size: str = "1073741824", kind: str = "float") -> Callable[[], bytes]:
    node, sizes = filled(size, kind)
    return lambda: text(f"{node}\n{nodes}", f"{sizes}{', ' * bool(constants)}{constants}")


SUM = "s = ReduceSum <keepdims=0> ({a})  y = Add(x, s)"
SUM_OF_INTEGERS = "s = ReduceSum <keepdims=0> ({a})  f = Cast <to=1> (s)  y = Add(x, f)"
GROWN: dict[str, Callable[[], bytes]] = {
    "Neg": of_filled("d = Neg(c)  y = Add(x, d)"),
    "Exp of doubles": of_filled("d = Exp(c)  e = Cast <to=1> (d)  y = Add(x, e)", kind="double"),
    "Cast": of_filled("d = Cast <to=11> (c)  e = ReduceMax <keepdims=0> (d)  f = Cast <to=1> (e)  y = Add(x, f)"),
    "ReduceSum": of_filled(SUM.format(a="c")),
    "ReduceSum of 2**40 elements": of_filled(SUM.format(a="c"), size="1099511627776"),
    "CumSum": of_filled(f"d = CumSum(c, zero)  {SUM.format(a='d')}", "int64 zero = {0}"),
    "Pow": of_filled(f"d = Pow(c, c)  {SUM.format(a='d')}"),
    "Where": of_filled(f"b = Greater(c, c)  d = Where(b, c, c)  {SUM.format(a='d')}"),
    "NonZero": of_filled(f"d = NonZero(c)  {SUM_OF_INTEGERS.format(a='d')}"),
    "Gather": of_filled(f"d = Gather(w, c)  {SUM.format(a='d')}", "float[2] w = {1, 2}", kind="int64"),
    "DequantizeLinear": of_filled(f"d = DequantizeLinear(c, w)  {SUM.format(a='d')}", "float w = {0.5}", kind="int8"),
    "Concat": of_filled(f"d = Concat <axis=0> (c, c, c)  {SUM.format(a='d')}"),
    "Slice backwards": of_filled(
        f"d = Slice(c, last, first, zero, back)  e = Neg(d)  {SUM.format(a='e')}",
        "int64[1] last = {-1}, int64[1] first = {-9223372036854775807}, int64[1] zero = {0}, int64[1] back = {-1}",
    ),
    "Expand": lambda: text(
        f"d = Expand(w, size)  e = Abs(d)  {SUM.format(a='e')}", "float[1] w = {2}, int64[3] size = {1024, 1024, 1024}"
    ),
    "Reshape of an Expand": lambda: text(
        f"d = Expand(w, size)  e = Reshape(d, flat)  {SUM.format(a='e')}",
        "float[2] w = {2, 3}, int64[2] size = {536870912, 2}, int64[1] flat = {-1}",
    ),
    "Transpose and Reshape": of_filled(
        f"d = Reshape(c, square)  e = Transpose(d)  f = Reshape(e, flat)  g = Sin(f)  {SUM.format(a='g')}",
        "int64[2] square = {32768, -1}, int64[1] flat = {-1}",
    ),
    "Trilu": lambda: text(
        f"c = ConstantOfShape <value = float[1] {{1}}> (size)  d = Trilu(c)  {SUM.format(a='d')}",
        "int64[2] size = {32768, 32768}",
    ),
    "Add that broadcasts": lambda: text(
        f"a = ConstantOfShape(tall)  b = ConstantOfShape(wide)  d = Add(a, b)  {SUM.format(a='d')}",
        "int64[2] tall = {65536, 1}, int64[2] wide = {1, 65536}",
    ),
    "products of unknown sizes": lambda: text(
        repeated(
            60,
            "c = ConstantOfShape <value = float[1] {{1}}> (size)  n = NonZero(c)  t = Transpose(n)  {b} = Mul(n, t)",
            "{b} = Add({a}, n)",
            SUM_OF_INTEGERS,
        ),
        "int64[1] size = {4096}",
    ),
    "Tile that doubles": lambda: text(
        repeated(40, "{b} = Identity(w)", "{b} = Tile({a}, two)", SUM), "float[1] w = {1}, int64[1] two = {2}"
    ),
    "Concat that doubles": lambda: text(
        repeated(40, "{b} = Identity(w)", "{b} = Concat <axis=0> ({a}, {a})", SUM), "float[1] w = {1}"
    ),
    "Add that doubles": lambda: text(
        repeated(34, "{b} = Identity(w)", "e{k} = Unsqueeze({a}, zero)  {b} = Expand(e{k}, two{k})", SUM),
        "float[1] w = {1}, int64[1] zero = {0}, "
        + ", ".join(f"int64[{k + 2}] two{k} = {{{', '.join(['2'] * (k + 2))}}}" for k in range(34)),
    ),
    "Pad again and again": lambda: text(
        repeated(60, "{b} = Identity(w)", "{b} = Pad({a}, pads)", SUM), "float[1] w = {1}, int64[2] pads = {2000000, 2000000}"
    ),
    "many Ranges": lambda: text(
        "\n".join(
            [f"r{k} = Range(zero, most, by{k})  s{k} = ReduceMax <keepdims=0> (r{k})" for k in range(60)]
            + ["t = Max(" + ", ".join(f"s{k}" for k in range(60)) + ")  f = Cast <to=1> (t)  y = Add(x, f)"]
        ),
        "int64 zero = {0}, int64 most = {16000000}, " + ", ".join(f"int64 by{k} = {{{k + 1}}}" for k in range(60)),
    ),
    "a long chain of 16 MB each": lambda: text(
        repeated(100, "{b} = ConstantOfShape <value = float[1] {{1}}> (size)", "{b} = Neg({a})", SUM),
        "int64[1] size = {4194304}",
    ),
    "many slices of one": of_filled(
        "\n".join([f"d{k} = Slice(c, from{k}, to)  e{k} = ReduceMax <keepdims=0> (d{k})" for k in range(40)])
        + "  t = Max("
        + ", ".join(f"e{k}" for k in range(40))
        + ")  y = Add(x, t)",
        "int64[1] to = {100000000}, " + ", ".join(f"int64[1] from{k} = {{{k}}}" for k in range(40)),
        size="100000000",
    ),
    "ConvTranspose of 2**31 - 1 groups": lambda: text(
        """i = Cast <to=7> (x)  r = Reshape(x, i)  t = ConvTranspose <group=2147483647> (r, w)  m = Mul(t, k)
        s = ReduceSum <keepdims=0> (m)  y = Add(x, s)""",
        "float[1,1,3] w = {1, 2, 3}, float k = {2}",
    ),
    "RandomNormal": lambda: text(f"c = RandomNormal <shape = [32768, 32768]> ()  {SUM.format(a='c')}"),
    "a Loop over constants": lambda: text(
        """s = Loop (trips, yes, w) <body = b (int64 i, bool go, float[M] a) => (bool again, float[K] z)
        { again = Identity(go)  z = Concat <axis=0> (a, a) }>  t = ReduceSum <keepdims=0> (s)  y = Add(x, t)""",
        "int64 trips = {40}, bool yes = {1}, float[1] w = {1}",
    ),
}


def shared_weights() -> bytes:
    """Forty convolutions with one filled weight of 340 MB, each before a BatchNormalization of its own."""
    channels, count = 3072, 40
    size = helper.make_tensor("size", TensorProto.INT64, [4], [channels, channels, 3, 3])
    vector = np.linspace(1, 2, channels, dtype=np.float32)
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["w"])]
    initializers = [size]
    for k in range(count):
        initializers.append(onnx.numpy_helper.from_array(np.roll(vector, k)[:channels], f"v{k}"))
        nodes.append(helper.make_node("Conv", ["x", "w"], [f"c{k}"]))
        nodes.append(helper.make_node("BatchNormalization", [f"c{k}", *[f"v{k}"] * 4], [f"y{k}"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 3, 3])
    outputs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(count)]
    graph = helper.make_graph(nodes, "g", [x], outputs, initializers)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString())


def conv_of_filled_weights() -> None:
    begin = time.monotonic()
    ort_lite.plan(shared_weights(), providers=["CPUExecutionProvider"])
    assert time.monotonic() - begin < 5


def alike_initializers() -> None:
    """Four thousand weights that differ in one element, which is no sample of them."""
    arrays = np.zeros((4000, 64), np.float32)
    arrays[:, 3] = np.arange(4000)
    weights = [onnx.numpy_helper.from_array(array, f"w{k}") for k, array in enumerate(arrays)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [helper.make_node("Max", ["x", *[f"w{k}" for k in range(4000)]], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()
    begin = time.monotonic()
    ort_lite.plan(model, providers=["CPUExecutionProvider"])
    assert time.monotonic() - begin < 3


# Deadlines and cancellation


def long_chain(count: int) -> bytes:
    """`count` nodes without weights, each reading what the one before computes."""
    graph = onnx.GraphProto(name="g")
    graph.input.append(helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["N"]))
    graph.output.append(helper.make_tensor_value_info(f"v{count}", TensorProto.FLOAT, ["N"]))
    graph.node.extend(
        onnx.NodeProto(op_type=("Tanh", "Neg", "Abs")[k % 3], input=[f"v{k}"], output=[f"v{k + 1}"]) for k in range(count)
    )
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString())


def doubling_functions(depth: int) -> bytes:
    """One call that stands for 2**depth nodes."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = []
    for k in range(depth):
        name, domain = ("Neg", "") if k == 0 else (f"f{k - 1}", "my")
        nodes = [helper.make_node(name, ["a"], ["b"], domain=domain), helper.make_node(name, ["b"], ["c"], domain=domain)]
        functions.append(helper.make_function("my", f"f{k}", ["a"], ["c"], nodes, imports))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
    call = helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="my")
    graph = helper.make_graph([call], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=imports, ir_version=10)
    made.functions.extend(functions)
    return bytes(made.SerializeToString())


@contextmanager
def on_time(timeout: float) -> Iterator[None]:
    """The block raises DeadlineExceeded about the creation, at most LATE seconds after the timeout."""
    begin = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="creation_timeout"):
        yield
    took = time.monotonic() - begin
    assert timeout <= took < timeout + LATE, f"{took:.2f} s"


def session(model: bytes, *providers: Any, options: ort_lite.SessionOptions | None = None, **keywords: Any) -> Any:
    return ort_lite.InferenceSession(model, options, list(providers) or ["CPUExecutionProvider"], **keywords)


def limited(make: Callable[[], bytes], timeout: float) -> None:
    model = make()
    with on_time(timeout):
        session(model, creation_timeout=timeout)


def gaps(make: Callable[[], bytes], most: float = LATE / 2) -> None:
    """No two checkpoints of a whole creation, of all stages but compilation, are further apart."""
    model, seen = make(), [time.monotonic()]
    with use_check(lambda stage: seen.append(time.monotonic())):
        ort_lite.plan(model, providers=["CPUExecutionProvider"])
    widest = max(b - a for a, b in pairwise(seen))
    assert len(seen) > 100
    assert widest < most, f"{widest:.2f} s"


def cancelled_by_another_thread() -> None:
    options, model = ort_lite.SessionOptions(), long_chain(30_000)
    timer = threading.Timer(0.3, options.set_load_cancellation_flag, [True])
    timer.start()
    begin = time.monotonic()
    with pytest.raises(ModelLoadCanceled, match="stage"):
        session(model, options=options)
    assert time.monotonic() - begin < 0.3 + LATE
    timer.join(5)


def cancelled_before() -> None:
    options = ort_lite.SessionOptions()
    options.set_load_cancellation_flag(True)
    for make in (session, lambda model, options: ort_lite.plan(model, options=options)):
        with pytest.raises(ModelLoadCanceled):
            make(long_chain(3), options=options)
    options.set_load_cancellation_flag(False)
    assert session(long_chain(3), CpuStandIn(), options=options).get_inputs()


def saved_model() -> None:
    """A model of 500 bytes is saved with 400 MB of weights."""
    node, sizes = filled("100000000")
    options = ort_lite.SessionOptions()
    options.creation_timeout = 0.2
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/saved.onnx"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "saved.bin")
        model = text(f"{node}  d = Gather(c, i)  y = Add(x, d)", f"{sizes}, int64[1] i = {{3}}")
        with suppress(DeadlineExceeded):
            session(model, options=options)
        assert all(not name.startswith(".") for name in os.listdir(folder)), "a part of a file is left"


# Providers that are slow, or catch what they should not


class Slow(NumpyProvider):
    """Looks at each node for 20 ms, and calls nothing of ort_lite but the view."""

    name = "SlowExecutionProvider"

    def __init__(self) -> None:
        super().__init__(lambda node: True)

    def get_capability(self, graph: GraphView) -> Any:
        answers: list[Capability | Rejection] = []
        for node in graph:
            time.sleep(0.02)
            answers.append(Rejection(node, "mood", "no"))
        return answers


class Stubborn(Slow):
    """Goes on with the next node whatever is raised meanwhile."""

    def get_capability(self, graph: GraphView) -> Any:
        try:
            return super().get_capability(graph)
        except Exception:  # noqa: BLE001  what this case is about
            return []


class SlowCompiler(CpuStandIn):
    """Compiles for hours, with checkpoints; turns what they raise into an error of its own."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        try:
            while True:
                time.sleep(0.02)
                checkpoint()
        except Exception as error:
            raise OSError("the compiler was interrupted") from error


class InnerSession(CpuStandIn):
    """Creates a session of its own, without a limit, while it compiles."""

    def compile(self, partitions: Sequence[Partition]) -> Sequence[CompiledPartition]:
        ort_lite.InferenceSession(long_chain(100), providers=[Slow(), CpuStandIn()])
        return super().compile(partitions)


def slow(*providers: Any, nodes: int = 200, timeout: float = 0.2) -> None:
    with on_time(timeout):
        session(long_chain(nodes), *providers, creation_timeout=timeout)


def while_another_thread_compiles() -> None:
    """The lock of kernels is another thread's for longer than the timeout."""
    done = threading.Event()

    def hold() -> None:
        with loader._lock:
            done.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        with on_time(0.2):
            session(text("a = Sin(x)  b = Cos(a)  y = Mul(b, a)"), creation_timeout=0.2)
    finally:
        done.set()
        holder.join(5)


def parameters_loaded_late() -> None:
    """`load_params` creates the session anew, within the same limit; the old one stays."""
    made = session(text("y = Add(x, w)", "float[1] w = {1}"), Moody(), CpuStandIn(), creation_timeout=0.2)
    Moody.slow = True
    try:
        with on_time(0.2):
            made.load_params({"w": np.full(1, 2, np.float32)})
    finally:
        Moody.slow = False
    np.testing.assert_array_equal(made.run(None, {"x": np.ones(2, np.float32)})[0], np.full(2, 2, np.float32))


class Moody(NumpyProvider):
    """Slow when it is told so."""

    name = "MoodyExecutionProvider"
    slow = False

    def __init__(self) -> None:
        super().__init__(lambda node: False)

    def get_capability(self, graph: GraphView) -> Any:
        for _ in range(100 if self.slow else 0):
            time.sleep(0.02)
            checkpoint()
        return super().get_capability(graph)


def a_second_attempt() -> None:
    """Nothing of a creation that ended is left behind: the next one of the thread has no limit."""
    for _ in range(3):
        slow(Slow(), CpuStandIn(), nodes=20, timeout=0.1)
    checkpoint()
    assert session(long_chain(5), CpuStandIn()).get_inputs()


CASES: dict[str, Callable[[], None]] = {
    **{f"grown: {name}": partial(ends, make) for name, make in GROWN.items()},
    "weights that convolutions share": conv_of_filled_weights,
    "initializers that are alike": alike_initializers,
    "timeout: a long graph, while it is loaded": partial(limited, partial(long_chain, 60_000), 0.1),
    "timeout: a long graph, later": partial(limited, partial(long_chain, 20_000), 0.6),
    "timeout: functions that double": partial(limited, partial(doubling_functions, 16), 0.5),
    "gaps: a long graph": partial(gaps, partial(long_chain, 10_000)),
    "gaps: functions that double": partial(gaps, partial(doubling_functions, 12)),
    "gaps: constants": partial(gaps, GROWN["a long chain of 16 MB each"]),
    "cancelled by another thread": cancelled_by_another_thread,
    "cancelled before": cancelled_before,
    "timeout: a model that is saved": saved_model,
    "timeout: a slow provider": partial(slow, Slow(), CpuStandIn()),
    "timeout: a provider that catches everything": partial(slow, Stubborn(), CpuStandIn()),
    "timeout: a slow compiler": partial(slow, SlowCompiler()),
    "timeout: a slow compiler with a next provider": partial(
        slow, (SlowCompiler(), {"on_compile_error": "next"}), "CPUExecutionProvider"
    ),
    "timeout: a session in a session": partial(slow, InnerSession()),
    "timeout: children of a composite": lambda: slow(CompositeProvider([Slow()]), CpuStandIn()),
    "timeout: another thread compiles": while_another_thread_compiles,
    "timeout: parameters": parameters_loaded_late,
    "timeout: a second attempt": a_second_attempt,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_creation_ends(outcome: Outcome, name: str) -> None:
    assert outcome(__name__, name, seconds=20, megabytes=1500) == ""
