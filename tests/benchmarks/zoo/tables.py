"""Models of tables, graphs and series: XGBoost, support vectors, graph attention and PatchTST."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn
from transformers import PatchTSTConfig, PatchTSTForPrediction

from tests.benchmarks.zoo.export import dynamo, enliven, normal, start


def xgboost_300(place: Path) -> None:
    x, y = _table(4000, 30)
    model = xgboost.XGBClassifier(n_estimators=300, max_depth=6, n_jobs=1).fit(x, y)
    made = convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 30]))], target_opset=15)
    _save(place, made, {"x": x[:256]}, {"x": x[:1]})


def skl_svc(place: Path) -> None:
    x, y = _table(1500, 20)
    model = make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)).fit(x, y)
    made = to_onnx(model, x[:1], options={"zipmap": False}, target_opset=18)
    _save(place, made, {"X": x[:128]}, {"X": x[:1]})


def _table(rows: int, columns: int) -> tuple[Any, Any]:
    """Return numbers, and classes that depend on three columns and on noise."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] + x[:, 2] > 0.2 * random.standard_normal(rows)).astype(np.int64)


def _save(place: Path, model: Any, feeds: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    onnx.save(model, place / "model.onnx")
    np.savez(place / "feeds.npz", **feeds)
    np.savez(place / "feeds2.npz", **others)


class GraphAttention(nn.Module):
    """A layer in which each node averages its neighbors, weighted by a softmax over its edges."""

    def __init__(self, i: int, o: int, heads: int) -> None:
        super().__init__()
        self.weights = nn.Linear(i, o * heads, bias=False)
        self.source = nn.Parameter(torch.randn(heads, o) * 0.2)
        self.target = nn.Parameter(torch.randn(heads, o) * 0.2)
        self.heads, self.o = heads, o

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        count, z = x.shape[0], self.weights(x).view(-1, self.heads, self.o)
        scores = (z * self.source).sum(-1)[source] + (z * self.target).sum(-1)[target]
        scores = nn.functional.leaky_relu(scores, 0.2)
        index = target.unsqueeze(1).expand(-1, self.heads)
        largest = torch.full((count, self.heads), -1e9).scatter_reduce(0, index, scores, "amax")
        scores = torch.exp(scores - largest[target])
        total = torch.zeros(count, self.heads).scatter_add(0, index, scores)
        weighted = (scores / (total[target] + 1e-9)).unsqueeze(-1) * z[source]
        return torch.zeros(count, self.heads, self.o).index_add(0, target, weighted).flatten(1)


class GraphNetwork(nn.Module):
    """Three layers of graph attention."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([GraphAttention(64, 32, 4), GraphAttention(128, 32, 4), GraphAttention(128, 16, 1)])

    def forward(self, x: Any, edges: Any) -> Any:
        for k, layer in enumerate(self.layers):
            x = layer(x, edges[0], edges[1])
            x = nn.functional.elu(x) if k < 2 else x
        return torch.log_softmax(x, -1)


def gat(place: Path) -> None:
    start()
    axes = [{0: "nodes"}, {1: "edges"}]
    dynamo(place, GraphNetwork().eval(), _graph(1000, 5000), ["x", "edges"], ["out"], axes, _graph(300, 900))


def _graph(nodes: int, edges: int) -> list[Any]:
    ends = torch.randint(0, nodes, (2, edges), generator=torch.Generator().manual_seed(2))
    return [normal(nodes, 64), ends]


class Forecast(nn.Module):
    """A model of transformers that returns its forecast alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any) -> Any:
        return self.model(past_values=x).prediction_outputs


def patchtst(place: Path) -> None:
    start()
    config = PatchTSTConfig(
        num_input_channels=7,
        context_length=512,
        patch_length=16,
        patch_stride=8,
        prediction_length=96,
        d_model=128,
        num_hidden_layers=3,
        num_attention_heads=8,
        ffn_dim=256,
    )
    model = enliven(PatchTSTForPrediction(config), lambda model: model(past_values=torch.randn(4, 512, 7)))
    feeds, others = ([normal(batch, 512, 7).cumsum(1)] for batch in (4, 2))
    dynamo(place, Forecast(model).eval(), feeds, ["past_values"], ["prediction"], [{0: "batch"}], others)
