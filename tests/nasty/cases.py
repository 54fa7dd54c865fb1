"""What a case is, how it may end, and what cases are made of: models with the CPU provider's results, providers that misbehave."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import ort_lite
from ort_lite.errors import OrtLiteError
from ort_lite.provider import CompiledPartition, Device, Partition
from tests.load.models import proto
from tests.provider.numpy_provider import FUNCTIONS, NumpyProvider, OtherDevice, evaluate

NASTY = "NastyExecutionProvider"
X = np.array([1, -2, 3], np.float32)


class Case(NamedTuple):
    """`act()` returns pairs (what came, what the CPU provider gives), or nothing where it looks by itself.

    It must end so: rightly, or where there are `names` in an error of ort_lite that has each of these regular expressions.
    `either`: both will do. `warned` must be in a warning.
    """

    act: Any
    names: tuple[str, ...] = ()
    either: bool = False
    warned: str = ""


Table = dict[str, Case]


class Outcome(NamedTuple):
    """How a case ended: "right", "wrong", "error" (one of ort_lite's) or "foreign" (another one)."""

    kind: str
    text: str = ""
    warned: str = ""


def ended(case: Case) -> Outcome:
    """Runs a case, in this process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind, text = _acted(case)
    return Outcome(kind, text[:4000], "\n".join(str(each.message)[:400] for each in caught[:10]))


def _acted(case: Case) -> tuple[str, str]:
    try:
        for k, (came, wanted) in enumerate(case.act() or ()):
            difference = differs(came, wanted)
            if difference:
                return "wrong", f"result {k}: {difference}"
    except OrtLiteError as error:
        return "error", "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    except BaseException as error:  # noqa: BLE001  what is no error of ours is an outcome too
        return "foreign", f"{type(error).__name__}: {error}"
    return "right", ""


def differs(came: Any, wanted: Any) -> str:
    """What is wrong with a result; "" for nothing."""
    if isinstance(wanted, list):
        if not isinstance(came, list) or len(came) != len(wanted):
            return f"{came!r}, wanted {wanted!r}"
        return next((text for one in zip(came, wanted, strict=True) if (text := differs(*one))), "")
    if not isinstance(came, np.ndarray):
        return "" if came is wanted is None else f"{came!r}, wanted {wanted!r}"
    if (came.dtype, came.shape) != (wanted.dtype, wanted.shape):
        return f"{came.dtype}{list(came.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    return "" if np.array_equal(came, wanted, equal_nan=wanted.dtype.kind == "f") else f"{came!r}, wanted {wanted!r}"


def fault(case: Case, outcome: Outcome) -> str:
    """What is wrong with how a case ended; "" for nothing."""
    if case.warned and not re.search(case.warned, outcome.warned):
        return f"no warning has {case.warned!r}: {outcome}"
    if outcome.kind == "right":
        return "" if case.either or not case.names else f"no error came, expected one with {case.names}"
    if outcome.kind != "error" or not case.names:
        return f"{outcome.kind}: {outcome.text}"
    missing = [name for name in case.names if not re.search(name, outcome.text)]
    return f"the error lacks {missing}: {outcome.text}" if missing else ""


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


def table(entries: Iterable[tuple[str, Case]]) -> Table:
    """By name. Two of one name are a mistake."""
    made: Table = {}
    for name, case in entries:
        assert name not in made, name
        made[name] = case
    return made


def crossed(**sides: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every way to take one of each side, named after them."""
    from itertools import product

    for way in product(*(side.items() for side in sides.values())):
        yield "-".join(name for name, _ in way), tuple(value for _, value in way)
