"""The accelerator in sessions, beside the CPU provider: results, memory, layouts, fusions, threads, saved programs, options."""

import gc
import json
import random
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from ort_lite_accelerator import AcceleratorExecutionProvider, program
from ort_lite_accelerator.kernels import KERNELS
from ort_lite_accelerator.memory import CardTensor, CardTransfer
from ort_lite_accelerator.operators import SINCE, misfit
from ort_lite_accelerator.program import CardExecutable
from ort_lite_accelerator.queue import CardQueue

import ort_lite
from ort_lite.errors import CompileError, InvalidArgument, NoDevice, OutOfMemory, ProviderError
from ort_lite.memory.allocators import ArenaAllocator
from ort_lite.plugins import Registry
from ort_lite.provider import CPU, Device, Rejection
from ort_lite.transform import NHWC_DOMAIN
from tests.models.light_models import image, randomised
from tests.threads import join

NAME = AcceleratorExecutionProvider.name
HEAD = '<ir_version: 8, opset_import: ["": 17]>'
PLAIN = "(float[1,3,8,8] x, float[4,3,3,3] v, float[4,4,3,3] w) => (float[1,4,8,8] y)"
CHAIN = f"{PLAIN} {{ a = Conv<pads=[1,1,1,1]>(x, v)  b = Relu(a)  c = Conv<pads=[1,1,1,1]>(b, w)  y = Relu(c) }}"
RESIDUAL = (
    f"{PLAIN} {{ a = Conv<pads=[1,1,1,1]>(x, v)  b = Relu(a)  c = Conv<pads=[1,1,1,1]>(b, w)  d = Add(c, b)  y = Relu(d) }}"
)
MLP = """(float[N,6] x, float[6,5] v, float[5] b, float[5,3] w, float[3] c) => (float[N,3] y) {
    p = MatMul(x, v)  q = Add(p, b)  r = Relu(q)  y = Gemm(r, w, c)
}"""


def model(text: str) -> onnx.ModelProto:
    """Inputs but x become constants with random contents."""
    made, rng = onnx.parser.parse_model(f"{HEAD} main {text}"), np.random.default_rng(0)
    for value in list(made.graph.input)[1:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        weights = rng.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(weights, value.name))
    del made.graph.input[1:]
    return made


def session(source: Any, *accelerators: Any, options: ort_lite.SessionOptions | None = None) -> ort_lite.InferenceSession:
    given = accelerators or (AcceleratorExecutionProvider(),)
    return ort_lite.InferenceSession(source, options, providers=[*given, "CPUExecutionProvider"])


def on_cpu(source: Any, feed: dict[str, Any]) -> list[Any]:
    return ort_lite.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, feed)


def pixels(seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype(np.float32)}


def operators(made: ort_lite.InferenceSession) -> list[str]:
    places = made.explain().assignment.placements.values()
    return [("" if p.provider == NAME else "CPU ") + p.node.op_type + "*" * (p.node.domain == NHWC_DOMAIN) for p in places]


def instructions(made: ort_lite.InferenceSession) -> list[str]:
    """Kernels that one run calls, by its profile."""
    events = json.loads(Path(made.end_profiling()).read_text())
    return [event["args"]["kernel"] for event in events if event["cat"] == "Kernel" and event["args"]["provider"] == NAME]


def profiled(tmp_path: Path) -> ort_lite.SessionOptions:
    options = ort_lite.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    return options


# Results


@pytest.mark.slow
def test_squeezenet_gives_what_the_cpu_gives() -> None:
    squeezenet = randomised("squeezenet")
    made = session(squeezenet)
    feed = {made.get_inputs()[0].name: image()}
    for mine, right in zip(made.run(None, feed), on_cpu(squeezenet, feed), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-4)
    taken = [name.rstrip("*") for name in operators(made) if not name.startswith("CPU")]
    assert taken.count("Conv") == taken.count("Relu") == 26
    assert sum(name == "CPU Transpose" for name in operators(made)) == 2, "channels-last from end to end"


