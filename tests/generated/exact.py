"""onnx.reference with every node computed in float64 and rounded once, to the element type that the schema gives its result.

Whole models in float64 would not do: what overflows in float32, is rounded by a Cast, or mixes types would come out otherwise. A node
at a time, results of float16 are as good as those of float64, and neither fused nor accumulated roundings of the reference count.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ort_lite.dtypes import Array, from_numpy, from_onnx, from_ort_name, is_dtype, to_numpy
from tests.generated.ports import StackingLoop, StackingScan, find_port

PROMOTED = ("float16", "bfloat16", "float32")
_AS_IT_IS_NAMES = (
    "BitCast Range RandomNormalLike RandomUniformLike Bernoulli Multinomial SequenceConstruct SequenceInsert"
    " SplitToSequence SequenceMap ConcatFromSequence Optional OptionalGetElement LabelEncoder"
)
AS_IT_IS = frozenset(_AS_IT_IS_NAMES.split())
"""Operators that depend on the type itself: its bits, the number of steps, random numbers; and those of sequences."""


_WITH_BODIES = {"Loop": StackingLoop, "Scan": StackingScan}


class ExactEvaluator(ReferenceEvaluator):
    """A ReferenceEvaluator with our own definitions of some operators. Nodes of bodies and functions are computed alike."""

    def _load_impl(self, node: onnx.NodeProto, input_types: Any = None) -> Any:
        opset = self.opsets.get(node.domain, 1)
        function = find_port(node.domain, node.op_type, opset)
        if function is not None:
            return partial(_Ported, function)
        if not node.domain and node.op_type in _WITH_BODIES:
            return _WITH_BODIES[node.op_type]
        if (node.domain, node.op_type) not in self.functions_ and _schema(node, opset) is None:
            raise NotImplementedError(f"{node.op_type} of opset {opset}: the reference has a later version")
        return super()._load_impl(node, input_types)

    def _init(self) -> None:
        super()._init()
        for node in self.rt_nodes_:
            _name_unread_outputs(node.onnx_node)
            _widen_attributes(node)
            schema = _schema(node.onnx_node, self.opsets.get(node.domain, 1))
            if (
                schema is not None
                and node.op_type not in AS_IT_IS
                and not node.has_subgraph
                and not _writes_text(node.onnx_node)
            ):
                node.run = _exact(node.run, schema, _named_type(node))


def _name_unread_outputs(node: onnx.NodeProto) -> None:
    """Name the outputs that nobody reads: the reference gives those without a name to later inputs without a name."""
    for k, name in enumerate(node.output):
        if not name:
            node.output[k] = "(unread)"


def _widen_attributes(node: OpRun) -> None:
    """Make floats of attributes Python's, which computations with float64 do not round."""
    for name in node.attributes_names_:
        value = getattr(node, name)
        if isinstance(value, np.float32):
            setattr(node, name, float(value))
        elif isinstance(value, list) and value and isinstance(value[0], np.float32):
            setattr(node, name, [float(one) for one in value])


class _Ported(OpRun):
    """A node that a port computes."""

    def __init__(self, function: Callable[..., Any], node: onnx.NodeProto, run_params: dict[str, Any]) -> None:
        super().__init__(node, run_params)
        self._function = function
        self._named = {one.name for one in node.attribute}

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        """Attributes that the node does not have come with their defaults of the newest version."""
        result = self._function(*inputs, **{name: value for name, value in attributes.items() if name in self._named})
        return result if isinstance(result, tuple) else (result,)

    def _check_and_fix_outputs(self, res: tuple[Any, ...]) -> tuple[Any, ...]:
        """An empty optional is None, which the reference refuses."""
        return res


def _schema(node: onnx.NodeProto, opset: int) -> Any:
    try:
        return onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None


def _writes_text(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and any(one.name == "to" and one.i == onnx.TensorProto.STRING for one in node.attribute)


def _exact(run: Callable[..., Any], schema: Any, named: str | None) -> Callable[..., Any]:
    """Wrap the `run` of a node."""

    def exact(*inputs: Any, **more: Any) -> Any:
        variables = [_formal(schema.inputs, k) for k in range(len(inputs))]
        bound = {
            variable: from_numpy(value.dtype)
            for variable, value in zip(variables, inputs, strict=True)
            if isinstance(value, np.ndarray) and not variable.startswith("tensor(")
        }
        promoted = {variable for variable, dtype in bound.items() if dtype in PROMOTED}
        wide = [
            value.astype(np.float64) if variable in promoted and isinstance(value, np.ndarray) else value
            for variable, value in zip(variables, inputs, strict=True)
        ]
        try:
            results = run(*wide, **more)
        except Exception:  # some implementations refuse float64 where they look at the type; a real error comes again
            if not promoted:
                raise
            results = run(*inputs, **more)
        usual = named or next((bound[variable] for variable in variables if variable in promoted), None)
        return tuple(_rounded(value, _result_type(schema, k, bound), usual) for k, value in enumerate(results))

    return exact


def _formal(parameters: Sequence[Any], index: int) -> str:
    if not parameters:
        return "tensor(none)"
    return str(parameters[min(index, len(parameters) - 1)].type_str)


def _named_type(node: OpRun) -> str | None:
    """The element type that an attribute of the node, or its default, names for results."""
    codes = (getattr(node, name, None) for name in ("to", "dtype", "output_dtype", "output_datatype", "stash_type"))
    return next((from_onnx(int(code)) for code in codes if isinstance(code, int | np.integer) and code), None)


def _result_type(schema: Any, index: int, bound: dict[str, str]) -> str | None:
    """The element type of a result, None where no input says it."""
    kind = _formal(schema.outputs, index)
    if kind.startswith("tensor("):
        name = kind.removeprefix("tensor(").removesuffix(")")
        return from_ort_name(name)
    return bound.get(kind)


def _rounded(value: Any, dtype: str | None, usual: str | None) -> Any:
    """Round a result to its element type. Where no input says that, float64 stands for the `usual` floats."""
    if dtype is None and isinstance(value, np.ndarray) and value.dtype == np.float64 and usual and "float" in usual:
        dtype = usual
    if dtype is None or dtype == "string" or not isinstance(value, (np.ndarray, np.generic)) or not is_dtype(dtype):
        return value
    array: Array = np.asarray(value)
    if array.dtype.kind in "OUST" or array.dtype == to_numpy(dtype):
        return array
    return array.astype(to_numpy(dtype))
