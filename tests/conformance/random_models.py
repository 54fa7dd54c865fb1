"""`check`: a drawn node, or a chain of them, through `InferenceSession`, against what is expected."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import ort_lite
from ort_lite.dtypes import Array, from_numpy, to_onnx
from tests.conformance.drawing import How, laid_out
from tests.cpu.check import assert_close, assert_same

Inputs = Sequence[Array | None]
Link = tuple[str, tuple[str, ...], dict[str, Any]]
"""One node of a chain: operator, inputs, attributes. Node k makes "t<k>"."""


def options(optimised: bool) -> ort_lite.SessionOptions:
    """All transforms or none."""
    made, levels = ort_lite.SessionOptions(), ort_lite.GraphOptimizationLevel
    made.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    return made


def check(
    op_type: str,
    inputs: Inputs,
    expected: Sequence[Array],
    how: How,
    *,
    opset: int | Any = 23,
    domain: str | Any = "",
    rtol: float | Any = 1e-5,
    atol: float | Any = 1e-6,
    **attributes: Any,
) -> None:
    """One node. `expected`: its outputs. Options are typed "or Any", see tests/cpu/check.py."""
    names = ["" if array is None else f"x{k}" for k, array in enumerate(inputs)]
    plain = {key: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for key, v in attributes.items()}
    results = [f"y{k}" for k in range(len(expected))]
    node = helper.make_node(op_type, names, results, domain=domain, **plain)
    what = f"{op_type}-{opset} {attributes} of {_described(inputs)}"
    compare([node], dict(zip(names, inputs, strict=True)), results, expected, how, what, opset, domain, rtol, atol)


def check_chain(links: Sequence[Link], inputs: Mapping[str, Array], expected: Array, how: How, **tolerance: float) -> None:
    """Nodes that follow one another; the last one makes the output."""
    nodes = [helper.make_node(op, list(given), [f"t{k}"], **more) for k, (op, given, more) in enumerate(links)]
    what = f"{links} of {_described(list(inputs.values()))}"
    bounds = {"rtol": 1e-5, "atol": 1e-6, **tolerance}
    compare(nodes, inputs, [f"t{len(nodes) - 1}"], [expected], how, what, 23, "", **bounds)


def compare(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array | None],
    results: Sequence[str],
    expected: Sequence[Array],
    how: How,
    what: str,
    opset: int,
    domain: str,
    rtol: float,
    atol: float,
) -> None:
    """Runs the model twice; shapes that the session foretells must be those that come."""
    given = {name: array for name, array in inputs.items() if array is not None}
    fixed = {name for k, name in enumerate(given) if how.constants >> k & 1}
    session = ort_lite.InferenceSession(model(nodes, given, fixed, results, how.dims, opset, domain), options(how.optimised))
    feeds = {name: laid_out(array, how.layout) for name, array in given.items() if name not in fixed}
    got = session.run(None, feeds)
    again = session.run(None, feeds)
    for k, (result, want) in enumerate(zip(got, expected, strict=True)):
        where = f"{what}, {how}, output {k}"
        assert_close(result, want, rtol, atol, where)
        assert_same(result, again[k], f"{where}: two runs differ")
        foretold = session.get_outputs()[k]
        assert foretold.type == f"tensor({_ort_name(want)})", f"{where}: foretold was {foretold}"
        dims = zip(foretold.shape or want.shape, want.shape, strict=True)  # [] where the rank is not known
        assert all(a == b for a, b in dims if isinstance(a, int)), f"{where}: foretold was {foretold}"
    for name, array in feeds.items():
        assert_same(np.array(array, given[name].dtype, order="C"), given[name], f"{what}, {how}: {name} was written to")


def model(
    nodes: Sequence[onnx.NodeProto],
    given: Mapping[str, Array],
    fixed: set[str],
    results: Sequence[str],
    dims: str,
    opset: int,
    domain: str,
) -> bytes:
    """A serialised model; the inputs in `fixed` are initialisers, the others have dimensions of the kind `dims`."""
    infos = [
        helper.make_tensor_value_info(name, to_onnx(from_numpy(array.dtype)), _dims(name, array, dims))
        for name, array in given.items()
        if name not in fixed
    ]
    constants = [numpy_helper.from_array(given[name], name) for name in given if name in fixed]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in results], constants)
    imports = [helper.make_opsetid(domain, opset), *([helper.make_opsetid("", 21)] if domain else [])]
    made: bytes = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    return made


def _dims(name: str, array: Array, dims: str) -> list[int | str]:
    if dims == "fixed":
        return list(array.shape)
    return [f"n{n}" if dims == "shared" else f"{name}_{axis}" for axis, n in enumerate(array.shape)]


def _ort_name(array: Array) -> str:
    return ort_lite.dtypes.ort_name(from_numpy(array.dtype))[len("tensor(") : -1]


def _described(inputs: Inputs) -> str:
    return ", ".join("none" if a is None else f"{from_numpy(a.dtype)} {a.shape}" for a in inputs)
