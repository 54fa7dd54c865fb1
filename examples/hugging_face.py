"""Generates text with Hugging Face's Optimum: T5, BART and Marian, greedily, with beams, and with I/O binding.

    python examples/hugging_face.py FOLDER                    with onnxruntime
    ort-lite exec python examples/hugging_face.py FOLDER      with ort-lite

The models are tiny and their weights are random: nothing is downloaded, and what they write means nothing. Both commands print the
same tokens. The first one that runs exports the models to FOLDER.

Needs Optimum and torch: pip install optimum-onnx "huggingface-hub<1" torch
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from optimum.exporters.onnx import main_export
from optimum.onnxruntime import ORTModelForSeq2SeqLM
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

PROMPTS = torch.tensor([[5, 6, 7, 1], [8, 9, 1, 0]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
"""The second prompt is shorter, and padded."""


def tiny_models() -> Iterator[tuple[str, PreTrainedModel]]:
    """Three encoder-decoders of two layers, by name. Their weights are large, so that tokens depend on the prompt."""
    torch.manual_seed(0)
    special = {
        "vocab_size": 300,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": None,
    }
    sizes = {"d_model": 32, "max_position_embeddings": 64, "init_std": 0.5, **special}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 64}
    t5 = T5Config(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, initializer_factor=4.0, **special)
    yield "t5", T5ForConditionalGeneration(t5)
    yield "bart", BartForConditionalGeneration(BartConfig(**sizes))
    yield "marian", MarianMTModel(MarianConfig(**sizes))


def export(folder: Path) -> None:
    """Writes what `optimum-cli export onnx` writes."""
    for name, model in tiny_models():
        model.save_pretrained(folder / f"{name}-torch")
        main_export(str(folder / f"{name}-torch"), folder / name, task="text2text-generation-with-past", do_validation=False)


def generate(folder: Path, io_binding: bool) -> Iterator[tuple[int, list[list[int]]]]:
    """The tokens that a model writes for both prompts, by the number of beams; one beam is greedy search."""
    model = ORTModelForSeq2SeqLM.from_pretrained(folder, use_io_binding=io_binding)
    for beams in (1, 3):
        tokens = model.generate(PROMPTS, attention_mask=MASK, max_new_tokens=8, num_beams=beams, do_sample=False)
        yield beams, tokens.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the exported models are, or will be")
    folder = parser.parse_args().folder
    warnings.filterwarnings("ignore")
    if not (folder / "marian").exists():
        export(folder)
    for name in ("t5", "bart", "marian"):
        for io_binding in (False, True):
            for beams, tokens in generate(folder / name, io_binding):
                print(name, f"io_binding={io_binding}", f"beams={beams}", tokens)


if __name__ == "__main__":
    main()
