"""Decoders of text with a cache of keys and values: T5 and GPT-2 as Optimum exports them, and Qwen2 by onnxruntime-genai."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.benchmarks.zoo.export import dynamo, enliven, generator, save_arrays, start, tokens

PAST = 128
PAST_AXES = {0: "batch", 2: "past"}


class Gpt2(nn.Module):
    """GPT-2 with the keys and values of each layer as tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> tuple[Any, ...]:
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True
        )
        return found.logits, *_tensors(found.past_key_values)


def gpt2(place: Path) -> None:
    """It is exported with other sizes than it runs with, so that none of them is taken for fixed."""
    start()
    model, layers = Gpt2(enliven(GPT2LMHeadModel(GPT2Config()))).eval(), 12
    caches = [f"{layer}.{kind}" for layer in range(layers) for kind in ("key", "value")]
    names = ["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{name}" for name in caches)]
    axes = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, {0: "batch", 1: "sequence"}, [PAST_AXES] * (2 * layers)]
    others = _gpt2_feeds(2, 5, 7, layers)
    dynamo(place, model, others, names, ["logits", *(f"present.{name}" for name in caches)], axes, others)
    save_arrays(place / "feeds.npz", names, _gpt2_feeds(1, 1, PAST, layers))


def _gpt2_feeds(batch: int, length: int, past: int, layers: int) -> list[Any]:
    random = generator(2)
    cache = [torch.randn(batch, 12, past, 64, generator=random) for _ in range(2 * layers)]
    positions = (torch.arange(length) + past).repeat(batch, 1)
    return [tokens(50000, batch, length), torch.ones(batch, length + past, dtype=torch.long), positions, cache]


class T5Decoder(nn.Module):
    """A step of T5's decoder. Keys and values of the encoder's states are in the cache, so it reads no states."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, encoder_attention_mask: Any, past: Any) -> tuple[Any, ...]:
        states = torch.zeros(1, 1, 512).expand(past[2].shape[0], past[2].shape[2], 512)
        found = self.model.decoder(
            input_ids=input_ids,
            encoder_hidden_states=states,
            encoder_attention_mask=encoder_attention_mask,
            past_key_values=_both_caches(past),
            use_cache=True,
        )
        return self.model.lm_head(found[0] * 512**-0.5), *_tensors(found.past_key_values.self_attention_cache)


def _both_caches(past: Sequence[Any]) -> Any:
    """Return the cache of an encoder and a decoder from four tensors a layer."""
    own, encoded = DynamicCache(), DynamicCache()
    for layer in range(len(past) // 4):
        own.update(past[4 * layer], past[4 * layer + 1], layer)
        encoded.update(past[4 * layer + 2], past[4 * layer + 3], layer)
    both = EncoderDecoderCache(own, encoded)
    for layer in range(len(past) // 4):
        both.is_updated[layer] = True
    return both


def _tensors(cache: Any) -> list[Any]:
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def t5_small_decoder_past(place: Path) -> None:
    start()
    config = T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0)
    model, layers = T5Decoder(enliven(T5ForConditionalGeneration(config))).eval(), range(6)
    kinds = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
    names = ["input_ids", "encoder_attention_mask", *(f"past_key_values.{k}.{kind}" for k in layers for kind in kinds)]
    outputs = ["logits", *(f"present.{k}.{kind}" for k in layers for kind in kinds[:2])]
    source = {0: "batch", 2: "source"}
    axes = [{0: "batch"}, {0: "batch", 1: "source"}, [PAST_AXES, PAST_AXES, source, source] * len(layers)]
    dynamo(place, model, _t5_feeds(1, 32, 64), names, outputs, axes, _t5_feeds(2, 17, 33))


def _t5_feeds(batch: int, past: int, source: int) -> list[Any]:
    random = generator(2)
    cache = [torch.randn(batch, 8, size, 64, generator=random) for _ in range(6) for size in (past, past, source, source)]
    return [tokens(32000, batch, 1), torch.ones(batch, source, dtype=torch.long), cache]


def qwen2_4l_fp32(place: Path) -> None:
    _genai(place, "fp32")


def qwen2_4l_int4(place: Path) -> None:
    _genai(place, "int4")
    _round_activations(place / "model.onnx")


def qwen2_24l_int4(place: Path) -> None:
    """Build a Qwen2.5 of 0.5 billion parameters, which tests.benchmarks.decode measures. It is not part of the zoo."""
    sizes = {"vocab_size": 151936, "intermediate_size": 4864, "num_hidden_layers": 24, "max_position_embeddings": 32768}
    _genai(place, "int4", **sizes, tie_word_embeddings=True)
    _round_activations(place / "model.onnx")


def _round_activations(path: Path) -> None:
    """Let products round activations to int8: the builder's default for CPUs leaves that open."""
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "MatMulNBits" and attribute.name == "accuracy_level":
                attribute.i = 4
    onnx.save(model, path)


def _genai(place: Path, precision: str, **sizes: Any) -> None:
    """Run the builder of onnxruntime-genai on a checkpoint with random weights. `sizes` replace those of the configuration."""
    checkpoint, cache = place / "checkpoint", place / "cache"
    _save_qwen2(checkpoint, sizes)
    options = ["-i", checkpoint, "-o", place, "-p", precision, "-e", "cpu", "-c", cache]
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", *map(str, options)]
    subprocess.run(command, check=True, timeout=1800)
    for folder in (checkpoint, cache):
        shutil.rmtree(folder, ignore_errors=True)
    graph = onnx.load(place / "model.onnx", load_external_data=False).graph
    np.savez(place / "feeds.npz", **_qwen2_feeds([value.name for value in graph.input]))


def _save_qwen2(folder: Path, sizes: dict[str, Any]) -> None:
    """Save a Qwen2, by default with four layers, and a tokenizer that the builder asks for."""
    start()
    defaults: dict[str, Any] = {
        "vocab_size": 32000,
        "hidden_size": 896,
        "intermediate_size": 2816,
        "num_hidden_layers": 4,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    }
    config = Qwen2Config(**{**defaults, **sizes})
    enliven(Qwen2ForCausalLM(config)).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=special, initial_alphabet=letters)
    tokenizer.train_from_iterator([Path(__file__).read_text(encoding="utf-8")], trainer)
    roles = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)


def _qwen2_feeds(names: Sequence[str]) -> dict[str, Any]:
    """Return the feeds of a token after PAST others."""
    random = np.random.default_rng(1)
    feeds: dict[str, Any] = {}
    for name in names:
        if name == "input_ids":
            feeds[name] = random.integers(5, 31000, (1, 1))
        elif name == "attention_mask":
            feeds[name] = np.ones((1, PAST + 1), np.int64)
        elif name == "position_ids":
            feeds[name] = np.full((1, 1), PAST, np.int64)
        else:
            feeds[name] = random.standard_normal((1, 2, PAST, 64)).astype(np.float32)
    return feeds
