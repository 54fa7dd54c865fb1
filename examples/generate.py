"""Continue a text with a language model, a token at a time, and print tokens per second.

    pip install tokenizers
    python examples/generate.py "And he went up"
    python examples/generate.py --temperature 0.8 --seed 3 --model model_int4.onnx "And the king said"
    python examples/generate.py --folder FOLDER --model model.onnx "Once"      a folder that onnxruntime-genai's builder wrote

`examples/verses` has a small model that has read the King James Bible. Keys and values of earlier tokens stay in one buffer for each
layer: it is bound to the past and to the present, so that a step writes what is new and copies nothing.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import ort_lite

VERSES = Path(__file__).parent / "verses"
LENGTH = 512
"""The tokens for which the buffers have room."""


def generate(
    session: ort_lite.InferenceSession, prompt: Sequence[int], temperature: float = 0.0, seed: int = 0
) -> Iterator[int]:
    """Yield the tokens that follow a prompt: the most probable ones, or, with a temperature, random ones."""
    binding, random = session.io_binding(), np.random.default_rng(seed)
    binding.bind_output("logits")
    for value in session.get_inputs():
        if value.name.startswith("past_key_values"):
            shape = [1, value.shape[1], LENGTH, session.get_outputs()[1].shape[3]]
            dtype = np.int8 if value.type == "tensor(int8)" else np.float32
            cache = ort_lite.OrtValue.ortvalue_from_numpy(np.zeros([n if isinstance(n, int) else 32 for n in shape], dtype))
            binding.bind_ortvalue_input(value.name, cache)
            binding.bind_ortvalue_output(value.name.replace("past_key_values", "present"), cache)
    tokens, seen = [*prompt], 0
    while (seen := seen + len(tokens)) <= LENGTH:
        binding.bind_cpu_input("input_ids", np.array([tokens]))
        binding.bind_cpu_input("attention_mask", np.ones((1, seen), np.int64))
        session.run_with_iobinding(binding)
        tokens = [choose(binding.get_outputs()[0].numpy()[0, -1], temperature, random)]
        yield tokens[0]


def choose(logits: NDArray[np.float32], temperature: float, random: np.random.Generator) -> int:
    """Return the largest logit's token, or a random one by the softmax of logits / temperature."""
    if not temperature:
        return int(logits.argmax())
    shares = np.exp((logits - logits.max()).astype(np.float64) / temperature)
    return int(random.choice(len(shares), p=shares / shares.sum()))


def main() -> None:
    """Print the continuation as it comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prompt", nargs="?", default="And he went up")
    parser.add_argument("--folder", type=Path, default=VERSES)
    parser.add_argument("--model", default="model_fp32.onnx")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    session = ort_lite.InferenceSession(arguments.folder / arguments.model)
    prompt = tokenizer.encode(arguments.prompt).ids
    start, times, tokens = perf_counter(), [], list[int]()
    print(arguments.prompt, end="", flush=True)
    for token in generate(session, prompt, arguments.temperature, arguments.seed):
        times.append(perf_counter())
        if len(times) == arguments.tokens or token == 0:
            break
        tokens.append(token)
        print(tokenizer.decode([token]), end="", flush=True)
    each = np.diff(times)
    print(f"\n\nfirst token {(times[0] - start) * 1e3:.1f} ms, then {1 / each.mean():.0f} tokens per second", file=sys.stderr)


if __name__ == "__main__":
    main()