@pytest.mark.slow
def test_resnet50_is_one_partition_between_two_transposes_until_its_images_end() -> None:
    resnet = randomised("resnet50")
    made = session(resnet)
    names = operators(made)
    assert [k for k, name in enumerate(names) if name.endswith("Transpose")] == [0, names.index("CPU AveragePool") - 1]
    assert sum(name.endswith("*") for name in names) == 53 + 1, "Conv, with what BatchNormalization was, and MaxPool"
    images = [p.partition for p in made.explain().assignment.placements.values() if p.node.domain == NHWC_DOMAIN]
    assert len(set(images)) == 1
    feed = {made.get_inputs()[0].name: image()}
    for mine, right in zip(made.run(None, feed), on_cpu(resnet, feed), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_an_mlp_is_one_partition_with_the_right_result(rows: int) -> None:
    made = session(model(MLP))
    feed = {"x": np.random.default_rng(rows).standard_normal((rows, 6)).astype(np.float32)}
    np.testing.assert_allclose(made.run(None, feed)[0], on_cpu(model(MLP), feed)[0], rtol=1e-5, atol=1e-5)
    assert [p.provider.name for p in made.explain().assignment.partitions] == [NAME]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("y = Softmax(x)", "operator"),
        ("y = MaxPool<kernel_shape=[2,2], ceil_mode=1>(x)", "attribute"),
        ('y = Conv<auto_pad="SAME_UPPER">(x, v)', "attribute"),
        ("y = Conv(x, x)", "constant"),
    ],
)
def test_what_it_declines_it_declines_with_a_reason(body: str, code: str) -> None:
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    planned = ort_lite.plan(
        model(f"(float[1,3,8,8] x, float[4,3,3,3] v) => (float[N,C,H,W] y) {{ {body} }}"),
        [AcceleratorExecutionProvider(), "CPUExecutionProvider"],
        options,
    )
    assert code in [said[NAME].code for said in planned.verdicts().values()]


# Layout and fusions


@pytest.mark.parametrize("text", [CHAIN, RESIDUAL], ids=["chain", "residual"])
def test_transposes_are_at_the_borders_alone(text: str) -> None:
    made = session(model(text))
    middle = ["Conv*", "Relu", "Conv*", *(["Add"] if text is RESIDUAL else []), "Relu"]
    assert operators(made) == ["CPU Transpose", *middle, "CPU Transpose"]
    assert [p.provider.name for p in made.explain().assignment.partitions].count(NAME) == 1
    np.testing.assert_allclose(made.run(None, pixels())[0], on_cpu(model(text), pixels())[0], rtol=1e-4, atol=1e-4)


def network(rng: random.Random) -> str:
    """Ten nodes, each of some of those before it; images keep their size."""
    forms = (
        "{o} = Conv<pads=[1,1,1,1]>({a}, v)",
        "q{o} = Concat<axis=1>({a}, {b})  {o} = Conv(q{o}, w)",
        "{o} = Add({a}, {b})",
        "g{o} = GlobalAveragePool({a})  {o} = Mul({b}, g{o})",
        "{o} = Mul(k, {a})",
        "{o} = Sub({a}, l)",
        "{o} = Max({a}, {b})",
        "{o} = Relu({a})",
        "{o} = Sigmoid({a})",
        "{o} = Softmax({a})",
    )
    names = ["x"]
    lines = []
    for k in range(10):
        a, b = rng.choices(names[-4:], k=2)
        form = rng.choice(forms)
        lines.append(form.format(o=f"n{k}", a=a, b=b))
        names.append(f"n{k}")
    head = "(float[1,3,4,5] x, float[3,3,3,3] v, float[3,6,1,1] w, float[3,1,1] k, float[5] l)"
    return f"{head} => (float[1,3,4,5] n9, float[1,3,4,5] {rng.choice(names[1:-1])}) {{ {'  '.join(lines)} }}"


