"""Image classifiers of torchvision and timm."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torchvision
from timm.utils.model import reparameterize_model

from tests.benchmarks.zoo import precision
from tests.benchmarks.zoo.export import dynamo, enliven, image, start, torchscript

AXES = [{0: "batch"}]


def resnet18(place: Path) -> None:
    _torchvision(place, "resnet18")


def resnet50_fp16(place: Path) -> None:
    _torchvision(place, "resnet50")
    precision.to_float16(place)


def mobilenet_v2_qdq(place: Path) -> None:
    _torchvision(place, "mobilenet_v2", torchscript)
    precision.quantize_static(place)


def mobilenet_v3_large(place: Path) -> None:
    _torchvision(place, "mobilenet_v3_large", opset=20)


def convnext_tiny(place: Path) -> None:
    _torchvision(place, "convnext_tiny")


def vit_b_16(place: Path) -> None:
    _torchvision(place, "vit_b_16", torchscript)


def mobileone_s1(place: Path) -> None:
    """Its branches are merged, as they are before inference."""
    _timm(place, "mobileone_s1", merge=True)


def mobilevit_s(place: Path) -> None:
    _timm(place, "mobilevit_s", size=256)


def _torchvision(place: Path, name: str, export: Callable[..., None] = dynamo, **options: Any) -> None:
    start()
    model = enliven(getattr(torchvision.models, name)(weights=None), lambda model: model(image(4, 3, 224, 224)))
    _export(place, model, 224, 3, export, **options)


def _timm(place: Path, name: str, size: int = 224, merge: bool = False) -> None:
    start()
    model = enliven(timm.create_model(name, pretrained=False), lambda model: model(image(4, 3, size, size)))
    _export(place, reparameterize_model(model).eval() if merge else model, size, 2, dynamo)


def _export(place: Path, model: Any, size: int, batch: int, export: Callable[..., None], **options: Any) -> None:
    feeds, others = [image(1, 3, size, size)], [image(batch, 3, size, size, seed=5)]
    export(place, model, feeds, ["pixels"], ["logits"], AXES, others, **options)
