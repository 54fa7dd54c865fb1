"""What cases are made of: models with the CPU provider's results, and providers that misbehave."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import ort_lite
from ort_lite.provider import CompiledPartition, Device, Partition
from tests.load.models import proto
from tests.provider.numpy_provider import FUNCTIONS, NumpyProvider, OtherDevice, evaluate

NASTY = "NastyExecutionProvider"
X = np.array([1, -2, 3], np.float32)


# Models, each with what is fed to it

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": ("(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  y = Relu(b) }", {"x": X}),
    "open": ("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }", {"x": X}),
    "last": ("(float[N] x) => (float[N] y) { a = Neg(x)  y = Abs(a) }", {"x": X}),
    "two": ("(float[N] x) => (float[N] y, float[N] z) { y = Abs(x)  z = Neg(y) }", {"x": X}),
    "weights": ("(float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w)  y = Neg(a) }", {"x": X}),
    "matrix": ("(float[N, M] x) => (float[N, M] y) { a = Abs(x)  y = Softmax(a) }", {"x": np.stack([X, -X])}),
    "scalar": ("(float x) => (float y) { a = Abs(x)  y = Neg(a) }", {"x": np.array(-2, np.float32)}),
    "empty": ("(float[N] x) => (float[N] y) { a = Abs(x)  y = Neg(a) }", {"x": np.zeros(0, np.float32)}),
    "double": ("(double[N] x) => (double[N] y) { a = Abs(x)  y = Neg(a) }", {"x": X.astype(np.float64)}),
    "integer": ("(int64[N] x) => (int64[N] y) { a = Abs(x)  y = Neg(a) }", {"x": X.astype(np.int64)}),
    "half": ("(float16[N] x) => (float16[N] y) { a = Abs(x)  y = Neg(a) }", {"x": X.astype(np.float16)}),
    "bool": ("(bool[N] x) => (bool[N] y) { a = Identity(x)  y = Not(a) }", {"x": X > 0}),
    "string": (
        '(string[N] x) => (string[N] y) { a = Identity(x)  y = StringNormalizer<case_change_action="UPPER">(a) }',
        {"x": np.array(["a", "b"], object)},
    ),
    "joined": ("(float[N] x) => (float[M] y) { c = Concat<axis = 0>(x, x)  a = Abs(c)  y = Neg(a) }", {"x": X}),
    "branch": (
        """(float[N] x, bool f) => (float[N] y) { a = Neg(x)
        y = If (f) <then_branch = p () => (float[N] t) { t = Abs(a) }, else_branch = n () => (float[N] e) { e = Relu(a) }> }""",
        {"x": X, "f": np.array(True)},
    ),
    "loop": (
        """(float[N] x, int64 n, bool c) => (float[N] y) { w = Abs(x)
        y = Loop (n, c, x) <body = b (int64 i, bool go, float[N] s) => (bool on, float[N] t)
        { on = Identity(go)  t = Add(s, w) }> }""",
        {"x": X, "n": np.array(3), "c": np.array(True)},
    ),
    "sequence": (
        "(float[N] x) => (float[N] y) { s = SequenceConstruct(x, x)  i = Constant<value_int = 1>()  y = SequenceAt(s, i) }",
        {"x": X},
    ),
    "optional": ("(float[N] x) => (bool y) { o = Optional(x)  y = OptionalHasElement(o) }", {"x": X}),
    "split": (
        """(float[3] x) => (float[3] y) { a = Abs(x)  b = Neg(a)  c = Tanh(b)  d = Abs(c)  e = Relu(d)  y = Sub(e, a) }""",
        {"x": X},
    ),
    "image": (
        """(float[1,2,4,4] x) => (float[1,2,1,1] y) {
        b = MaxPool<kernel_shape=[2,2]>(x)  y = GlobalAveragePool(b) }""",
        {"x": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)},
    ),
}


def feeds(model: str) -> dict[str, Any]:
    return {name: array.copy() for name, array in MODELS[model][1].items()}


@cache
def wanted(model: str) -> list[Any]:
    """What the CPU provider alone gives."""
    found: list[Any] = session(model).run(None, feeds(model))
    return found


def options(level: str = "ORT_DISABLE_ALL", **config: str) -> ort_lite.SessionOptions:
    made = ort_lite.SessionOptions()
    made.graph_optimization_level = getattr(ort_lite.GraphOptimizationLevel, level)
    made.intra_op_num_threads = 1
    for key, value in config.items():
        made.add_session_config_entry(key.replace("__", "."), value)
    return made


def session(model: str, *providers: Any, with_: ort_lite.SessionOptions | None = None, **keywords: Any) -> Any:
    """The CPU provider comes last."""
    return ort_lite.InferenceSession(proto(f"main {MODELS[model][0]}"), with_ or options(), list(providers) or None, **keywords)


def ran(model: str, *providers: Any, times: int = 1, **keywords: Any) -> list[tuple[Any, Any]]:
    """What a model gives with providers, beside what the CPU provider gives."""
    made = session(model, *providers, **keywords)
    return [(made.run(None, feeds(model)), wanted(model)) for _ in range(times)]


# Providers


class Nasty(NumpyProvider):
    """Computes rightly but for what is said (`nasty`)."""

    name = NASTY


class NastyDevice(OtherDevice):
    name = NASTY
    device = Device("box")


def nasty(takes: Any = "Abs", base: Any = Nasty, operators: Any = "", **members: Any) -> Any:
    """An instance of a class with these members, which takes these operators."""
    wanted = takes.split()
    made = type("Nasty", (base,), members)
    known = (*FUNCTIONS, "If", "Loop", *operators.split())
    return made(lambda node: node.op_type in wanted, operators=known)


def says(answer: Any) -> Callable[..., Any]:
    """A hook that answers so."""
    return lambda *arguments: answer


def raises(error: BaseException) -> Callable[..., Any]:
    def hook(*arguments: Any) -> Any:
        vars(error).pop("__notes__", None)  # of an earlier case
        raise error

    return hook


def computing(function: Callable[[Sequence[Any], list[Any]], Any], takes: str = "Abs", **members: Any) -> Any:
    """A provider whose partitions return function(inputs, the right outputs)."""

    def compile_(self: Any, partitions: Sequence[Partition]) -> list[CompiledPartition]:
        return [lambda inputs, p=p: function(inputs, evaluate(p, inputs)) for p in partitions]

    return nasty(takes, compile=compile_, **members)


def compiled_to(make: Callable[[Partition], Any], takes: str = "Abs", **members: Any) -> Any:
    """A provider that makes this of a partition."""
    return nasty(takes, compile=lambda self, partitions: [make(p) for p in partitions], **members)
