"""Models that predict boxes or masks: detection and segmentation."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchvision.models.detection import ssdlite320_mobilenet_v3_large
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

from tests.benchmarks.zoo.export import dynamo, enliven, image, start, torchscript

WIDTHS = (24, 48, 96, 192)


class Detector(nn.Module):
    """A detector of torchvision for one image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Any) -> tuple[Any, Any, Any]:
        found = self.model([pixels[0]])[0]
        return found["boxes"], found["scores"], found["labels"]


def ssdlite320(place: Path) -> None:
    start()
    noise = [image(1, 3, 320, 320, seed=k)[0].sigmoid() for k in (1, 2)]
    model = enliven(ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None), lambda model: model(noise))
    feeds = [image(1, 3, 320, 320).sigmoid()]
    torchscript(place, Detector(model).eval(), feeds, ["pixels"], ["boxes", "scores", "labels"], None)


class Masks(nn.Module):
    """A segmentation model of torchvision without its dictionary."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Any) -> Any:
        return self.model(pixels)["out"]


def deeplabv3_mobilenet(place: Path) -> None:
    start()
    model = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    model = enliven(model, lambda model: model(image(2, 3, 256, 256)))
    feeds, others = [image(1, 3, 256, 256)], [image(1, 3, 320, 192, seed=5)]
    torchscript(place, Masks(model).eval(), feeds, ["pixels"], ["out"], [{0: "batch", 2: "h", 3: "w"}], others)


class UNet(nn.Module):
    """Ronneberger's U-Net with batch norms, for images with one channel."""

    def __init__(self) -> None:
        super().__init__()
        above, below = WIDTHS[-2::-1], WIDTHS[:0:-1]
        self.down = nn.ModuleList(_block(i, o) for i, o in zip((1, *WIDTHS[:-1]), WIDTHS, strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, 2) for i, o in zip(below, above, strict=True))
        self.dec = nn.ModuleList(_block(2 * o, o) for o in above)
        self.out = nn.Conv2d(WIDTHS[0], 2, 1)

    def forward(self, x: Any) -> Any:
        skips: list[Any] = []
        for k, block in enumerate(self.down):
            x = block(x)
            if k < len(self.down) - 1:
                skips.append(x)
                x = nn.functional.max_pool2d(x, 2)
        for up, block, skip in zip(self.up, self.dec, reversed(skips), strict=True):
            x = block(torch.cat([skip, up(x)], 1))
        return self.out(x)


def _block(i: int, o: int) -> Any:
    first = [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*first, nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def unet(place: Path) -> None:
    start()
    model = enliven(UNet(), lambda model: model(image(2, 1, 192, 192)))
    feeds, others = [image(1, 1, 192, 192)], [image(2, 1, 192, 192, seed=5)]
    dynamo(place, model, feeds, ["pixels"], ["mask"], [{0: "batch"}], others)
