"""Encoders of text of transformers, and CLIP, which embeds text and images."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel, CLIPConfig, CLIPModel, DebertaV2Config, DebertaV2Model

from tests.benchmarks.zoo import precision
from tests.benchmarks.zoo.export import dynamo, enliven, image, start, tokens, torchscript

LENGTH = 128
AXES = {0: "batch", 1: "sequence"}
NAMES = ("input_ids", "attention_mask", "token_type_ids")


class Encoder(nn.Module):
    """A model of transformers that returns its last hidden states alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]


class TypedEncoder(nn.Module):
    """One that also reads the type of each token."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]


def bert_base(place: Path) -> None:
    _bert(place, dynamo)


def bert_base_dynq(place: Path) -> None:
    _bert(place, torchscript)
    precision.quantize_dynamic(place)


def minilm_l6(place: Path) -> None:
    _bert(place, torchscript, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)


def minilm_l6_fp16(place: Path) -> None:
    minilm_l6(place)
    precision.to_float16(place)


def deberta_v3_small(place: Path) -> None:
    start()
    config = DebertaV2Config(
        vocab_size=32000,
        hidden_size=768,
        num_hidden_layers=4,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        max_relative_positions=-1,
    )
    _encoder(place, Encoder, DebertaV2Model(config), 32000, NAMES[:2], torchscript)


def _bert(place: Path, export: Callable[..., None], **sizes: int) -> None:
    start()
    model = BertModel(BertConfig(**sizes), add_pooling_layer=False)
    _encoder(place, TypedEncoder, model, 30000, NAMES, export)


def _encoder(
    place: Path, wrap: Callable[[Any], Any], model: Any, vocabulary: int, names: Sequence[str], export: Callable[..., None]
) -> None:
    feeds, others = (_text(vocabulary, *sizes)[: len(names)] for sizes in ((1, LENGTH, 8), (2, LENGTH // 2 + 5, 9)))
    export(place, wrap(enliven(model)).eval(), feeds, list(names), ["last_hidden_state"], [AXES] * len(names), others)


def _text(vocabulary: int, batch: int, length: int, padding: int) -> list[Any]:
    """Return tokens, a mask that leaves out the padding of the last text, and types."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length - padding :] = 0
    return [tokens(vocabulary, batch, length), mask, torch.zeros(batch, length, dtype=torch.long)]


class Clip(nn.Module):
    """CLIP with the outputs that programs use."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, pixel_values: Any, attention_mask: Any) -> tuple[Any, Any, Any]:
        found = self.model(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return found.logits_per_image, found.image_embeds, found.text_embeds


def clip_vit_b32(place: Path) -> None:
    start()
    names, outputs = ["input_ids", "pixel_values", "attention_mask"], ["logits_per_image", "image_embeds", "text_embeds"]
    text, model = {0: "text_batch", 1: "sequence"}, Clip(enliven(CLIPModel(CLIPConfig()))).eval()
    feeds, others = _pair(2, 16, image(1, 3, 224, 224)), _pair(3, 9, image(2, 3, 224, 224, seed=5))
    dynamo(place, model, feeds, names, outputs, [text, {0: "image_batch"}, text], others)


def _pair(count: int, length: int, pixels: Any) -> list[Any]:
    """Return texts that end with CLIP's token for the end, images, and a mask."""
    words = torch.randint(1, 49000, (count, length - 1), generator=torch.Generator().manual_seed(1))
    end = torch.full((count, 1), 49407)
    return [torch.cat([words, end], 1), pixels, torch.ones(count, length, dtype=torch.long)]
