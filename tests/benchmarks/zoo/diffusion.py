"""The U-Net of Stable Diffusion, with narrow layers."""

from pathlib import Path
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from torch import nn

from tests.benchmarks.zoo.export import enliven, normal, start, torchscript


class Sample(nn.Module):
    """A step that returns the sample alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, sample: Any, timestep: Any, encoder_hidden_states: Any) -> Any:
        return self.model(sample, timestep, encoder_hidden_states, return_dict=False)[0]


def sd_unet(place: Path) -> None:
    start()
    model = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(64, 128, 256),
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=256,
        attention_head_dim=8,
    )
    names = ["sample", "timestep", "encoder_hidden_states"]
    torchscript(place, Sample(enliven(model)).eval(), _feeds(2), names, ["out_sample"], [{0: "batch"}] * 3, _feeds(1))


def _feeds(batch: int) -> list[Any]:
    return [normal(batch, 4, 32, 32), torch.tensor([500.0] * batch), normal(batch, 77, 256, seed=2)]
