"""Losses of the small language model of examples/verses, and its tokens per second, with ort-lite and onnxruntime in turn.

python -m tests.benchmarks.verses [--threads N] [--batch N] [--tokens N] [--rounds N]

A round decodes `--tokens` tokens with each runtime, which is warm, and the median of the rounds counts. A control decodes with
onnxruntime twice: what its two medians differ by is the noise.
"""

import argparse
from statistics import median
from time import perf_counter

import onnxruntime

import ort_lite
from tests.models import verses


def print_losses() -> None:
    """Print the loss of each model on the held-out chapters."""
    ids = verses.committed("held_out")
    print(f"loss per token, {len(ids)} tokens    ort-lite  onnxruntime")
    for name in verses.NAMES:
        ours, theirs = (verses.loss(verses.session(runtime, name), ids) for runtime in (ort_lite, onnxruntime))
        print(f"{name:32} {ours:8.4f}  {theirs:11.4f}")


def print_speeds(threads: int, batch: int, count: int, rounds: int) -> None:
    """Print tokens per second of all rows of a batch together."""
    prompts = [verses.committed("prompts")[2]] * batch
    print(f"tokens per second, threads {threads}, batch {batch}    ort-lite  onnxruntime  again")
    for name in verses.NAMES:
        runtimes = (ort_lite, onnxruntime, onnxruntime)
        sessions = [verses.session(runtime, name, threads) for runtime in runtimes]
        speeds: list[list[float]] = [[], [], []]
        for number in range(rounds + 1):
            for runtime, session, found in zip(runtimes, sessions, speeds, strict=True):
                start = perf_counter()
                verses.decode(runtime, session, prompts, count)
                if number:
                    found.append(batch * count / (perf_counter() - start))
        ours, theirs, again = map(median, speeds)
        print(f"{name:42} {ours:8.0f}  {theirs:11.0f}  {again:5.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print_losses()
    print_speeds(arguments.threads, arguments.batch, arguments.tokens, arguments.rounds)


if __name__ == "__main__":
    main()
