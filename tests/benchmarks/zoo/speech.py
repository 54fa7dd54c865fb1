"""Models of sound: Whisper's encoder, wav2vec 2.0 and the EnCodec codec."""

from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.utils import parametrize
from transformers import (
    EncodecConfig,
    EncodecModel,
    Wav2Vec2Config,
    Wav2Vec2ForCTC,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from tests.benchmarks.zoo.export import dynamo, enliven, normal, start, torchscript


class First(nn.Module):
    """A model of transformers that returns its first output alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> Any:
        return self.model(x)[0]


class Codec(nn.Module):
    """EnCodec without its quantizer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> Any:
        return self.model.decoder(self.model.encoder(x))


def whisper_tiny_encoder(place: Path) -> None:
    start()
    config = WhisperConfig(
        d_model=384,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
    )
    model = First(enliven(WhisperForConditionalGeneration(config)).model.encoder).eval()
    feeds, others = [normal(1, 80, 3000)], [normal(2, 80, 3000, seed=2)]
    dynamo(place, model, feeds, ["input_features"], ["last_hidden_state"], [{0: "batch"}], others)


def wav2vec2_base(place: Path) -> None:
    """Its weight norm is folded into the weights."""
    start()
    model = enliven(Wav2Vec2ForCTC(Wav2Vec2Config(num_hidden_layers=6)))
    for module in model.modules():
        if parametrize.is_parametrized(module):
            parametrize.remove_parametrizations(module, "weight")
    feeds, others = [0.3 * normal(1, 16000)], [0.3 * normal(2, 9600)]
    torchscript(place, First(model).eval(), feeds, ["input_values"], ["logits"], [{0: "batch", 1: "samples"}], others)


def encodec(place: Path) -> None:
    start()
    model = EncodecModel(EncodecConfig(num_filters=16, upsampling_ratios=[8, 5, 4, 2])).eval()
    torchscript(place, Codec(model).eval(), [0.3 * normal(1, 1, 12800)], ["wave"], ["out"], None)
