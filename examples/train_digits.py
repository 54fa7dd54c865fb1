"""Train the small residual CNN that several examples run, and write `examples/digits/`.

The examples need only what this script wrote, which is committed. To train again (about a minute on one core):

    pip install scikit-learn torch onnx
    python examples/train_digits.py

Data: the 1,797 images of 8 x 8 pixels of `sklearn.datasets.load_digits` (UCI "Optical Recognition of Handwritten
Digits", CC BY 4.0). One image in five, stratified by digit, is held out; the held-out images are the examples' test set
and no choice was made on them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent / "digits"
SEED = 0
EPOCHS = 60
BATCH = 64
BRIGHTEST = 16  # load_digits counts the set pixels of 4 x 4 blocks: 0 to 16
CHANNELS = (16, 32)


class DigitsCNN(nn.Module):
    """(N, 1, 8, 8) pixels from -1 to 1 -> (N, 10) logits."""

    def __init__(self) -> None:
        super().__init__()
        narrow, wide = CHANNELS
        self.conv1 = nn.Conv2d(1, narrow, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(narrow)
        self.conv2 = nn.Conv2d(narrow, wide, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(wide)
        self.conv3 = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(wide)
        self.classify = nn.Linear(wide * 4, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.norm1(self.conv1(pixels))), 2)
        x = functional.relu(self.norm2(self.conv2(x)))
        x = functional.relu(self.norm3(self.conv3(x)) + x)
        logits: Tensor = self.classify(functional.max_pool2d(x, 2).flatten(1))
        return logits


def centred(images: Tensor) -> Tensor:
    """Pixels 0 to 16 -> -1 to 1, as the model's first nodes do."""
    return images.float() * (2 / BRIGHTEST) - 1


def distorted(images: Tensor) -> Tensor:
    """(N, 1, 8, 8) -> the same: each turned by up to 12 degrees, scaled by up to 10% and moved by up to a pixel."""
    count = len(images)
    angle = (torch.rand(count) - 0.5) * 2 * np.deg2rad(12)
    scale = 1 + (torch.rand(count) - 0.5) * 0.2
    shift = (torch.rand(count, 2) - 0.5) * 2 / 4  # affine_grid's image is 2 wide: 1/4 is a pixel
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = torch.stack([cos, -sin, shift[:, 0], sin, cos, shift[:, 1]], dim=1)
    grid = functional.affine_grid(rows.view(count, 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def train(images: Tensor, labels: Tensor) -> DigitsCNN:
    """A trained network in evaluation mode. The same SEED gives the same weights on one machine."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the order of sums, and so the weights, would depend on the thread count
    model = DigitsCNN()
    steps = EPOCHS * (len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps)
    for epoch in range(EPOCHS):
        for chosen in torch.randperm(len(images)).split(BATCH)[: len(images) // BATCH]:
            logits = model(distorted(centred(images[chosen])))
            loss = functional.cross_entropy(logits, labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.3f}")
    model.eval()
    return model


def batch_norm(name: str, source: str, result: str) -> onnx.NodeProto:
    parameters = [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
    return helper.make_node("BatchNormalization", [source, *parameters], [result], name, epsilon=1e-5)


def conv3x3(name: str, source: str, result: str) -> onnx.NodeProto:
    inputs = [source, f"{name}.weight"]
    return helper.make_node("Conv", inputs, [result], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def max_pool2x2(name: str, source: str, result: str) -> onnx.NodeProto:
    return helper.make_node("MaxPool", [source], [result], name, kernel_shape=[2, 2], strides=[2, 2])


def to_onnx(model: DigitsCNN) -> onnx.ModelProto:
    """The network from raw pixels to probabilities: "images" (N, 1, 8, 8) uint8 -> "probabilities" (N, 10) float32.

    Written node by node rather than exported, so that the graph keeps its BatchNormalization nodes, its names and its
    bytes whatever the exporter of the day does.
    """
    node = helper.make_node
    nodes = [
        node("Cast", ["images"], ["pixels"], "to_float", to=TensorProto.FLOAT),
        node("Mul", ["pixels", "scale"], ["scaled"], "scale_pixels"),
        node("Sub", ["scaled", "one"], ["centred"], "centre_pixels"),
        conv3x3("conv1", "centred", "conv1_out"),
        batch_norm("norm1", "conv1_out", "norm1_out"),
        node("Relu", ["norm1_out"], ["relu1_out"], "relu1"),
        max_pool2x2("pool1", "relu1_out", "pool1_out"),
        conv3x3("conv2", "pool1_out", "conv2_out"),
        batch_norm("norm2", "conv2_out", "norm2_out"),
        node("Relu", ["norm2_out"], ["relu2_out"], "relu2"),
        conv3x3("conv3", "relu2_out", "conv3_out"),
        batch_norm("norm3", "conv3_out", "norm3_out"),
        node("Add", ["norm3_out", "relu2_out"], ["sum3_out"], "residual3"),
        node("Relu", ["sum3_out"], ["relu3_out"], "relu3"),
        max_pool2x2("pool3", "relu3_out", "pool3_out"),
        node("Flatten", ["pool3_out"], ["features"], "flatten", axis=1),
        node("Gemm", ["features", "classify.weight", "classify.bias"], ["logits"], "classify", transB=1),
        node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items() if "batches_tracked" not in name}
    weights |= {"scale": np.float32(2 / BRIGHTEST), "one": np.float32(1)}
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="ort-lite train_digits.py")
    onnx.checker.check_model(proto, full_check=True)
    return proto


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8).astype(np.uint8)
    split = train_test_split(images, labels.astype(np.int64), test_size=0.2, stratify=labels, random_state=SEED)
    train_images, test_images, train_labels, test_labels = split

    model = train(torch.from_numpy(train_images), torch.from_numpy(train_labels))
    with torch.no_grad():
        predicted = model(centred(torch.from_numpy(test_images))).argmax(1).numpy()
    print(f"{(predicted == test_labels).mean():.4f} of {len(test_labels)} held-out images are right")

    FOLDER.mkdir(exist_ok=True)
    onnx.save(to_onnx(model), FOLDER / "digits_cnn.onnx")
    np.savez_compressed(FOLDER / "test_images.npz", images=test_images, labels=test_labels.astype(np.uint8))


if __name__ == "__main__":
    main()
