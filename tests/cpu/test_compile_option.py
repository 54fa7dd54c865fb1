"""Session config entry `ort_lite.compile`: what sessions do about kernels that nobody compiled before."""

import logging
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument, KernelMissing
from ort_lite.graph import Node, TensorType, Value
from ort_lite.native import Spec, background, loader, missing, workers
from ort_lite.native import cache as store
from ort_lite.native.cpu import host
from ort_lite.native.spec import key_of
from ort_lite.shapes import symbol
from ort_lite_cpu.kernels.gemm.activation import activate_rows
from ort_lite_cpu.options import CPUOptions
from ort_lite_cpu.program import bind
from ort_lite_cpu.program.generic import UnfusedOptions, generic_specs, specs_of
from ort_lite_cpu.program.program import Program
from ort_lite_cpu.program.segment import NOTHING
from ort_lite_cpu.program.segment_run import SegmentRun
from ort_lite_cpu.run import team
from ort_lite_cpu.run.loop import RUN_JOB
from tests.cpu.check import ramp, rules, text_program

SILERO = Path(__file__).parents[1] / "data" / "silero" / "silero_vad.onnx"
CHAIN = "(float[M,N] x, float[N] v) => (float[M,N] y) { a = Mul(x, v) b = Add(a, x) y = Relu(b) }"
MACHINERY = (RUN_JOB, NOTHING, *bind.SPECS, *team.SPECS)
X, V = ramp((3, 4)), ramp((4,), low=0.5)
Y = np.maximum(X * V + X, 0)


def specs(program: Program) -> list[Spec]:
    """Of its instructions, in order."""
    return [i.spec for step in program.steps if isinstance(step, SegmentRun) for i in step.segment.instructions]


def session(text: str, compile: str) -> ort_lite.InferenceSession:
    options = ort_lite.SessionOptions()
    options.add_session_config_entry(missing.OPTION, compile)
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> main {text}')
    return ort_lite.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


@cache
def fused() -> list[Spec]:
    """What CHAIN is one loop with."""
    return [*MACHINERY, *specs(text_program(CHAIN))]


@cache
def generic() -> list[Spec]:
    """What CHAIN needs one operator after the other."""
    return [*MACHINERY, *specs(text_program(CHAIN, options=UnfusedOptions()))]


