"""Train the small language model that `generate.py` runs, and write `examples/verses/`.

The examples and tests need only what this script wrote, which is committed. To train again (about 12 minutes of one core):

    apt install bible-kjv                      the text, which is in the public domain, and the program that prints it
    pip install torch transformers tokenizers onnx onnxruntime onnxruntime-genai
    python examples/train_verses.py

The model is a Qwen2 of four layers. Its tokenizer has 1,024 tokens, which are parts of words. One chapter in twenty is held out, and no
choice was made on those. onnxruntime-genai's builder exports it twice: float32, and weights of 4 bits in blocks of 32. The third file
is the second one with a cache of 8 bits.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

FOLDER = Path(__file__).parent / "verses"
SEED = 0
END = "<end>"
"""The token at the end of a chapter."""
VOCABULARY, WIDTH, INNER, LAYERS, HEADS, KV_HEADS = 1024, 96, 256, 4, 3, 1
LENGTH, BATCH, STEPS, RATE = 128, 16, 1500, 6e-3
HELD_OUT = 20
LARGEST = 16.0, 6.0
"""The largest keys and values that the cache of 8 bits holds. Those of the chapters held out are below."""


def chapters() -> list[str]:
    """Return the chapters, a verse to a line, as the Debian package bible-kjv prints them."""
    text = subprocess.run(["bible", "-l9999", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("  "):
            found[-1].append(line.strip().split(" ", 1)[1])
        elif line.strip():
            found.append([])
    return ["\n".join(verses) + "\n" for verses in found if verses]


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Return a tokenizer of pairs of bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted({character for text in texts for character in text})
    initial = [pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(c)[0][0] for c in alphabet]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=initial, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def train(ids: torch.Tensor) -> Qwen2ForCausalLM:
    """Return a model that has learned the sequence of ids."""
    torch.manual_seed(SEED)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, STEPS, pct_start=0.05)
    for step in range(STEPS):
        starts = torch.randint(0, len(ids) - LENGTH - 1, (BATCH,))
        batch = torch.stack([ids[start : start + LENGTH] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return model.eval()


def loss_of(model: Qwen2ForCausalLM, ids: torch.Tensor) -> float:
    """Return the mean loss of a token in blocks of LENGTH."""
    blocks = ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)
    with torch.no_grad():
        return float(np.mean([model(input_ids=block[None], labels=block[None]).loss.item() for block in blocks]))


def export(checkpoint: Path, precision: str, *options: str) -> Path:
    """Export with onnxruntime-genai's builder, and return the model with its weights inside."""
    made = checkpoint.parent / precision
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-e", "cpu", "-p", precision]
    folders = ["-i", str(checkpoint), "-o", str(made), "-c", str(checkpoint.parent / "cache")]
    extra = ["--extra_options", *options] if options else []
    subprocess.run([*builder, *folders, *extra], check=True, capture_output=True)
    target = FOLDER / f"model_{precision}.onnx"
    onnx.save(onnx.load(made / "model.onnx"), target)
    return target


def quantize_cache(source: Path, target: Path) -> None:
    """Write a model that keeps keys and values in 8 bits, with a scale for each tensor."""
    model = onnx.load(source)
    inputs = {value.name: value for value in (*model.graph.input, *model.graph.output)}
    for node in model.graph.node:
        if node.op_type != "GroupQueryAttention":
            continue
        node.input.extend([""] * (14 - len(node.input)))
        for position, past, largest in zip((12, 13), node.input[3:5], LARGEST, strict=True):
            node.input[position] = f"{past}.scale"
            model.graph.initializer.append(numpy_helper.from_array(np.array([largest / 127], np.float32), node.input[position]))
        for name in (*node.input[3:5], *node.output[1:3]):
            inputs[name].type.tensor_type.elem_type = TensorProto.INT8
        kinds = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
        node.attribute.extend(helper.make_attribute(name, value) for name, value in kinds.items())
    onnx.save(model, target)


def export_all(checkpoint: Path) -> None:
    """Write the three models, and genai_config.json, which names the first."""
    target = export(checkpoint, "fp32")
    config = (checkpoint.parent / "fp32" / "genai_config.json").read_text(encoding="utf-8")
    (FOLDER / "genai_config.json").write_text(config.replace('"model.onnx"', f'"{target.name}"'), encoding="utf-8")
    coded = export(checkpoint, "int4", "int4_block_size=32", "int4_accuracy_level=4")
    quantize_cache(coded, FOLDER / "model_int4_cache8.onnx")


def main() -> None:
    """Train, export, and print the losses."""
    everything = chapters()
    held = everything[::HELD_OUT]
    learned = [text for number, text in enumerate(everything) if number % HELD_OUT]
    FOLDER.mkdir(exist_ok=True)
    tokenizer = train_tokenizer(learned)
    tokenizer.save(str(FOLDER / "tokenizer.json"))
    ids, test = (torch.tensor([i for text in texts for i in tokenizer.encode(text + END).ids]) for texts in (learned, held))
    print(f"{len(learned)} chapters, {len(ids):,} tokens; held out {len(held)}, {len(test):,}")
    model = train(ids)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters:,} parameters, loss {loss_of(model, test):.4f} on the chapters held out")
    (FOLDER / "held_out.txt").write_text("".join(held[:6]), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint"
        model.save_pretrained(checkpoint)
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END).save_pretrained(checkpoint)
        export_all(checkpoint)


if __name__ == "__main__":
    main()
