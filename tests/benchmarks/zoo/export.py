"""Shared steps of all families: random weights that keep activations alive, random feeds, and the two exporters of PyTorch."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

Axes = Mapping[int, str] | None
"""Names of the free dimensions of a tensor."""
SEED = 7
SCALES = ("gamma", "layer_scale", "lambda1")
EMBEDDINGS = ("pos_embed", "cls_token", "pos_embedding", "class_token", "grn")


def start() -> None:
    """Seed PyTorch, and let it use one thread. Call it before a model is created."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.backends.mha.set_fastpath_enabled(False)


def generator(seed: int) -> Any:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 1) -> Any:
    return torch.randn(*shape, generator=generator(seed))


def image(*shape: int, seed: int = 3) -> Any:
    """Return noise of two scales: a smooth part and a fine one."""
    fine, noise = generator(seed), torch.randn
    x = noise(*shape, generator=fine)
    smooth = noise(*shape[:2], 7, 7, generator=fine)
    return x + 0.5 * nn.functional.interpolate(smooth, size=shape[2:], mode="bilinear")


def tokens(vocabulary: int, batch: int, length: int, seed: int = 1) -> Any:
    return torch.randint(5, vocabulary, (batch, length), generator=generator(seed))


def enliven(model: Any, calibrate: Callable[[Any], Any] | None = None) -> Any:
    """Move norms and biases off 1 and 0, and layer scales off 1e-6, so that no part of the model is idle. Return the model for
    inference. `calibrate` runs it on noise, which gives BatchNorm its statistics: activations then neither explode nor vanish.
    """
    random = generator(SEED)

    def noise(like: Any) -> Any:
        return torch.randn(like.shape, generator=random)

    with torch.no_grad():
        for module in model.modules():
            _move_norm(module, noise)
        for name, weights in model.named_parameters():
            last = name.rsplit(".", 1)[-1]
            if last in SCALES or "layer_scale" in name:
                weights.copy_(0.3 + 0.1 * noise(weights))
            elif weights.dim() > 1 and not weights.any():
                weights.copy_(noise(weights) / weights[0].numel() ** 0.5)
            elif last in EMBEDDINGS:
                weights.copy_(0.02 * noise(weights))
        if calibrate is not None:
            _calibrate(model, calibrate)
    return model.eval()


def _move_norm(module: Any, noise: Callable[[Any], Any]) -> None:
    weights, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if "Norm" in type(module).__name__ and weights is not None and weights.dim() == 1:
        weights.copy_(1 + 0.1 * noise(weights))
        if bias is not None:
            bias.copy_(0.05 * noise(bias))
    elif isinstance(bias, nn.Parameter):
        bias.copy_(0.02 * noise(bias))


def _calibrate(model: Any, run: Callable[[Any], Any]) -> None:
    """Give BatchNorm the statistics of two runs."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    for _ in range(2):
        run(model)
    for norm in norms:
        norm.running_var.clamp_(min=1e-3)


def dynamo(
    place: Path,
    model: Any,
    feeds: Sequence[Any],
    names: Sequence[str],
    outputs: Sequence[str],
    axes: Sequence[Any] | None,
    others: Sequence[Any] | None = None,
    opset: int = 18,
) -> None:
    """Export with torch.export, and save the feeds. `axes` is nested as the feeds are; `others` are feeds of other sizes."""
    path, shapes = place / "model.onnx", tuple(axes) if axes else None
    with torch.no_grad():
        torch.onnx.export(
            model,
            tuple(feeds),
            path,
            input_names=names,
            output_names=outputs,
            dynamic_shapes=shapes,
            opset_version=opset,
            dynamo=True,
            optimize=True,
            verbose=False,
        )
    _save_feeds(place, names, feeds, others)


def torchscript(
    place: Path,
    model: Any,
    feeds: Sequence[Any],
    names: Sequence[str],
    outputs: Sequence[str],
    axes: Sequence[Axes] | None,
    others: Sequence[Any] | None = None,
) -> None:
    """Export with TorchScript, which is what most models that are around were exported with, and save the feeds."""
    free = {name: dict(found) for name, found in zip(names, axes, strict=True) if found} if axes else None
    with torch.no_grad():
        torch.onnx.export(
            model,
            tuple(feeds),
            place / "model.onnx",
            input_names=names,
            output_names=outputs,
            dynamic_axes=free,
            opset_version=17,
            dynamo=False,
        )
    _save_feeds(place, names, feeds, others)


def _save_feeds(place: Path, names: Sequence[str], feeds: Sequence[Any], others: Sequence[Any] | None) -> None:
    save_arrays(place / "feeds.npz", names, feeds)
    if others is not None:
        save_arrays(place / "feeds2.npz", names, others)


def save_arrays(path: Path, names: Sequence[str], feeds: Sequence[Any]) -> None:
    """Save tensors, which may be nested in lists."""
    arrays = (tensor.detach().numpy() for tensor in _flat(feeds))
    np.savez(path, **dict(zip(names, arrays, strict=True)))


def _flat(feeds: Sequence[Any]) -> Iterator[Any]:
    for feed in feeds:
        if isinstance(feed, list):
            yield from _flat(feed)
        else:
            yield feed
