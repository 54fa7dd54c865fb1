"""A decoder as onnxruntime-genai's builder writes Qwen2: its caches stay on the device, and in one place there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from ort_lite_xla import XLAExecutionProvider
from ort_lite_xla.program import HostBorder
from ort_lite_xla.transfer import XlaTransfer

import ort_lite
from ort_lite.dtypes import Array
from ort_lite.provider import Device
from tests.single_node import CPU, close

XLA = XLAExecutionProvider.name
PLACE = XLAExecutionProvider().device
LAYERS, HIDDEN, HEADS, GROUPS, SIZE, INNER, WORDS, ROOM = 4, 64, 4, 2, 16, 96, 50, 20
PROMPT = [3, 14, 15, 9, 26, 5, 35, 8]
STEPS = 4  # up to 12 tokens, which share a program
LINKS = {f"past_key_values.{layer}.{part}": f"present.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")}
TOKEN, LOGITS = 8, 4 * WORDS
NEXT_MASK = """(int64[1,T] mask) => (int64[1,T] next) <int64[1] axis = {1}, int64[1,1] one = {1}> {
    length = ReduceSum(mask, axis)  next = ScatterElements<axis = 1>(mask, length, one) }"""

Step = Callable[[list[int], int], Array]
"""Runs the decoder on new tokens, the last of which is the n-th of the text, and returns the logits."""


class Writer:
    """The text of the decoder, and its weights: float32, or 4 bits in blocks of 32."""

    def __init__(self, bits: int) -> None:
        self.bits, self.rng = bits, np.random.default_rng(0)
        self.weights: dict[str, Array] = {"one": np.array(1), "axis": np.array([1])}
        self.lines: list[str] = []

    def weight(self, name: str, *shape: int) -> str:
        self.weights[name] = (self.rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)
        return name

    def product(self, y: str, x: str, rows: int, columns: int) -> None:
        if self.bits == 32:
            self.lines.append(f"{y} = MatMul({x}, {self.weight(f'w_{y}', rows, columns)})")
            return
        blocks = (columns, rows // 32)
        self.weights[f"w_{y}"] = self.rng.integers(0, 256, (*blocks, 16), np.uint8)
        self.weights[f"s_{y}"] = self.rng.uniform(0.01, 0.03, blocks).astype(np.float32)
        form = f"K = {rows}, N = {columns}, bits = 4, block_size = 32"
        self.lines.append(f"{y} = com.microsoft.MatMulNBits<{form}>({x}, w_{y}, s_{y})")

    def layer(self, k: int, x: str) -> str:
        caches = [f"past_key_values.{k}.{part}" for part in ("key", "value")]
        presents = ", ".join(f'"{LINKS[cache]}"' for cache in caches)
        attributes = f"num_heads = {HEADS}, kv_num_heads = {GROUPS}, do_rotary = 1"
        self.product(f"p{k}", x, HIDDEN, (HEADS + 2 * GROUPS) * SIZE)
        self.lines += [
            f"q{k} = Add(p{k}, {self.weight(f'b{k}', (HEADS + 2 * GROUPS) * SIZE)})",
            f'a{k}, {presents} = com.microsoft.GroupQueryAttention<{attributes}>(q{k}, , , "{caches[0]}", "{caches[1]}", last, '
            "total, cos, sin)",
        ]
        self.product(f"o{k}", f"a{k}", HEADS * SIZE, HIDDEN)
        self.lines.append(f"n{k}, , , s{k} = com.microsoft.SkipSimplifiedLayerNormalization(r{k}, o{k}, scale)")
        self.product(f"g{k}", f"n{k}", HIDDEN, INNER)
        self.product(f"u{k}", f"n{k}", HIDDEN, INNER)
        self.lines.append(f"t{k} = Sigmoid(g{k}) h{k} = Mul(g{k}, t{k}) m{k} = Mul(h{k}, u{k})")
        self.product(f"d{k}", f"m{k}", INNER, HIDDEN)
        self.lines.append(f"x{k + 1}, , , r{k + 1} = com.microsoft.SkipSimplifiedLayerNormalization(s{k}, d{k}, scale)")
        return f"x{k + 1}"

    def model(self) -> bytes:
        angles = np.arange(ROOM)[:, None] * 1e4 ** (-np.arange(0, SIZE, 2) / SIZE)
        self.weights |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
        self.weights["scale"] = np.ones(HIDDEN, np.float32)
        self.lines += [
            "lengths = ReduceSum<keepdims = 0>(attention_mask, axis) before = Sub(lengths, axis) last = Cast<to = 6>(before)",
            "shape = Shape(attention_mask) rows = Gather(shape, one) total = Cast<to = 6>(rows)",
            f"r0 = Gather({self.weight('words', WORDS, HIDDEN)}, input_ids) x0 = SimplifiedLayerNormalization(r0, scale)",
        ]
        x = "x0"
        for k in range(LAYERS):
            x = self.layer(k, x)
        self.product("logits", x, HIDDEN, WORDS)
        inputs = [
            "int64[B,S] input_ids",
            "int64[B,T] attention_mask",
            *(f'float[B,{GROUPS},P,{SIZE}] "{name}"' for name in LINKS),
        ]
        outputs = [f"float[B,S,{WORDS}] logits", *(f'float[B,{GROUPS},Q,{SIZE}] "{name}"' for name in LINKS.values())]
        text = f"main ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(self.lines)} }}"
        made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> {text}')
        made.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in self.weights.items())
        return bytes(made.SerializeToString())


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The destination and bytes of all copies: those of the transfer, and those of pads and cuts by the host."""
    found: list[tuple[str, int]] = []
    copy, call = XlaTransfer.copy, HostBorder.__call__

    def counted(self: XlaTransfer, value: Any, source: Device, destination: Device) -> Any:
        found.append((destination.kind, value.nbytes))
        return copy(self, value, source, destination)

    def padded(self: HostBorder, values: list[Any]) -> None:
        found.extend(("padded", values[k].nbytes) for k in self.places)
        call(self, values)

    monkeypatch.setattr(XlaTransfer, "copy", counted)
    monkeypatch.setattr(HostBorder, "__call__", padded)
    return found