@pytest.mark.slow
@pytest.mark.parametrize("put_back", [False, True], ids=["all taken", "some put back"])
def test_random_networks_give_what_the_cpu_gives(put_back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = restored = 0
    for seed in range(40):
        rng = random.Random(seed)
        text = network(rng)
        bad = {f"Conv_{k}" for k in range(10) if put_back and rng.random() < 0.3}
        monkeypatch.setattr(
            "ort_lite_accelerator.provider.misfit",
            lambda node, bad=bad: Rejection(node, "layout", "") if node.domain and node.name in bad else misfit(node),
        )
        made = session(model(text))
        feed = {"x": np.random.default_rng(seed).standard_normal((1, 3, 4, 5)).astype(np.float32)}
        for mine, right in zip(made.run(None, feed), on_cpu(model(text), feed), strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-4 * max(1, np.abs(right).max()), err_msg=text)
        turned += sum(name.endswith("*") for name in operators(made))
        restored += len(made.explain().assignment.remarks)
    assert turned > 40
    assert (restored > 0) == put_back


@pytest.mark.parametrize(
    ("text", "level", "expected"),
    [
        (RESIDUAL, "ORT_ENABLE_ALL", ["Conv", "Conv"]),
        (RESIDUAL, "ORT_ENABLE_BASIC", ["Conv", "Relu", "Conv", "Add", "Relu"]),
        (MLP, "ORT_ENABLE_ALL", ["Gemm", "Relu", "Gemm"]),
    ],
)
def test_a_group_is_one_instruction_and_the_profile_has_it(text: str, level: str, expected: list[str], tmp_path: Path) -> None:
    options = profiled(tmp_path)
    options.graph_optimization_level = getattr(ort_lite.GraphOptimizationLevel, level)
    made = session(model(text), options=options)
    feed = {"x": np.ones([dim if isinstance(dim, int) else 2 for dim in made.get_inputs()[0].shape], np.float32)}
    np.testing.assert_allclose(made.run(None, feed)[0], on_cpu(model(text), feed)[0], rtol=1e-4, atol=1e-4)
    facts = [facts for name, facts in made.explain().facts.items() if name.startswith(NAME)]
    assert [fact["python_steps"] for fact in facts] == [len(expected)]
    assert instructions(made) == expected


# Memory


def test_values_are_on_the_card_and_nobody_else_reads_them() -> None:
    provider = AcceleratorExecutionProvider()
    inside = provider.data_transfer().copy(np.ones(2, np.float32), CPU, provider.device)
    assert not isinstance(inside, np.ndarray)
    for thing in (inside, inside.memory, inside.memory.data):
        with pytest.raises((TypeError, AttributeError)):
            memoryview(thing)
        assert np.asarray(thing).dtype == object
    assert provider.allocator().bytes_in_use > 0
    del inside, thing
    assert provider.allocator().bytes_in_use == 0


def noting(calls: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        calls.append(name)
        return function(*given)

    return call


def test_values_stay_on_a_card_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = AcceleratorExecutionProvider(device_id=1)
    made = session(model("(float[N,6] x, float[6,6] v) => (float[N,6] y) { y = MatMul(x, v) }"), provider)
    value = ort_lite.OrtValue.on(provider, np.eye(6, dtype=np.float32))
    assert str(value) == "OrtValue(tensor(float)[6, 6] on npu:1)"
    moved: list[str] = []
    for name in ("copy", "copy_into", "overwrite"):
        monkeypatch.setattr(provider.data_transfer(), name, noting(moved, name, getattr(provider.data_transfer(), name)))
    binding, states = made.io_binding(), []
    binding.bind_ortvalue_input("x", value)
    for _ in range(2):
        binding.bind_output("y", "npu", 1)
        made.run_with_iobinding(binding)
        states.append(binding.get_outputs()[0])
        binding.bind_ortvalue_input("x", states[-1])
    assert moved == []
    binding.bind_ortvalue_output("y", value)
    made.run_with_iobinding(binding)
    assert moved == ["overwrite"]
    weights = states[0].numpy()
    np.testing.assert_allclose(value.numpy(), weights @ weights @ weights, rtol=1e-4, atol=1e-4)


def test_an_array_is_put_on_the_card_that_is_named() -> None:
    ort_lite.register_provider(NAME, AcceleratorExecutionProvider)
    try:
        value = ort_lite.OrtValue.ortvalue_from_numpy(np.ones((1, 6), np.float32), "npu", 1)
    finally:
        ort_lite.unregister_provider(NAME)
    made, feed = session(model(MLP), AcceleratorExecutionProvider(device_id=1)), {"x": value.numpy()}
    np.testing.assert_allclose(made.run(None, {"x": value})[0], on_cpu(model(MLP), feed)[0], rtol=1e-5, atol=1e-5)
    for asked in (value.data_ptr, value.__dlpack__):
        with pytest.raises(InvalidArgument, match=r"`numpy\(\)` gives a copy on the CPU"):
            asked()


def test_outputs_are_in_memory_that_the_session_took(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    real = CardExecutable.into_memory

    def seen(self: CardExecutable, inputs: Any, memory: Any, state: Any) -> Any:
        given.extend(memory)
        return real(self, inputs, memory, state)

    monkeypatch.setattr(CardExecutable, "into_memory", seen)
    provider = AcceleratorExecutionProvider()
    session(model(MLP), provider).run(None, {"x": np.ones((7, 6), np.float32)})
    assert [chunk.nbytes for chunk in given] == [7 * 3 * 4]


def test_a_thread_that_ends_gives_its_stream_back() -> None:
    provider = AcceleratorExecutionProvider()
    made = session(model(CHAIN), provider)
    before = provider.allocator().bytes_in_use
    worker = threading.Thread(target=made.run, args=(None, pixels()))
    worker.start()
    join(worker)
    gc.collect()
    assert provider.allocator().bytes_in_use == before
    assert provider.allocator().statistics()["MaxInUse"] > before


def test_a_model_beyond_the_memory_is_left_to_others_and_a_run_beyond_it_says_so() -> None:
    made = session(model(CHAIN), AcceleratorExecutionProvider(mem_limit=1000))
    assert {said[NAME].code for said in made.explain().verdicts().values()} == {"budget"}
    made = session(model(MLP), AcceleratorExecutionProvider(mem_limit=1 << 13))
    with pytest.raises(OutOfMemory, match="allocator of npu:0"):
        made.run(None, {"x": np.zeros((1000, 6), np.float32)})


def test_constants_are_given_up_by_the_session() -> None:
    provider = AcceleratorExecutionProvider()
    made = session(model(CHAIN), provider)
    (partition,) = [p for p in made.explain().assignment.partitions if p.provider is provider]
    for value in partition.constants:
        with pytest.raises(Exception, match="given up"):
            np.asarray(value.constant)


# Sessions, threads, cards


def test_two_sessions_on_two_cards() -> None:
    first, second = (AcceleratorExecutionProvider(device_id=k) for k in (0, "1"))
    assert [str(p.device) for p in (first, second)] == ["npu:0", "npu:1"]
    chain, residual = session(model(CHAIN), first), session(model(RESIDUAL), second)
    for _ in range(2):
        for made, text in ((chain, CHAIN), (residual, RESIDUAL)):
            np.testing.assert_allclose(made.run(None, pixels())[0], on_cpu(model(text), pixels())[0], rtol=1e-4, atol=1e-4)
    expected = {"device_id": 1, "mem_limit": 1 << 30, "memories": "", "kernel_ms": 0}
    assert residual.get_provider_options()[NAME] == expected


def test_a_session_with_both_cards_takes_values_through_the_host() -> None:
    both = [AcceleratorExecutionProvider(device_id=k) for k in (0, 1)]
    text = f"{PLAIN} {{ a = Conv<pads=[1,1,1,1]>(x, v)  b = Relu(a)  y = Mul(b, b) }}"
    made = ort_lite.InferenceSession(model(text), providers=[(both[0], {"limit_nodes": 2}), both[1], "CPUExecutionProvider"])
    assert {str(p.provider.device) for p in made.explain().assignment.partitions} >= {"npu:0", "npu:1"}
    np.testing.assert_allclose(made.run(None, pixels())[0], on_cpu(model(text), pixels())[0], rtol=1e-4, atol=1e-4)


# Saved programs


@pytest.mark.parametrize("device_id", [0, 1])
def test_a_saved_program_runs_on_any_card_without_compiling(
    device_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(model(RESIDUAL)).save_compiled(tmp_path / "saved.onnx")
    monkeypatch.setattr(AcceleratorExecutionProvider, "compile", lambda self, partitions: pytest.fail("it compiled"))
    made = session(tmp_path / "saved.onnx", AcceleratorExecutionProvider(device_id=device_id))
    assert operators(made) == ["CPU Transpose", "EPContext", "CPU Transpose"]
    np.testing.assert_allclose(made.run(None, pixels())[0], on_cpu(model(RESIDUAL), pixels())[0], rtol=1e-4, atol=1e-4)


def test_bytes_that_are_no_program_are_an_error(tmp_path: Path) -> None:
    session(model(CHAIN)).save_compiled(tmp_path / "saved.onnx")
    saved = onnx.load(tmp_path / "saved.onnx")
    (context,) = (a for node in saved.graph.node for a in node.attribute if a.name == "ep_cache_context")
    context.s = b"nonsense"
    with pytest.raises(CompileError, match=f"{NAME}: deserialize failed"):
        session(saved)


# Options, costs, packaging


def test_its_options_are_checked() -> None:
    with pytest.raises(NoDevice, match="there is no card 2; there are 0 to 1"):
        AcceleratorExecutionProvider(device_id=2)
    with pytest.raises(ProviderError, match="knows no option device"):
        AcceleratorExecutionProvider(device=1)
    with pytest.raises(ProviderError, match="device_id is '-1'; expected a number"):
        AcceleratorExecutionProvider(device_id="-1")


def test_small_work_is_not_worth_the_way_to_the_card() -> None:
    for size, taken in ((2, False), (2048, True)):
        text = f"(float[{size},{size}] x, float[{size},{size}] w) => (float[{size},{size}] y) {{ y = MatMul(x, w) }}"
        bare = onnx.parser.parse_model(f"{HEAD} main {text}")
        planned = ort_lite.plan(bare, [AcceleratorExecutionProvider(), "CPUExecutionProvider"], partitioning="cost")
        assert [p.provider for p in planned.assignment.placements.values()] == [NAME if taken else "CPUExecutionProvider"]


def test_its_entry_point_leads_to_the_class(tmp_path: Path) -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((group, entries),) = project["entry-points"].items()
    folder = tmp_path / "ort_lite_accelerator-0.1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("\n".join([f"[{group}]", *(f"{name} = {path}" for name, path in entries.items())]))
    registry = Registry([str(tmp_path)])
    assert registry.provider(NAME) is AcceleratorExecutionProvider
    assert registry.available_providers() == ["CPUExecutionProvider"], "it takes part only where it is named"


def test_a_unit_is_taken_whole_or_not_at_all() -> None:
    for limit, taken in ((1, 0), (2, 2), (4, 2), (5, 5)):
        made = session(model(RESIDUAL), (AcceleratorExecutionProvider(), {"limit_nodes": limit}))
        assert sum(place.provider == NAME for place in made.explain().assignment.placements.values()) == taken


def test_the_cpu_provider_still_knows_a_constant_that_a_body_gave_to_the_device() -> None:
    """The CPU provider lowers the Scan in the run, since Dropout's mode is fed, and infers its body once more."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        main (float[2] x, bool b) => (float[N] d, float[M,A,B] y) {
            c = Constant <value = float[2] {1, 2}> ()
            d, mask = Dropout(c, , b)
            y = Scan <num_scan_inputs = 1, body = g (float[1] e) => (float[A,B] z) {
                s = Constant <value = int64[2] {2, 1}> ()
                z = Reshape(x, s)
            }> (d)
        }""")
    x = np.array([3, 4], np.float32)
    [result] = session(model).run(["y"], {"x": x, "b": np.array(False)})
    np.testing.assert_array_equal(result, [x[:, None]] * 2)


# Host values

HEADS = """(float[B,T,8] x, int64[B,T] ids, float[9,8] table, float[8,8] v, float[8,8] w) => (float[B,2,T,T] y, int64[1] count)
    <int64[1] first = {0}, int64[1] second = {1}, int64[2] heads = {2, 4}, int64 one = {1}, int64[1] front = {0}> {
    e = Gather(table, ids)
    h = Add(e, x)
    s = Shape(h)
    b = Gather(s, first)
    scalar = Gather(s, one)
    count = Unsqueeze(scalar, front)
    to = Concat<axis=0>(b, count, heads)
    q = MatMul(h, v)
    p = Reshape(q, to)
    k = MatMul(h, w)
    r = Reshape(k, to)
    i = Transpose<perm=[0,2,1,3]>(p)
    j = Transpose<perm=[0,2,3,1]>(r)
    y = MatMul(i, j)
}"""


def heads() -> onnx.ModelProto:
    """An attention layer as exporters write it: sizes come from Shape, Gather and Concat."""
    made, rng = onnx.parser.parse_model(f"{HEAD} main {HEADS}"), np.random.default_rng(0)
    for value in list(made.graph.input)[2:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        made.graph.initializer.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), value.name))
    del made.graph.input[2:]
    return made


class Counting(CardTransfer):
    """It notes what is copied where."""

    def __init__(self, arena: ArenaAllocator, queue: CardQueue) -> None:
        super().__init__(arena, queue)
        self.copies: list[str] = []

    def copy(self, value: Any, source: Device, destination: Device) -> Any:
        self.copies.append(f"{source} -> {destination}")
        return super().copy(value, source, destination)

    def copy_into(self, value: Any, source: Device, destination: Device, memory: Any) -> CardTensor:
        self.copies.append(f"{source} -> {destination}")
        return super().copy_into(value, source, destination, memory)


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (2, 1), (3, 0)])
def test_nothing_but_outputs_is_read_from_the_card(batch: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINCE, "Transpose", 1)
    monkeypatch.setitem(KERNELS, "Transpose", lambda stream, s, x: np.transpose(x, s["perm"]))
    monkeypatch.setitem(program._DEFAULTS, "Transpose", {"perm": None})
    card = AcceleratorExecutionProvider()
    card._transfer = counting = Counting(card.allocator(), card._queue)
    options = ort_lite.SessionOptions()
    options.graph_optimization_level = ort_lite.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = session(heads(), card, options=options)
    assert [p.provider.name for p in made.explain().assignment.partitions] == [NAME]
    rng = np.random.default_rng(length)
    feed = {"x": rng.standard_normal((batch, length, 8)).astype(np.float32), "ids": rng.integers(-9, 9, (batch, length))}
    for mine, right in zip(made.run(None, feed), on_cpu(heads(), feed), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4)
    assert counting.copies == ["cpu:0 -> npu:0", "npu:0 -> cpu:0"], "x and y: ids and count are host values"


def test_saved_programs_keep_their_host_values(tmp_path: Path) -> None:
    made = session(heads())
    for embed in (True, False):
        path = tmp_path / f"{embed}.onnx"
        options = ort_lite.SessionOptions()
        options.add_session_config_entry("ep.context_enable", "1")
        options.add_session_config_entry("ep.context_file_path", str(path))
        options.add_session_config_entry("ep.context_embed_mode", str(int(embed)))
        session(heads(), options=options)
        again = session(path)
        partitions = [p for p in again.explain().assignment.partitions if p.provider.name == NAME]
        assert {value.name for p in partitions for value in p.host_values} >= {"ids", "count"}
        feed = {"x": np.ones((2, 3, 8), np.float32), "ids": np.arange(6).reshape(2, 3)}
        for mine, right in zip(again.run(None, feed), made.run(None, feed), strict=True):
            np.testing.assert_array_equal(mine, right)