class Store:
    """A folder for kernels, into which this process has not looked yet."""

    def __init__(self, folder: str, source: str) -> None:
        self.folder, self.source = folder, source

    def give(self, kernels: Iterable[Spec]) -> None:
        """Puts there what is kept elsewhere."""
        for spec in kernels:
            key = key_of(spec, host())
            body = store.read(self.source, key)
            assert body is not None
            store.write(self.folder, key, body)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store without kernels, where nobody may compile in front of a session."""
    kept, folder = [*generic(), *fused()], store.directory()
    loader.load(kept)
    monkeypatch.setattr(workers, "compile_all", refuse)
    monkeypatch.setattr(workers, "compile_ahead", refuse)
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loader, "_by_spec", {})
    monkeypatch.setattr(loader, "_by_key", {})
    return Store(str(tmp_path), folder)


def refuse(*arguments: Any) -> Any:
    raise AssertionError("a session waits for the compiler")


# --- The values


def test_a_value_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"ort_lite\.compile is 'no'; expected one of wait, never, background"):
        session(CHAIN, "no")


@pytest.mark.parametrize("compile", [missing.NEVER, missing.BACKGROUND])
def test_with_all_kernels_there_the_fused_ones_run(compile: str, empty: Store) -> None:
    empty.give(fused())
    assert specs(text_program(CHAIN, options=CPUOptions(compile=compile))) == specs(text_program(CHAIN))
    np.testing.assert_array_equal(session(CHAIN, compile).run(None, {"x": X, "v": V})[0], Y)
    assert background.wait(0)


@pytest.mark.parametrize("compile", [missing.NEVER, missing.BACKGROUND])
def test_what_is_not_there_fused_runs_one_operator_after_the_other(
    compile: str, empty: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "want", lambda wanted, target: asked.extend(wanted))
    asked: list[Spec] = []
    empty.give(generic())
    made = text_program(CHAIN, options=CPUOptions(compile=compile))
    assert len(specs(made)) > 3 and not {*specs(made)} & {*fused()[len(MACHINERY) :]}
    np.testing.assert_array_equal(made([X, V])[0], Y)
    assert asked == (fused()[-1:] if compile == missing.BACKGROUND else [])


def test_never_names_what_is_missing(empty: Store) -> None:
    empty.give(MACHINERY)
    with pytest.raises(KernelMissing) as caught:
        text_program(CHAIN, options=CPUOptions(compile=missing.NEVER))
    who = f"Relu 'Relu_0' (CPUExecutionProvider): kernel {fused()[-1].name} is neither in a kernel pack"
    assert str(caught.value).startswith(who) and "compile is 'never': run" in str(caught.value)
    with pytest.raises(ort_lite.errors.CompileError, match="KernelMissing: Relu"):
        session(CHAIN, missing.NEVER)


@pytest.mark.parametrize(
    ("other", "who"),
    [
        ("(float[N] b) { b = Abs(x) }", "If 'If_0'"),
        ("(float[1,N] b) { i = Constant<value_ints=[0]>() b = Unsqueeze(x, i) }", "Neg 'Neg_0'"),
    ],
    ids=["inlined", "called"],
)
def test_a_body_inherits_it(other: str, who: str, empty: Store) -> None:
    empty.give(MACHINERY)
    branches = f"then_branch = one () => (float[N] a) {{ a = Neg(x) }}, else_branch = two () => {other}"
    with pytest.raises(ort_lite.errors.CompileError, match=rf"{who} .*ort_lite\.compile is 'never'"):
        session(f"(bool go, float[N] x) => (float y) {{ y = If(go) <{branches}> }}", missing.NEVER)


def test_what_is_lowered_in_a_run_inherits_it(empty: Store) -> None:
    empty.give(MACHINERY)
    made = session("(float[M,N] x, int64[R] s) => (float[M,N] y) { r = Reshape(x, s) y = Neg(r) }", missing.NEVER)
    with pytest.raises(KernelMissing, match=r"Neg 'Neg_0' .*ort_lite\.compile is 'never'"):
        made.run(None, {"x": X, "s": np.array([3, 4])})


def test_without_a_compiler_what_is_there_runs_and_the_error_names_it(empty: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "_is_there", lambda name: name != "numba")
    missing.compiler_lacks.cache_clear()
    try:
        message = r"ort_lite\.compile is 'wait', but numba, which would compile, is not installed"
        with pytest.raises(KernelMissing, match=message):
            text_program(CHAIN)
        empty.give(generic())
        np.testing.assert_array_equal(text_program(CHAIN)([X, V])[0], Y)
    finally:
        missing.compiler_lacks.cache_clear()


# --- Beside the session


@pytest.mark.slow
def test_in_the_background_the_next_session_finds_what_this_one_did_without(empty: Store) -> None:
    empty.give(generic())
    first = text_program(CHAIN, options=CPUOptions(compile=missing.BACKGROUND))
    assert not background.wait(0)
    np.testing.assert_array_equal(first([X, V])[0], Y)
    assert background.wait(60)
    second = text_program(CHAIN, options=CPUOptions(compile=missing.NEVER))
    assert specs(second) == fused()[-1:]
    np.testing.assert_array_equal(second([X, V])[0], Y)


@pytest.mark.slow
def test_it_has_the_lowest_priority_and_ends_with_the_process(empty: Store) -> None:
    made = background.Background()
    made.want([fused()[-1]], host())
    while (process := made.worker.process) is None:
        assert not made.wait(0)
    made.close()
    assert isinstance(process, subprocess.Popen)
    assert process.poll() is not None and made.wait(0)
    made.want([fused()[0]], host())
    assert made.wait(0), "nothing begins any more"


def test_what_goes_wrong_there_is_logged(
    empty: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers.Worker, "ask", lambda self, request: ("error", "no such instruction"))
    made = background.Background()
    made.want(fused()[-2:], host())
    assert made.wait(10)
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "could not be compiled in the background: no such instruction" in caplog.messages[-1]


# --- Generic kernels


@cache
def listed() -> frozenset[Spec]:
    return frozenset(generic_specs("host", rules()))


SHAPES = {
    "Where": [(2, 1, 4), (3, 1), (2, 3, 4)],
    "Clip": [(2, 3), (), ()],
    "PRelu": [(2, 3, 4), (3, 1)],
    "Sum": [(4,), (2, 1), (1,)],
}


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64"])
@pytest.mark.parametrize("op_type", ["Add", "Max", "Equal", "PRelu", "Where", "Clip", "Sum"])
def test_whatever_is_broadcast_is_computed_by_kernels_of_the_list(op_type: str, dtype: str) -> None:
    dtype = {("Sum", "int8"): "float64", ("Sum", "uint64"): "float64", ("PRelu", "int8"): "int64"}.get((op_type, dtype), dtype)
    for open_ in (False, True):
        inputs = []
        for k, shape in enumerate(SHAPES.get(op_type, [(2, 1, 4), (3, 1)])):
            dims = tuple([n if n == 1 or not open_ else symbol(f"n{n}") for n in shape])
            inputs.append(Value(f"x{k}", TensorType("bool" if op_type == "Where" and k == 0 else dtype, dims)))
        node = Node(op_type, inputs, [Value("y")], version=21, name="node")
        found = [*specs_of(node, rules(), UnfusedOptions(target="host"))]
        assert found and listed().issuperset(found)


@pytest.mark.slow
def test_the_list_is_short_and_the_same_each_time() -> None:
    again = generic_specs("host", rules())
    assert len(again) == len(listed()) < 1500 and listed() == {*again}
    assert {key_of(spec, host()) for spec in generic()} <= {key_of(spec, host()) for spec in again}


CHAINS = {
    "float32": """(float[M,N] x, float[N] v, float s) => (float[M,N] y) {
        a = Mul(x, v) b = Add(a, x) c = Sub(b, s) d = Exp(c) e = Add(d, x) f = HardSigmoid(e) h = Abs(x) g = Mul(f, h)
        y = Sum(g, x, v)
    }""",
    "float16": """(float16[M,N] x, float16[N] v) => (float16[M,N] y) {
        a = Cast<to=1>(x) b = Cast<to=1>(v) c = Mul(a, b) d = Cast<to=10>(c) e = Cast<to=1>(d) f = Add(e, a) y = Cast<to=10>(f)
    }""",
    "int8": """(int8[M,N] x, int8[N] v) => (int8[M,N] y) {
        a = Mul(x, v) b = Add(a, x) c = Sub(b, v) d = Max(c, x) e = Cast<to=1>(d) f = Add(e, e) y = Cast<to=3>(f)
    }""",
    "quantized": """(uint8[M,N] x, float s, uint8 z) => (uint8[M,N] y) {
        a = DequantizeLinear(x, s, z) b = Mul(a, a) c = Add(b, a) y = QuantizeLinear(c, s, z)
    }""",
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_loop_for_each_operator_gives_the_same_bits_as_one_for_all(name: str) -> None:
    dtype = {"quantized": "uint8"}.get(name, name)
    x, v = ramp((37, 5), dtype), ramp((5,), dtype, low=1)
    scalars: dict[str, list[Array]] = {
        "float32": [np.array(0.7, np.float32)],
        "quantized": [np.array(0.01, np.float32), np.array(100, np.uint8)],
    }
    inputs = [x, *([] if name == "quantized" else [v]), *scalars.get(name, [])]
    text = CHAINS[name]
    whole = text_program(text)
    want, made = whole(inputs)[0], [text_program(text, fusion=False), text_program(text, options=UnfusedOptions())]
    for other in made:
        assert len(specs(other)) >= len(specs(whole)) + 2
        np.testing.assert_array_equal(other(inputs)[0], want)


def test_two_of_one_element_are_spread_for_a_larger_third() -> None:
    """The loop of the first two operands makes a result of the size of all three."""
    x, y, z = np.ones((1, 1), np.float32), np.array(2, np.float32), ramp((4,), high=3)
    program = text_program(
        "(float[1,1] x, float y, float[N] z) => (float[1,N] m) { m = Max(x, y, z) }", options=UnfusedOptions()
    )
    np.testing.assert_array_equal(program([x, y, z])[0], np.maximum(2, z)[None])


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 16], ids=["dense", "depthwise"])
def test_an_activation_behind_a_convolution_gives_the_same_bits_as_in_its_epilogue(groups: int) -> None:
    """Into the channels of a Concat, too: those beside them stay."""
    text = f"""(float[1,16,H,9] x, float[16,{16 // groups},3,3] w, float[16] b) => (float[1,C,H,9] y) {{
        f = com.microsoft.FusedConv<activation="HardSigmoid", activation_params=[0.3,0.4], group={groups}, pads=[1,1,1,1]>(x, w, b)
        g = com.microsoft.FusedConv<activation="Tanh", group={groups}, pads=[1,1,1,1]>(x, w, b)
        y = Concat<axis=1>(f, x, g)
    }}"""
    weights = {"w": ramp((16, 16 // groups, 3, 3), low=-0.5, high=0.5), "b": ramp((16,))}
    x = ramp((1, 16, 11, 9), low=-2, high=2)
    whole, apart = (text_program(text, constants=weights, options=made) for made in (CPUOptions(), UnfusedOptions()))
    assert (
        {spec.function for spec in specs(apart)} >= {activate_rows} > {spec.function for spec in specs(whole)} & {activate_rows}
    )
    np.testing.assert_array_equal(apart([x])[0], whole([x])[0])


@pytest.mark.slow
def test_an_activation_behind_a_product_gives_the_same_bits_as_in_its_epilogue() -> None:
    text = """(float[M,8] x, float[8,40] w, float[40] b) => (float[M,40] y) {
        y = com.microsoft.FusedGemm<activation="Sigmoid">(x, w, b)
    }"""
    weights, x = {"w": ramp((8, 40), low=-0.5, high=0.5), "b": ramp((40,))}, ramp((70, 8))
    whole, apart = (text_program(text, constants=weights, options=made) for made in (CPUOptions(), UnfusedOptions()))
    assert len(specs(apart)) == len(specs(whole)) + 1
    np.testing.assert_array_equal(apart([x])[0], whole([x])[0])


@pytest.mark.slow
def test_a_model_gives_the_same_bits_without_fused_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[Array]:
        made = ort_lite.InferenceSession(SILERO, providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(7)
        state, found = np.zeros((2, 1, 128), np.float32), []
        for _ in range(3):
            sound = rng.standard_normal((1, 576), np.float32)
            out, state = made.run(None, {"input": sound, "state": state, "sr": np.array(16000)})
            found += [out, state]
        return found

    want = results()
    monkeypatch.setattr(CPUOptions, "kernels", UnfusedOptions.kernels)
    for got, wanted in zip(results(), want, strict=True):
        np.testing.assert_array_equal(got, wanted)
