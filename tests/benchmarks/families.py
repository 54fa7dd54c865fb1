"""Build a tiny model of each family that onnxruntime-genai's builder knows, and compare ort-lite with onnxruntime on it.

    python -m tests.benchmarks.families FOLDER                    # every family in fp32 and int4
    python -m tests.benchmarks.families FOLDER gemma2 qwen3       # some families
    python -m tests.benchmarks.families FOLDER llama --options    # each option of the builder

Weights are random, and nothing is downloaded. Each model gets a prompt of 7 tokens and 6 steps of one token: with the past as an
input, with past and present bound to one buffer, and with two rows of which one is shorter. The environment is that of
`tests/benchmarks/zoo`, with ort-lite on PYTHONPATH.
"""

import argparse
import importlib
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.benchmarks.family_configs import CONFIGS, SCALES, SMALL, Case, cases, save_checkpoint, save_scales

PROMPT, STEPS, ROOM, WINDOW = 7, 6, 16, 6
RUNTIMES = ("ort_lite", "onnxruntime")
EXACT, ROUNDED = 1e-4, 3e-2
"""Limits of the difference. Models of 4 and 8 bits round activations to 8 bits, where one may go up in one runtime alone."""
HEAD = SMALL["head_dim"]
Feeds = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line for each model; return 1 if ort-lite fails or differs where onnxruntime runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"some of: {', '.join(CONFIGS)}")
    parser.add_argument("--options", action="store_true", help="build with each option of the builder, not only fp32 and int4")
    options = parser.parse_args(arguments)
    failed = False
    for case in cases(options.families or list(CONFIGS), options.options):
        line, good = examine(case, options.folder / case.name)
        print(f"{case.name:32} {line}", flush=True)
        failed |= not good
    return int(failed)


def examine(case: Case, folder: Path) -> tuple[str, bool]:
    """Build a model and run it. Return a line of text, and whether ort-lite does what onnxruntime does."""
    _, error = _apart(build, case, folder)
    if error:
        return f"not built: {error}", True
    words, good = [], True
    for path in sorted(folder.glob("*.onnx")):
        for way in ("plain", "bound", "rows") if shares_caches(path) else ("plain", "rows"):
            ours, theirs = (_apart(generate, runtime, path, way) for runtime in RUNTIMES)
            text, same = judge(ours, theirs, EXACT if case.precision == "fp32" else ROUNDED)
            words.append(f"{path.stem if path.stem != 'model' else ''} {way} {text}".strip())
            good &= same
    return "; ".join(words), good


def shares_caches(path: Path) -> bool:
    """Return True if past and present may be one buffer: attention then reads the lengths, and not the size of the past."""
    nodes = onnx.load(path, load_external_data=False).graph.node
    return any(node.op_type == "GroupQueryAttention" for node in nodes)


