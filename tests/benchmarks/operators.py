"""The operators of the performance record: operators.txt as models of one node, with their feeds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ort_lite.dtypes import FLOATS, Array, is_dtype, to_numpy
from ort_lite.record import Record
from ort_lite.tools.cli.benchmark.operator import attribute_of, operator_model, shape_of
from tests.benchmarks.rows import Row

TABLE = Path(__file__).with_suffix(".txt")
INPUT = re.compile(
    r"(?P<shape>\d+(?:x\d+)*|\(\)|-)?(?::(?P<dtype>\w+))?(?:<(?P<limit>[\d.]+))?(?:\{(?P<values>[^}]*)\})?(?P<constant>\*)?"
)
TREES, DEPTH = 50, 6
FOREST = "ai.onnx.ml.TreeEnsembleRegressor"


class Input(Record):
    """One input of a line. `shape` is None for one that is left out."""

    dtype: str
    shape: tuple[int, ...] | None
    limit: float | None = None
    values: tuple[Any, ...] | None = None
    constant: bool = False

    def array(self, rng: np.random.Generator) -> Array:
        """Its contents: the values of the line, or random numbers."""
        assert self.shape is not None
        if self.values is not None:
            return np.array(self.values).reshape(self.shape).astype(to_numpy(self.dtype))
        if self.dtype in FLOATS:
            return self._floats(rng, self.shape).astype(to_numpy(self.dtype))
        least, limit = {"int8": (-128, 128), "uint8": (0, 256), "bool": (0, 2)}.get(self.dtype, (0, 100))
        if self.limit is not None:
            least, limit = 0, int(self.limit)
        return np.asarray(rng.integers(least, limit, self.shape)).astype(to_numpy(self.dtype))

    def _floats(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Uniform below the limit and never 0; otherwise normal, small for weights so that sums of products keep their size."""
        if self.limit is not None:
            return np.asarray(self.limit * (0.01 + 0.99 * rng.random(shape)))
        return np.asarray(rng.standard_normal(shape) * (max((1, *shape)) ** -0.5 if self.constant else 1))


class Operator(Record):
    """A line of the table. `inputs` and `attributes` are as the line has them."""

    operator: str
    inputs: tuple[str, ...]
    attributes: tuple[str, ...]
    outputs: int
    dtype: str

    @property
    def name(self) -> str:
        """The line without the number of outputs. It is unique."""
        return " ".join([self.operator, *self.inputs, *self.attributes, self.dtype])

    def row(self) -> Row:
        """The same model and feeds each time."""
        rng = np.random.default_rng(0)
        inputs = [input_of(text, self.dtype) for text in self.inputs]
        arrays = {k: given.array(rng) for k, given in enumerate(inputs) if given.shape is not None}
        data = operator_model(
            self.operator,
            [given.shape for given in inputs],
            [given.dtype for given in inputs],
            forest() if self.operator == FOREST else dict(map(attribute_of, self.attributes)),
            {k: arrays[k] for k in arrays if inputs[k].constant},
            self.outputs,
        )
        feeds = {f"i{k}": arrays[k] for k in arrays if not inputs[k].constant}
        return Row(self.name, data, feeds, self.operator, self.inputs, self.attributes, self.dtype)


def operators() -> Iterator[Row]:
    """Yield the operators in the order of the table; the same ones each time."""
    for operator in table():
        yield operator.row()


def operator_names() -> set[str]:
    """Return the names of all operators without making the models."""
    return {operator.name for operator in table()}


def table(path: Path = TABLE) -> list[Operator]:
    """Read the table. Raises ValueError that names the number of a line that is wrong."""
    found: dict[str, tuple[int, Operator]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].split()
        if not text:
            continue
        try:
            operator = parse(text)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from error
        if operator.name in found:
            raise ValueError(f"{path.name}, line {number}: the same as line {found[operator.name][0]}")
        found[operator.name] = number, operator
    return [operator for _, operator in found.values()]


def parse(words: list[str]) -> Operator:
    """Return the operator that the words of a line describe."""
    operator, *rest = words
    if not rest or not is_dtype(rest[-1]):
        raise ValueError(f"expected an element type such as float32 at the end, not {words[-1]!r}")
    *rest, dtype = rest
    outputs = int(rest.pop().removeprefix("->")) if rest and re.fullmatch(r"->\d+", rest[-1]) else 1
    first = next((k for k, word in enumerate(rest) if "=" in word), len(rest))
    inputs, attributes = tuple(rest[:first]), tuple(rest[first:])
    for text in inputs:
        input_of(text, dtype)
    for text in attributes:
        attribute_of(text)
    return Operator(operator, inputs, attributes, outputs, dtype)


def input_of(text: str, dtype: str) -> Input:
    """Return the input that a word such as 64x3x7x7* or {0,2,1} describes; `dtype` is that of the line."""
    match = INPUT.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not an input: expected one such as 64x3x7x7*, 8:int64<100 or {{0,1}}")
    values = None if match["values"] is None else tuple(json.loads(f"[{match['values']}]"))
    if match["shape"] is None and values is None:
        raise ValueError(f"{text!r} has neither a shape nor values")
    if match["shape"] == "-":
        return Input(dtype, None)
    shape = (len(values or ()),) if match["shape"] is None else shape_of(match["shape"].strip("()"))
    whole = values is not None and all(isinstance(value, int) for value in values)
    dtype = match["dtype"] or ("int64" if whole else dtype)
    if not is_dtype(dtype):
        raise ValueError(f"{text!r}: {dtype!r} is not an element type")
    limit = None if match["limit"] is None else float(match["limit"])
    return Input(dtype, shape, limit, values, values is not None or match["constant"] is not None)


def forest(trees: int = TREES, depth: int = DEPTH, features: int = 16) -> dict[str, Any]:
    """Return the attributes of a regressor with complete trees, whose leaves each add a small number to one target."""
    rng, inner, nodes = np.random.default_rng(0), 2**depth - 1, 2 ** (depth + 1) - 1
    count, ids = trees * nodes, np.arange(nodes)
    leaf = np.tile(ids >= inner, trees)
    children = np.where(ids < inner, 2 * ids + 1, 0)
    owners = np.repeat(np.arange(trees), nodes)
    return {
        "n_targets": 1,
        "nodes_treeids": owners.tolist(),
        "nodes_nodeids": np.tile(ids, trees).tolist(),
        "nodes_featureids": rng.integers(0, features, count).tolist(),
        "nodes_values": rng.standard_normal(count).tolist(),
        "nodes_modes": ["LEAF" if end else "BRANCH_LEQ" for end in leaf],
        "nodes_truenodeids": np.tile(children, trees).tolist(),
        "nodes_falsenodeids": np.tile(np.where(ids < inner, children + 1, 0), trees).tolist(),
        "target_treeids": owners[leaf].tolist(),
        "target_nodeids": np.tile(ids, trees)[leaf].tolist(),
        "target_ids": [0] * int(leaf.sum()),
        "target_weights": rng.standard_normal(int(leaf.sum())).tolist(),
    }
