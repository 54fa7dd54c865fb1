"""Decoding with a folder of onnxruntime-genai's builder: ort-lite, onnxruntime and onnxruntime-genai in turn, and the memory's speed.

    python -m tests.benchmarks.decode build DIR      # Qwen2.5 of 0.5 billion parameters in 4 bits, random weights: DIR/qwen2_24l_int4
    python -m tests.benchmarks.decode measure FOLDER [--threads N] [--prompt N] [--tokens N] [--rounds N] [--room N] [--without NAME]

A round runs the prompt and decodes `--tokens` tokens with each runtime, one after the other. `plain` feeds the past and takes the
present, as `run()` returns it. `bound` binds one buffer with room for `--room` tokens to past and present. `read` only reads what a
step must read: the weights, without the table of embeddings, and the keys and values so far. Times of a step are medians over the
rounds of a round's median; p99 is over all steps. Both commands need the environment of tests/benchmarks/zoo.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numba
import numpy as np
import onnx
import onnxruntime

import ort_lite

Run = Callable[[Sequence[int], int], Iterator[None]]
"""Yields after the prompt, and after each further token."""


class Folder:
    """A folder of the builder: the names of its caches, and the shape of a token in one."""

    def __init__(self, folder: Path) -> None:
        decoder = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]
        self.folder, self.path = folder, str(folder / decoder["filename"])
        self.layers, self.heads, self.size = decoder["num_hidden_layers"], decoder["num_key_value_heads"], decoder["head_size"]
        self.caches = [
            (decoder["inputs"][f"past_{kind}_names"] % layer, decoder["outputs"][f"present_{kind}_names"] % layer)
            for layer in range(self.layers)
            for kind in ("key", "value")
        ]

    def cache(self, length: int) -> np.ndarray[Any, Any]:
        return np.zeros((1, self.heads, length, self.size), np.float32)


def plain(runtime: Any, folder: Folder, threads: int) -> Run:
    session = _session(runtime, folder, threads)

    def run(prompt: Sequence[int], count: int) -> Iterator[None]:
        pasts, tokens, seen = [folder.cache(0) for _ in folder.caches], list(prompt), 0
        for _ in range(count):
            seen += len(tokens)
            feeds = {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, seen), np.int64)}
            feeds |= {past: value for (past, _), value in zip(folder.caches, pasts, strict=True)}
            logits, *pasts = session.run(["logits", *(present for _, present in folder.caches)], feeds)
            tokens = [int(logits[0, -1].argmax())]
            yield

    return run


def bound(runtime: Any, folder: Folder, threads: int, room: int) -> Run:
    session = _session(runtime, folder, threads)

    def run(prompt: Sequence[int], count: int) -> Iterator[None]:
        binding, tokens, seen = session.io_binding(), list(prompt), 0
        binding.bind_output("logits", "cpu")  # get_outputs() has the order of binding
        for past, present in folder.caches:
            value = runtime.OrtValue.ortvalue_from_numpy(folder.cache(room))
            binding.bind_ortvalue_input(past, value)
            binding.bind_ortvalue_output(present, value)
        mask = np.zeros((1, room), np.int64)
        for step in range(count):
            if step < 2:  # logits of another shape: onnxruntime keeps the output of the first run otherwise
                binding.bind_output("logits", "cpu")
            seen += len(tokens)
            mask[0, :seen] = 1
            binding.bind_cpu_input("input_ids", np.array([tokens]))
            binding.bind_cpu_input("attention_mask", mask)
            session.run_with_iobinding(binding)
            tokens = [int(binding.get_outputs()[0].numpy()[0, -1].argmax())]
            yield

    return run


def _session(runtime: Any, folder: Folder, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    return runtime.InferenceSession(folder.path, options, providers=["CPUExecutionProvider"])


def genai(folder: Folder, threads: int, room: int) -> Run:
    import onnxruntime_genai

    config = onnxruntime_genai.Config(str(folder.folder))
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
    model = onnxruntime_genai.Model(config)

    def run(prompt: Sequence[int], count: int) -> Iterator[None]:
        params = onnxruntime_genai.GeneratorParams(model)
        params.set_search_options(max_length=room, min_length=room, do_sample=False)
        generator = onnxruntime_genai.Generator(model, params)
        generator.append_tokens(np.array(prompt, np.int32))
        generator.generate_next_token()
        yield
        for _ in range(count - 1):
            generator.generate_next_token()
            yield

    return run


def read(folder: Folder, threads: int) -> Run:
    model = onnx.load(folder.path, load_external_data=False)
    looked_up = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    looked_up |= {
        name for node in model.graph.node if node.op_type in ("GroupQueryAttention", "RotaryEmbedding") for name in node.input
    }
    sizes = [_nbytes(tensor) for tensor in model.graph.initializer if tensor.name not in looked_up]
    arrays = [np.ones(size // 64 * 8, np.uint64) for size in sizes if size >= 64]
    print(f"weights of a step: {sum(sizes) / 1e6:.1f} MB")
    caches = [np.ones((folder.heads, 1 << 16, folder.size), np.float32).view(np.uint64) for _ in folder.caches]
    pool = ThreadPoolExecutor(threads)

    def part(index: int, seen: int) -> int:
        total = 0
        for array in arrays:
            share = len(array) // threads
            total += int(_sum(array[index * share : (index + 1) * share]))
        for cache in caches[index::threads]:
            for head in range(folder.heads):
                total += int(_sum(cache[head, :seen].reshape(-1)))
        return total

    def run(prompt: Sequence[int], count: int) -> Iterator[None]:
        yield
        for step in range(count - 1):
            list(pool.map(part, range(threads), [len(prompt) + step] * threads))
            yield

    return run


def _nbytes(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


@numba.njit(nogil=True)
def _sum(array: np.ndarray[Any, Any]) -> np.uint64:
    """Read an array in four places at once, which is the fastest way that was found."""
    share, total = len(array) // 4, np.uint64(0)
    for k in range(share):
        total += array[k] + array[k + share] + array[k + 2 * share] + array[k + 3 * share]
    return total


def main() -> None:
    arguments = _arguments()
    if arguments.command == "build":
        from tests.benchmarks.zoo.decoders import qwen2_24l_int4

        place = arguments.folder / "qwen2_24l_int4"
        place.mkdir(parents=True)
        qwen2_24l_int4(place)
    else:
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    """Print the times of each runtime: first token, step, p99 of a step in milliseconds, and the step over the read alone."""
    folder, threads, room = Folder(arguments.folder), arguments.threads, arguments.room or arguments.prompt + arguments.tokens
    makers: dict[str, Callable[[], Run]] = {
        "ort-lite plain": lambda: plain(ort_lite, folder, threads),
        "ort-lite bound": lambda: bound(ort_lite, folder, threads, room),
        "onnxruntime plain": lambda: plain(onnxruntime, folder, threads),
        "onnxruntime bound": lambda: bound(onnxruntime, folder, threads, room),
        "genai": lambda: genai(folder, threads, room),
        "read": lambda: read(folder, threads),
    }
    runs = {name: make() for name, make in makers.items() if name not in arguments.without}
    firsts: dict[str, list[float]] = {name: [] for name in runs}
    steps: dict[str, list[list[float]]] = {name: [] for name in runs}
    prompt = np.random.default_rng(1).integers(5, 990, arguments.prompt).tolist()
    for number in range(arguments.rounds + 1):
        for name, run in runs.items():
            times = list(_times(run(prompt, arguments.tokens)))
            if number:  # the first round plans and compiles
                firsts[name].append(times[0])
                steps[name].append(times[1:])
    print(f"{arguments.folder.name}, {threads} threads, {arguments.prompt} + {arguments.tokens} tokens, room for {room}")
    print(f"{'':20}    first    step     p99  tokens/s   of read")
    reading = median(map(median, steps["read"])) if "read" in steps else float("nan")
    for name, rounds in steps.items():
        first, step = median(firsts[name]), median(map(median, rounds))
        late = float(np.quantile(np.concatenate(rounds), 0.99))
        print(f"{name:20} {first * 1e3:8.2f} {step * 1e3:7.3f} {late * 1e3:7.3f} {1 / step:9.0f} {step / reading:9.2f}")


def _times(run: Iterator[None]) -> Iterator[float]:
    """Yield the seconds until each token."""
    began = perf_counter()
    for _ in run:
        now = perf_counter()
        yield now - began
        began = perf_counter()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.decode", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build a model").add_argument("folder", type=Path, metavar="DIR")
    measuring = commands.add_parser("measure", help="compare with other runtimes")
    measuring.add_argument("folder", type=Path, metavar="FOLDER", help="a folder of onnxruntime-genai's builder")
    measuring.add_argument("--threads", type=int, default=1, help="(default: 1)")
    measuring.add_argument("--prompt", type=int, default=128, help="tokens of the prompt (default: 128)")
    measuring.add_argument("--tokens", type=int, default=64, help="tokens to decode (default: 64)")
    measuring.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    measuring.add_argument("--room", type=int, default=0, help="tokens that the bound buffers hold (default: prompt + tokens)")
    measuring.add_argument("--without", action="append", default=[], help="leave one out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
