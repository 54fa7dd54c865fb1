"""The small language model of examples/verses: tokens and losses of a session of ort_lite or of onnxruntime.

python -m tests.models.verses      writes tests/data/verses/prompts.json, which spares the tests the package tokenizers
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ort_lite.dtypes import Array

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "verses"
PROMPTS = ROOT / "tests" / "data" / "verses" / "prompts.json"
NAMES = ("fp32", "int4", "int4_cache8")
BLOCK = 128
"""Tokens that the model reads at once to compute a loss, as in its training."""


def session(runtime: ModuleType, name: str, threads: int = 1) -> Any:
    """Return a session of the runtime with one of the three models."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return runtime.InferenceSession(FOLDER / f"model_{name}.onnx", options, providers=["CPUExecutionProvider"])


def sizes() -> dict[str, Any]:
    """Return what genai_config.json says of the model."""
    return dict(json.loads((FOLDER / "genai_config.json").read_text(encoding="utf-8"))["model"])


def committed(what: str) -> Any:
    """Return the `prompts` or the ids `held_out`."""
    return json.loads(PROMPTS.read_text(encoding="utf-8"))[what]


def caches(one: Any, rows: int, room: int) -> dict[str, Array]:
    """Return zeros for each past: (rows, 1, room, 32)."""
    pasts = [value for value in one.get_inputs() if value.name.startswith("past")]
    types = {"tensor(float)": np.float32, "tensor(int8)": np.int8}
    return {value.name: np.zeros((rows, 1, room, sizes()["decoder"]["head_size"]), types[value.type]) for value in pasts}


def decode(runtime: ModuleType, one: Any, prompts: Sequence[Sequence[int]], count: int) -> tuple[NDArray[np.int64], Array]:
    """Return the most probable `count` tokens after each prompt, and their logits: (prompts, count) and (prompts, count, 1024).

    The prompts are rows of one batch, which may have different lengths: zeros fill the shorter ones up, and the mask ends before them.
    """
    lengths = np.array([len(prompt) for prompt in prompts])
    longest, binding = int(lengths.max()), one.io_binding()
    for past, zeros in caches(one, len(prompts), longest + count).items():
        cache = runtime.OrtValue.ortvalue_from_numpy(zeros)
        binding.bind_ortvalue_input(past, cache)
        binding.bind_ortvalue_output(past.replace("past_key_values", "present"), cache)
    ids = np.array([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts])
    ends, tokens, logits = lengths - 1, list[Array](), list[Array]()
    for step in range(count):
        width = longest + (count if step else 0)
        binding.bind_cpu_input("input_ids", ids)
        binding.bind_cpu_input("attention_mask", (np.arange(width) < (lengths + step)[:, None]).astype(np.int64))
        binding.bind_output("logits")  # onnxruntime keeps an output of the last run, whose shape may differ
        one.run_with_iobinding(binding)
        logits.append(binding.get_outputs()[-1].numpy()[np.arange(len(prompts)), ends].copy())
        tokens.append(logits[-1].argmax(-1))
        ids, ends = tokens[-1][:, None], np.zeros_like(ends)
    return np.stack(tokens, 1), np.stack(logits, 1)


def loss(one: Any, ids: Sequence[int]) -> float:
    """Return the mean loss of a token in blocks of 128, of which each is read without those before."""
    blocks = np.array(ids[: len(ids) // BLOCK * BLOCK]).reshape(-1, BLOCK)
    feeds = {"attention_mask": np.ones((1, BLOCK), np.int64), **caches(one, 1, 0)}
    found = []
    for block in blocks:
        logits = one.run(["logits"], {"input_ids": block[None], **feeds})[0][0, :-1].astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        found.append(np.log(np.exp(logits).sum(-1)) - logits[np.arange(BLOCK - 1), block[1:]])
    return float(np.mean(found))


def write() -> None:
    """Write the ids of the chapters held out, and the beginnings of 50 of their verses: 1 to 20 tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    text = (FOLDER / "held_out.txt").read_text(encoding="utf-8")
    verses = text.splitlines()
    chosen = verses[:: len(verses) // 50][:50]
    prompts = [tokenizer.encode(verse).ids[: 1 + 7 * number % 20] for number, verse in enumerate(chosen)]
    origin = "examples/verses/held_out.txt as examples/verses/tokenizer.json cuts it; python -m tests.models.verses wrote this"
    lines = {"origin": origin, "prompts": prompts, "held_out": tokenizer.encode(text).ids}
    PROMPTS.write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in lines.items()) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
