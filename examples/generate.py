"""Continue a text with a language model, a token at a time, and print tokens per second.

    pip install tokenizers
    python examples/generate.py "And he went up"
    python examples/generate.py --temperature 0.8 --seed 3 --model model_int4.onnx "And the king said"
    python examples/generate.py --folder FOLDER "Once"      a folder that onnxruntime-genai's builder wrote

`examples/verses` has a small model that has read the King James Bible. Keys and values of earlier tokens stay in one buffer for each
layer: it is bound to the past and to the present, so that a step writes what is new and copies nothing. The attention mask is as
long as the buffers from the start, so that all steps have one shape.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ort_lite

VERSES = Path(__file__).parent / "verses"
CACHE_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}


def generate(
    session: ort_lite.InferenceSession,
    model: Mapping[str, Any],
    prompt: Sequence[int],
    count: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> Iterator[int]:
    """Yield the tokens that follow a prompt: the most probable ones, or, with a temperature, random ones.

    `model` is that part of genai_config.json. There are at most `count` tokens. They end earlier when prompt and tokens fill the
    model's context. A prompt that does not fit into it raises ValueError.
    """
    if not 0 < len(prompt) <= model["context_length"]:
        raise ValueError(f"the prompt has {len(prompt)} tokens; expected 1 to {model['context_length']}")
    room = min(len(prompt) + count - 1, model["context_length"])
    binding, random, mask = session.io_binding(), np.random.default_rng(seed), np.zeros((1, room), np.int64)
    binding.bind_output("logits")
    bind_cache(binding, session, model["decoder"], room)
    tokens, seen = [*prompt], 0
    while (seen := seen + len(tokens)) <= room:
        mask[0, :seen] = 1
        binding.bind_cpu_input("input_ids", np.array([tokens]))
        binding.bind_cpu_input("attention_mask", mask)
        session.run_with_iobinding(binding)
        tokens = [choose(binding.get_outputs()[0].numpy()[0, -1], temperature, random)]
        yield tokens[0]


def bind_cache(binding: ort_lite.IOBinding, session: ort_lite.InferenceSession, decoder: Mapping[str, Any], room: int) -> None:
    """Bind one buffer with room for so many tokens to each past and its present."""
    types = {value.name: CACHE_TYPES[value.type] for value in session.get_inputs() if value.type in CACHE_TYPES}
    for layer in range(decoder["num_hidden_layers"]):
        for kind in ("key", "value"):
            past, present = (
                decoder[f"{way}puts"][f"{when}_{kind}_names"] for way, when in (("in", "past"), ("out", "present"))
            )
            zeros = np.zeros((1, decoder["num_key_value_heads"], room, decoder["head_size"]), types[past % layer])
            cache = ort_lite.OrtValue.ortvalue_from_numpy(zeros)
            binding.bind_ortvalue_input(past % layer, cache)
            binding.bind_ortvalue_output(present % layer, cache)


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
    parser.add_argument("--folder", type=Path, default=VERSES, help="model, tokenizer.json and genai_config.json")
    parser.add_argument("--model", help="a file of the folder (default: the one that genai_config.json names)")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from tokenizers import Tokenizer
    from tokenizers.decoders import DecodeStream

    model = json.loads((arguments.folder / "genai_config.json").read_text(encoding="utf-8"))["model"]
    session = ort_lite.InferenceSession(arguments.folder / (arguments.model or model["decoder"]["filename"]))
    tokenizer, words = Tokenizer.from_file(str(arguments.folder / "tokenizer.json")), DecodeStream()
    prompt, times = tokenizer.encode(arguments.prompt).ids, [perf_counter()]
    print(arguments.prompt, end="", flush=True)
    for token in generate(session, model, prompt, arguments.tokens, arguments.temperature, arguments.seed):
        times.append(perf_counter())
        if token in np.atleast_1d(model["eos_token_id"]):
            break
        print(words.step(tokenizer, token) or "", end="", flush=True)
    first, *others = np.diff(times)
    speed = f", then {len(others) / sum(others):.0f} tokens per second" if others else ""
    print(f"\n\nfirst token {first * 1e3:.1f} ms{speed}", file=sys.stderr)


if __name__ == "__main__":
    main()
