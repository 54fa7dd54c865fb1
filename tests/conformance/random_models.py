"""`check`: a drawn node through `InferenceSession`, against what is expected."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy, ort_name, to_onnx
from tests.conformance.drawing import How, laid_out
from tests.cpu.check import assert_close, assert_same


def options(optimised: bool) -> ort_lite.SessionOptions:
    """All transforms or none."""
    made, levels = ort_lite.SessionOptions(), ort_lite.GraphOptimizationLevel
    made.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    return made


def check(
    op_type: str,
    inputs: Sequence[Array | None],
    expected: Sequence[Array],
    how: How,
    *,
    opset: int | Any = 23,
    atol: float | Any = 1e-6,
    **attributes: Any,
) -> None:
    """Run a model of one node twice. `expected` are its outputs, whose types and shapes the session must foretell."""
    names = ["" if array is None else f"x{k}" for k, array in enumerate(inputs)]
    given = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    fixed = {name for k, name in enumerate(given) if how.constants >> k & 1}
    node = helper.make_node(op_type, names, [f"y{k}" for k in range(len(expected))], **attributes)
    session = ort_lite.InferenceSession(_model(node, given, fixed, how.dims, opset), options(how.optimised))
    feeds = {name: laid_out(array, how.layout) for name, array in given.items() if name not in fixed}
    got, again = session.run(None, feeds), session.run(None, feeds)
    what = f"{op_type}-{opset} {attributes} of {_describe(given)}, {how}"
    for k, (result, want) in enumerate(zip(got, expected, strict=True)):
        where = f"{what}, output {k}"
        assert_close(result, want, 1e-5, atol, where)
        assert_same(result, again[k], f"{where}: two runs differ")
        foretold = session.get_outputs()[k]
        assert foretold.type == ort_name(from_numpy(want.dtype)), f"{where}: foretold was {foretold}"
        dims = zip(foretold.shape or want.shape, want.shape, strict=True)  # [] where the rank is not known
        assert all(a == b for a, b in dims if isinstance(a, int)), f"{where}: foretold was {foretold}"
    for name, array in feeds.items():
        assert_same(np.array(array, given[name].dtype, order="C"), given[name], f"{what}: {name} was written to")


def _model(node: onnx.NodeProto, given: Mapping[str, Array], fixed: set[str], dims: str, opset: int) -> bytes:
    """A serialised model; the inputs in `fixed` are initialisers, the others have dimensions of the kind `dims`."""
    infos = [
        helper.make_tensor_value_info(name, to_onnx(from_numpy(array.dtype)), _dims(name, array, dims))
        for name, array in given.items()
        if name not in fixed
    ]
    constants = [numpy_helper.from_array(given[name], name) for name in given if name in fixed]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in node.output], constants)
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()
    return made


def _dims(name: str, array: Array, dims: str) -> list[int | str]:
    if dims == "fixed":
        return list(array.shape)
    return [f"n{n}" if dims == "shared" else f"{name}_{axis}" for axis, n in enumerate(array.shape)]


def _describe(given: Mapping[str, Array]) -> str:
    return ", ".join(f"{name} {from_numpy(array.dtype)} {array.shape}" for name, array in given.items())
