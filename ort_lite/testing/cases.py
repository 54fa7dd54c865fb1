"""Models for checks of a provider: the node tests of the onnx package, and variations of them."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.record import Record

FEED = np.linspace(-2.3, 3.4, 12, dtype=np.float32).reshape(3, 4)
FEED.setflags(write=False)


class Case(Record, eq=False):
    """A model with inputs and its expected outputs, which may differ by `rtol` and `atol`."""

    name: str
    model: Any
    feed: Mapping[str, Any]
    expected: tuple[Any, ...]
    rtol: float
    atol: float

    @property
    def operators(self) -> tuple[str, ...]:
        """Return the operator types of the model's nodes, each once, in order."""
        return tuple(dict.fromkeys(node.op_type for node in self.model.graph.node))


@cache
def node_cases(operators: frozenset[str] | None = None) -> tuple[Case, ...]:
    """Return ONNX's node tests whose inputs and outputs are numeric tensors, by name, without random ones and those of `ROUNDED`.

    `operators` limits them to tests of these operators, including their expansions into other nodes. All of them take 10 s once per
    process, because NumPy computes the expected outputs. A few operators take a fraction of that.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX divides by zero while it makes its expectations
        found = {test.name: test for test in _node_tests(operators)}
    chosen = sorted(name for name in found if operators is None or _subject(name, found) in operators)
    return tuple(case for name in chosen if (case := _case(found[name])) is not None)


def _node_tests(operators: frozenset[str] | None) -> list[Any]:
    """Return the tests of these operators, perhaps with others. Each of ONNX's modules computes its tests when imported."""
    from onnx.backend.test.case import node
    from onnx.backend.test.loader import load_model_tests

    made: list[Any] | None = getattr(node, "_NodeTestCases", None)
    if operators is None or made is None:
        return list(load_model_tests(kind="node"))
    for folder in node.__path__:
        for file in sorted(Path(folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if file.stem != "__init__" and any(f'"{operator}"' in text for operator in operators):
                import_module(".".join((node.__name__, *file.relative_to(folder).with_suffix("").parts)))
    return list(made)


def _subject(name: str, found: Mapping[str, Any]) -> str:
    """Return the operator that a test is about. An expansion is named after the test that has the operator as one node."""
    model = found[name.split("_expanded")[0]].model if name.split("_expanded")[0] in found else found[name].model
    return str(model.graph.node[0].op_type)


RANDOM = ("bernoulli", "training_dropout", "randomnormal", "randomuniform", "multinomial")
ROUNDED = ("resize_downsample_scales_cubic_align_corners", "resize_downsample_scales_linear_align_corners")
"""They align corners with a length before it is rounded, which PyTorch and onnxruntime do not: decision 0076."""


def _case(found: Any) -> Case | None:
    if any(word in found.name for word in (*RANDOM, *ROUNDED)):
        return None
    inputs, outputs = ([_array(value) for value in values] for values in found.data_sets[0])
    values = [*inputs, *outputs]
    if not all(isinstance(value, np.ndarray) and value.dtype != object and value.dtype.kind not in "SU" for value in values):
        return None
    names = [value.name for value in found.model.graph.input]
    feed = dict(zip(names, inputs, strict=False))
    return Case(found.name.removeprefix("test_"), found.model, feed, tuple(outputs), found.rtol, max(found.atol, 1e-5))


def _array(given: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return np.asarray(given) if isinstance(given, np.generic) else given


def with_constants(case: Case) -> "tuple[Any, dict[str, Array]] | None":
    """Return the model with all inputs but the first as initializers, and its feed, or None if it has one input."""
    from onnx import numpy_helper

    if len(case.feed) < 2:
        return None
    model, (first, *others) = _copy(case.model), case.feed
    kept = [value for value in model.graph.input if value.name not in others]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(case.feed[name], name) for name in others)
    return model, {first: case.feed[first]}


def fixed_case(case: Case) -> Case | None:
    """Return the case with all inputs but the first as initializers, or None if there is one input or one that ONNX cannot store."""
    try:
        made = with_constants(case)
    except (TypeError, ValueError):
        return None
    return None if made is None else case.replace(name=f"{case.name}, fixed", model=made[0], feed=made[1])


def with_open_dimensions(case: Case) -> Any:
    """Return the model with a name for the first dimension of each input. Equal sizes share a name."""
    model = _copy(case.model)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if len(dims):
            dims[0].dim_param = f"n{dims[0].dim_value}"
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    return model


def with_any_sizes(case: Case) -> Any:
    """Return the model with a name for each dimension of its inputs."""
    model = _copy(case.model)
    for value in model.graph.input:
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{k}"
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    return model


def other_sizes(case: Case) -> Iterator[tuple[str, dict[str, Array]]]:
    """Return feeds with other sizes of the shared first dimension: three times as long, 1 and 0.

    There are none if a node has a body, because sizes inside a body stay as they are.
    """
    sizes = [array.shape[0] for array in case.feed.values() if array.ndim]
    if not sizes or any(attribute.HasField("g") for node in case.model.graph.node for attribute in node.attribute):
        return
    size = sizes[0]
    for label, index in (("longer", np.arange(3 * size) % max(size, 1)), ("of one", np.arange(1)), ("empty", np.arange(0))):
        if size or label == "empty":
            yield label, {k: a[index] if a.ndim and a.shape[0] == size else a for k, a in case.feed.items()}


def of_size(case: Case, size: int) -> dict[str, Array]:
    """Return the feed with `size` elements along the shared first dimension, or unchanged if no input has one."""
    sizes = [array.shape[0] for array in case.feed.values() if array.ndim and array.shape[0]]
    if not sizes:
        return dict(case.feed)
    index = np.arange(size) % sizes[0]
    return {name: a[index] if a.ndim and a.shape[0] == sizes[0] else a for name, a in case.feed.items()}


def scalars(case: Case) -> dict[str, Array] | None:
    """Return the first element of each input as a 0-d array, or None if there is none or a node names axes.

    A scalar has no axes. The CPU provider ignores them in reductions, as onnxruntime does, but other providers need not.
    """
    if not all(array.size for array in case.feed.values()) or any(map(_names_axes, case.model.graph.node)):
        return None
    return {name: np.array(array.reshape(-1)[0]) for name, array in case.feed.items()}


def _names_axes(node: Any) -> bool:
    reduced = node.op_type.startswith("Reduce") and len(node.input) > 1 and bool(node.input[1])
    return reduced or any(attribute.name == "axes" for attribute in node.attribute)


def chain(operators: Sequence[Any], shape: Sequence[int]) -> Any:
    """Return a model that applies nodes with one input one after the other. The value in the middle is also an output.

    `operators` are NodeProtos. The input and output are float32 tensors of `shape`.
    """
    from onnx import TensorProto, helper

    nodes = []
    for k, node in enumerate(operators):
        made = _rename(node, f"v{k}", f"v{k + 1}")
        made.name = f"node{k}"
        nodes.append(made)
    names = ["v0", *dict.fromkeys([f"v{(len(nodes) + 1) // 2}", f"v{len(nodes)}"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name in names]
    return helper.make_graph(nodes, "chain", infos[:1], infos[1:])


def with_rank_0(case: Case) -> Any:
    """Return the model with 0-d inputs, and outputs of any rank."""
    model = _copy(case.model)
    for value in model.graph.input:
        del value.type.tensor_type.shape.dim[:]
    for value in (*model.graph.output, *model.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    return model


def in_a_row(case: Case) -> Case:
    """Return a case with three nodes of a unary case in a row, without expected outputs."""
    node, version = case.model.graph.node[0], case.model.opset_import[0].version
    model = _model(chain([node] * 3, (3, 4)), version)
    return Case(f"three {node.op_type} in a row", model, {"v0": FEED}, (), case.rtol, case.atol)


def of_several_nodes(unary: Sequence[Case]) -> Iterator[tuple[str, Any, dict[str, Array]]]:
    """Yield the label, model and feed of combined operators that keep a float32 tensor's shape: chains, a fork and an If."""
    feed = {"v0": FEED}
    for k in range(len(unary)):
        several = [unary[(k + j) % len(unary)] for j in range(3)]
        nodes = [case.model.graph.node[0] for case in several]
        version = max(case.model.opset_import[0].version for case in several)
        yield "chain of " + ", ".join(node.op_type for node in nodes), _model(chain(nodes, (3, 4)), version), feed
    if unary:
        node, version = unary[0].model.graph.node[0], unary[0].model.opset_import[0].version
        yield f"{node.op_type} around a foreign node", _model(_around(node), version), feed
        yield f"{node.op_type} captured by an If", _model(_outer_scope_if(node), version), {**feed, "c": np.array(True)}


def keeps_shape(case: Case) -> bool:
    """Return True for a single node from a float32 tensor to one of the same shape that appears to work elementwise."""
    node = case.model.graph.node
    array = next(iter(case.feed.values())) if len(case.feed) == 1 else None
    domains = {imported.domain for imported in case.model.opset_import} <= {"", "ai.onnx"}
    return (
        domains
        and len(node) == 1
        and len(node[0].input) == len(node[0].output) == 1
        and len(case.expected) == 1
        and isinstance(array, np.ndarray)
        and array.dtype == case.expected[0].dtype == np.float32
        and array.shape == case.expected[0].shape
        and not any(a.name in ("axis", "axes", "perm") for a in node[0].attribute)
        and node[0].op_type not in ("LRN", "LpNormalization", "MeanVarianceNormalization", "Transpose")
    )


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def _model(graph: Any, version: int) -> Any:
    from onnx import helper

    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", max(version, 13))], ir_version=10)


def _rename(node: Any, source: str, to: str) -> Any:
    made = _copy(node)
    del made.input[:], made.output[:]
    made.input.append(source)
    made.output.append(to)
    made.name = to
    return made


def _around(node: Any) -> Any:
    """Return a = F(v0), b = CumSum(a), c = F(b) + a: merging the two F would make a cycle through CumSum, which few accelerators
    support.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        _rename(node, "v0", "a"),
        helper.make_node("CumSum", ["a", "axis"], ["b"], name="b"),
        _rename(node, "b", "c"),
        helper.make_node("Add", ["c", "a"], ["d"], name="d"),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("v0", "a", "d")]
    return helper.make_graph(nodes, "around", infos[:1], infos[1:], [numpy_helper.from_array(np.array(0), "axis")])


def _outer_scope_if(node: Any) -> Any:
    """Return an If whose branches read the result of an outer F, and apply F inside."""
    from onnx import TensorProto, helper

    branches = [
        helper.make_graph(
            [_rename(node, "a", name)], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4])]
        )
        for name in ("then", "else")
    ]
    nodes = [
        _rename(node, "v0", "a"),
        helper.make_node("If", ["c"], ["d"], name="if", then_branch=branches[0], else_branch=branches[1]),
    ]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("v0", "d")]
    flag = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    return helper.make_graph(nodes, "captured", [infos[0], flag], infos[1:])
