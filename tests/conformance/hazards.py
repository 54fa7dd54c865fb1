"""Operands on which careless machine code traps or reads elsewhere: a process of its own runs them.

    python -m tests.conformance.hazards FILE     pickles what came of each, by name, to FILE

What can be computed is in one model, so that its kernels compile together; it runs as it is and with all operands constant,
which folds it. What has to fail is run node by node.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy, to_onnx

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")


class Hazard(NamedTuple):
    op: str
    inputs: tuple[Array, ...]
    attributes: dict[str, Any]
    output: str
    """Its element type."""


def computed() -> dict[str, Hazard]:
    """What has a defined result, by name."""
    found: dict[str, Hazard] = {}
    for dtype in (*SIGNED, *UNSIGNED):
        info = np.iinfo(dtype)
        a = np.array([info.min, info.max, 7, 0, info.min, 100], dtype)
        b = np.array([-1 if info.min else 1, 1, 2, 3, 5, 7], np.int64).astype(dtype)
        found[f"Div {dtype}"] = Hazard("Div", (a, b), {}, dtype)
        for fmod in (0, 1):
            found[f"Mod {dtype} fmod={fmod}"] = Hazard("Mod", (a, b), {"fmod": fmod}, dtype)
        counts = np.array([0, 1, info.bits - 1, info.bits, info.bits + 1, 127]).astype(dtype)
        for direction in ("LEFT", "RIGHT"):
            shifted = np.array([info.min, info.max, info.max, info.max, info.max, info.min], dtype)
            found[f"BitShift {dtype} {direction}"] = Hazard("BitShift", (shifted, counts), {"direction": direction}, dtype)
    for dtype in ("float32", "float64"):
        x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 300.7, -300.7, 2.0**31, 2.0**63], dtype)
        for target in (*SIGNED, *UNSIGNED, "bool"):
            found[f"Cast {dtype} {target}"] = Hazard("Cast", (x,), {"to": to_onnx(target)}, target)
        found[f"Mod {dtype}"] = Hazard("Mod", (x, np.zeros_like(x)), {"fmod": 1}, dtype)
    return found


X, AT = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[3]])
FAR = (3, -4, 2**62, -(2**63))


def failing() -> dict[str, Hazard]:
    """What fails with the position of a bad index, or of a divisor that is 0."""
    found: dict[str, Hazard] = {}
    for dtype in (*SIGNED, *UNSIGNED):
        a, b = np.array([6, 7], dtype), np.array([1, 0], dtype)
        found[f"Div {dtype} by 0"] = Hazard("Div", (a, b), {}, dtype)
        found[f"Mod {dtype} by 0"] = Hazard("Mod", (a, b), {}, dtype)
    for index in FAR:
        bad, pair = np.array([[0, index]]), np.array([[0, 1], [index, 0]])
        update = np.ones((1, 2), np.float32)
        found[f"Gather {index}"] = Hazard("Gather", (X, bad), {}, "float32")
        found[f"GatherElements {index}"] = Hazard("GatherElements", (X, bad), {"axis": 0}, "float32")
        found[f"GatherND {index}"] = Hazard("GatherND", (X, pair), {}, "float32")
        found[f"ScatterElements {index}"] = Hazard("ScatterElements", (X, bad, update), {"axis": 0}, "float32")
        found[f"ScatterND {index}"] = Hazard("ScatterND", (X, pair, update[0]), {}, "float32")
    return found


def session(hazards: Mapping[str, Hazard], constant: bool) -> ort_lite.InferenceSession:
    """A model of all of them; results are named as they are."""
    nodes, inputs, initializers, outputs = [], [], [], []
    for name, hazard in hazards.items():
        names = [f"{name} {k}" for k in range(len(hazard.inputs))]
        nodes.append(helper.make_node(hazard.op, names, [name], name=name, **hazard.attributes))
        outputs.append(helper.make_tensor_value_info(name, to_onnx(hazard.output), None))
        for operand, array in zip(names, hazard.inputs, strict=True):
            if constant:
                initializers.append(numpy_helper.from_array(array, operand))
            else:
                inputs.append(helper.make_tensor_value_info(operand, to_onnx(from_numpy(array.dtype)), array.shape))
    graph = helper.make_graph(nodes, "hazards", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)
    return ort_lite.InferenceSession(model.SerializeToString())


def feeds(hazards: Mapping[str, Hazard]) -> dict[str, Array]:
    return {f"{name} {k}": array for name, hazard in hazards.items() for k, array in enumerate(hazard.inputs)}


def results() -> Iterable[tuple[str, Any]]:
    hazards = computed()
    for prefix, constant in (("", False), ("constant ", True)):
        made = session(hazards, constant).run(None, {} if constant else feeds(hazards))
        yield from ((prefix + name, array) for name, array in zip(hazards, made, strict=True))
    for name, hazard in failing().items():
        for prefix, constant in (("", False), ("constant ", True)):
            try:
                made = session({name: hazard}, constant).run(None, {} if constant else feeds({name: hazard}))
            except ort_lite.errors.OrtLiteError as error:
                made = [f"{type(error).__name__}: {error}"]
            yield prefix + name, made[0]


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(pickle.dumps(dict(results())))