def _apart(function: Any, *arguments: Any) -> tuple[Any, str]:
    """Call a function in a process of its own. Return its result and the first line of its error."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        future = pool.submit(function, *arguments)
        error = future.exception()
        if error is None:
            return future.result(), ""
        return None, f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]


def judge(ours: tuple[Any, str], theirs: tuple[Any, str], limit: float) -> tuple[str, bool]:
    """Compare the outputs of all runs: the largest difference, relative to the largest magnitude of that output."""
    if ours[1] or theirs[1]:
        said = [f"{name} fails: {error}" for name, (_, error) in zip(RUNTIMES, (ours, theirs), strict=True) if error]
        return ", ".join(said), not ours[1] or bool(theirs[1])
    worst = 0.0
    for got, expected in zip(ours[0], theirs[0], strict=True):
        if got.shape != expected.shape or not np.array_equal(np.isfinite(got), np.isfinite(expected)):
            return f"DIFFERS: {got.shape} and {expected.shape}, or in what is finite", False
        finite = np.isfinite(expected)
        scale = np.abs(expected[finite]).max(initial=1e-30)
        worst = max(worst, float(np.abs(got[finite] - expected[finite]).max(initial=0) / scale))
    return f"{worst:.0e}", worst < limit


def build(case: Case, folder: Path) -> None:
    """Run the builder in this process, unless the folder has a model already. Its output goes to `build.log`."""
    if list(folder.glob("*.onnx")):
        return
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["HF_HUB_OFFLINE"] = "1"
    log = os.open(folder / "build.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    found = importlib.util.find_spec("onnxruntime_genai")
    assert found is not None and found.submodule_search_locations is not None, "onnxruntime-genai is not installed"
    sys.path.insert(0, str(Path(found.submodule_search_locations[0]) / "models"))
    builder = importlib.import_module("builder")
    checkpoint = str(folder / "checkpoint")
    family = CONFIGS[case.family]
    save_checkpoint(family, folder / "checkpoint")
    save_scales(folder / SCALES, case.options.get("kv_cache_quant_scheme", ""))
    target = (str(folder), case.precision, "cpu", str(folder / "cache"))
    extra = builder.parse_extra_options(None, checkpoint, *target, case.arguments(folder))
    for name, value in family.seen.items():
        setattr(extra["hf_details"]["hf_config"], name, value)
    builder.create_model(None, checkpoint, *target, **extra)


def generate(runtime: str, path: Path, way: str) -> list[Any]:
    """Return all outputs of a prompt and STEPS steps, as float32."""
    module = importlib.import_module(runtime)
    options = module.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = module.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if way == "bound":
        return list(run_bound(session, module.OrtValue))
    return list(run_plain(session, [PROMPT, PROMPT - 3] if way == "rows" else [PROMPT]))


def run_plain(session: Any, lengths: Sequence[int]) -> Iterator[Any]:
    """Each present is the past of the next run. Rows that are shorter are filled up on the right."""
    state = initial_state(session, len(lengths), 0)
    names = [value.name for value in session.get_outputs()]
    for step, feeds in enumerate(token_feeds(session, lengths)):
        outputs = dict(zip(names, session.run(names, {**state, **feeds}), strict=True))
        state = {past: outputs.get(present_of(past), value) for past, value in state.items()}
        for row, length in enumerate(lengths if step == 0 and feeds else [None] * len(lengths)):
            yield from (np.asarray(array[row, :length], np.float32) for name, array in outputs.items() if not is_state(name))


def run_bound(session: Any, ort_value: Any) -> Iterator[Any]:
    """Past and present are one buffer with room for all tokens; the mask grows. Other states go from output to input."""
    values = {name: ort_value.ortvalue_from_numpy(array) for name, array in initial_state(session, 1, ROOM).items()}
    names = [value.name for value in session.get_outputs()]
    for feeds in token_feeds(session, [PROMPT]):
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        shared = {present_of(name): value for name, value in values.items() if name.startswith("past_key_values.")}
        for name in names:
            if name in shared:
                binding.bind_ortvalue_output(name, shared[name])
            else:
                binding.bind_output(name)
        session.run_with_iobinding(binding)
        outputs = dict(zip(names, binding.get_outputs(), strict=True))
        values = {
            past: outputs[name] if (name := present_of(past)) in outputs and name not in shared else value
            for past, value in values.items()
        }
        yield from (np.array(value.numpy(), np.float32) for name, value in outputs.items() if not is_state(name))


def is_state(name: str) -> bool:
    """Return True for an output that is an input of the next run. Those of an encoder, present_key_cross_0, are its results."""
    return name.startswith("present") and "cross" not in name


def present_of(past: str) -> str:
    """Return the name of the output that is the next run's `past`."""
    return "present" + past.removeprefix("past_key_values").removeprefix("past")


def initial_state(session: Any, batch: int, room: int) -> Feeds:
    """Return zeros for each input that is no token, with `room` tokens where the length is free. Encoded sound is random."""
    random, state = np.random.default_rng(3), {}
    for value in session.get_inputs():
        if value.name in ("input_ids", "attention_mask", "position_ids", "inputs_embeds"):
            continue
        dims = {"batch_size": batch, "kv_cache_dim": HEAD, "past_sliding_length": WINDOW}
        shape = [dim if isinstance(dim, int) else dims.get(dim, room) for dim in value.shape]
        kind = np.float32 if value.type == "tensor(float)" else np.dtype(value.type[7:-1])
        moves = "cross" in value.name or "audio" in value.name
        state[value.name] = random.standard_normal(shape).astype(kind) if moves else np.zeros(shape, kind)
    return state


def token_feeds(session: Any, lengths: Sequence[int]) -> Iterator[Feeds]:
    """Yield the feeds of the prompt and of each step; an encoder has one run without any."""
    inputs = {value.name: value for value in session.get_inputs()}
    if not inputs.keys() & {"input_ids", "inputs_embeds"}:
        yield {}
        return
    random, batch = np.random.default_rng(5), len(lengths)
    kind = np.int32 if "input_ids" in inputs and inputs["input_ids"].type == "tensor(int32)" else np.int64
    for step in range(STEPS + 1):
        new = max(lengths) if step == 0 else 1
        seen = np.array(lengths) + step
        mask = (np.arange(max(seen))[None] < seen[:, None]).astype(np.int64)
        first = np.zeros(batch, np.int64) if step == 0 else seen - 1
        positions = first[:, None] + np.arange(new)[None]
        if "position_ids" in inputs and len(inputs["position_ids"].shape) == 3:
            positions = np.broadcast_to(positions, (inputs["position_ids"].shape[0], batch, new)).copy()
        feeds = {
            "input_ids": random.integers(5, 300, (batch, new)).astype(kind),
            "inputs_embeds": random.standard_normal((batch, new, SMALL["hidden_size"]), np.float32),
            "attention_mask": mask,
            "position_ids": positions,
        }
        yield {name: array for name, array in feeds.items() if name in inputs}


if __name__ == "__main__":
    sys.exit(main())