def empty_caches() -> dict[str, Array]:
    return {name: np.zeros((1, GROUPS, ROOM, SIZE), np.float32) for name in LINKS}


def on_device(array: Array) -> ort_lite.OrtValue:
    return ort_lite.OrtValue.ortvalue_from_numpy(array, PLACE.kind, PLACE.id)


def address(value: ort_lite.OrtValue) -> int:
    assert value.device_tensor is not None
    found: int = value.device_tensor.value.unsafe_buffer_pointer()
    return found


def plain(session: ort_lite.InferenceSession) -> Step:
    """Steps with caches in NumPy arrays."""
    caches = empty_caches()

    def step(ids: list[int], length: int) -> Array:
        mask = np.ones((1, length), np.int64)
        logits: Array
        logits, *presents = session.run(None, {"input_ids": np.array([ids]), "attention_mask": mask, **caches})
        caches.update(zip(LINKS, presents, strict=True))
        return logits

    return step


def bound(session: ort_lite.InferenceSession, bind_mask: Callable[[ort_lite.IOBinding, int], None]) -> Step:
    """Steps with one OrtValue for past and present, which stays where it is."""
    caches = {name: on_device(array) for name, array in empty_caches().items()}
    places = [address(value) for value in caches.values()]

    def step(ids: list[int], length: int) -> Array:
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([ids]))
        bind_mask(binding, length)
        for name, value in caches.items():
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(LINKS[name], value)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        assert [address(value) for value in caches.values()] == places
        logits: Array = binding.get_outputs()[-1].numpy()
        return logits

    return step


def in_state(session: ort_lite.InferenceSession) -> Step:
    """Steps with the caches in a run state."""
    state = session.create_run_state(LINKS, empty_caches())

    def step(ids: list[int], length: int) -> Array:
        feeds = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, length), np.int64)}
        logits: Array
        (logits,) = session.run(["logits"], feeds, state=state)
        return logits

    return step


def mask_from_host(binding: ort_lite.IOBinding, length: int) -> None:
    """Bind a mask that is as long as the text."""
    binding.bind_cpu_input("attention_mask", np.ones((1, length), np.int64))


def mask_on_device() -> Callable[[ort_lite.IOBinding, int], None]:
    """Return a function that binds a mask of ROOM tokens, to which another session adds one in each step."""
    text = f'<ir_version: 10, opset_import: ["": 21]> main {NEXT_MASK}'
    session = ort_lite.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), providers=[XLA])
    mask = on_device(np.array([[1] * (len(PROMPT) - 1) + [0] * (ROOM - len(PROMPT) + 1)]))

    def bind(to: ort_lite.IOBinding, length: int) -> None:
        """Add the tokens up to the length."""
        for _ in range(length - seen.pop()):
            binding = session.io_binding()
            binding.bind_ortvalue_input("mask", mask)
            binding.bind_ortvalue_output("next", mask)
            session.run_with_iobinding(binding)
        seen.append(length)
        to.bind_ortvalue_input("attention_mask", mask)

    seen = [len(PROMPT) - 1]
    return bind


def decode(step: Step, copies: list[tuple[str, int]] | None = None) -> tuple[list[Array], list[list[tuple[str, int]]]]:
    """Run the prompt and the steps. Return the logits of each, and the copies that each step made."""
    results, made = [step(PROMPT, len(PROMPT))], []
    for k in range(STEPS):
        before = len(copies or ())
        results.append(step([int(results[-1][0, -1].argmax())], len(PROMPT) + 1 + k))
        made.append((copies or [])[before:])
    return results, made


@pytest.mark.parametrize(
    ("bits", "way"), [(32, "bound"), (32, "bound, mask on the device"), (32, "state"), (4, "bound")], ids=str
)
def test_a_token_copies_itself_and_its_logits(bits: int, way: str, copies: list[tuple[str, int]]) -> None:
    """A mask that the host makes is copied too, and on JAX's CPU device the host pads it."""
    bind_mask = mask_on_device() if "mask on" in way else mask_from_host
    model = Writer(bits).model()
    session, cpu = (ort_lite.InferenceSession(model, providers=[provider]) for provider in (XLA, CPU))
    step = in_state(session) if way == "state" else bound(session, bind_mask)  # OrtValues belong to the newest session
    (results, made), (expected, _) = decode(step, copies), decode(plain(cpu))
    for got, want in zip(results, expected, strict=True):
        close(got, want)
    for k, found in enumerate(made):
        mask = [] if "mask on" in way else [(PLACE.kind, 8 * (len(PROMPT) + 1 + k))]
        assert sorted(one for one in found if one[0] != "padded") == sorted([("cpu", LOGITS), (PLACE.kind, TOKEN), *mask])
        assert {size for kind, size in found if kind == "padded"} <= {size for _, size in mask}
    assert session.explain().facts[f"{XLA}_0"]["compilations"] == 2  # of the prompt and of a step
