"""A partition as a compiled OpenVINO model that maps arrays to arrays with as few copies as possible."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import openvino

from ort_lite.dtypes import Array, to_numpy
from ort_lite.errors import CompileError, RuntimeException
from ort_lite.graph import Value
from ort_lite.provider import Partition
from ort_lite.provider.empty_outputs import empty_outputs
from ort_lite.provider.export import partition_model
from ort_lite.provider.narrowing import beyond_int32
from ort_lite_openvino.rewrites import rewrite


def compile_partition(core: Any, partition: Partition, device: str, config: Mapping[str, Any]) -> "CompiledModel":
    """Compile a partition. Raises OpenVINO's errors, and CompileError if its model has other outputs than the partition."""
    exported = partition_model(partition, rewrite)
    model = core.read_model(exported.data)
    for operation in model.get_ops():
        kind = operation.get_type_name()
        if kind == "Divide":
            _keep_divide(operation)
        elif kind == "Add":
            _settle_bias(operation)
    return CompiledModel(
        partial(core.compile_model, model, device, dict(config)), partition, exported.inputs, model.is_dynamic()
    )


def _keep_divide(divide: Any) -> None:
    """Keep a quotient as it is: OpenVINO would multiply by 1 / y, which turns 49 / 49 into 0.99999994.

    The quotient of a constant and a matrix product is left alone: if kept, OpenVINO fuses it with its operands exchanged.
    """
    if divide.input_value(0).get_node().get_type_name() != "Constant":
        divide.get_rt_info()["nonconvertable_divide_0"] = True


def _settle_bias(add: Any) -> None:
    """Turn a convolution's bias into a constant.

    OpenVINO reads the bias as a reshape to sizes of the result. If layers share it, it stays a separate addition after the convolution.
    """
    product, bias = (add.input_value(k).get_node() for k in (0, 1))
    if not product.get_type_name().endswith("Convolution") or bias.get_type_name() != "Reshape":
        return
    source, rank = bias.input_value(0).get_node(), product.get_output_partial_shape(0).rank
    if source.get_type_name() == "Constant" and rank.is_static:
        shape = (1, -1, *[1] * (rank.get_length() - 2))
        settled = openvino.op.Constant(source.get_data().reshape(shape), shared_memory=False)
        add.input(1).replace_source_output(settled.output(0))


class CompiledModel:
    """A compiled partition. Runs on its own infer requests, one per concurrent thread.

    Inputs are passed to OpenVINO without a copy. An output of a fixed shape is written straight into a new array; any other output
    is copied once, out of the request's memory.
    """

    def __init__(self, make: Callable[[], Any], partition: Partition, names: Sequence[str], is_dynamic: bool) -> None:
        compiled = make()
        self._make, self._pool, self._empty_outputs = make, _Pool(compiled), empty_outputs(partition)
        self._infer = _infer_dynamic if is_dynamic else _infer
        self._inputs = _ports(compiled, names)
        self._wide = [(k, partition.inputs[k]) for k, _ in self._inputs if partition.inputs[k].dtype == "int64"]
        outputs = [_output(port, value) for port, value in zip(compiled.outputs, partition.outputs, strict=True)]
        self._hand_on = _hand_on(compiled)
        self._outputs = [None for _ in outputs] if self._hand_on else outputs

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        if (empty := self._empty_outputs(inputs)) is not None:
            return empty
        for k, value in self._wide:
            _check_range(inputs[k], value)
        pool = self._pool
        request = pool.take()
        for k, port in self._inputs:
            request.set_input_tensor(port, openvino.Tensor(_writable(inputs[k]), shared_memory=True))
        results = [None if made is None else np.empty(*made) for made in self._outputs]
        for k, result in enumerate(results):
            if result is not None:
                request.set_output_tensor(k, openvino.Tensor(result, shared_memory=True))
        self._run(request)
        outputs = [self._output(request, k) if result is None else result for k, result in enumerate(results)]
        pool.idle.append(request)
        return outputs

    def _output(self, request: Any, k: int) -> Array:
        """Return a copy of an output.

        An output that is an input is copied from there: OpenVINO may hold an earlier run's value in its place.
        """
        port = self._hand_on.get(k)
        tensor = request.get_output_tensor(k) if port is None else request.get_input_tensor(port)
        copy: Array = tensor.data.copy()
        return copy

    def _run(self, request: Any) -> None:
        """Run a request. If it fails, replace all requests of the compiled model: they would fail or return stale values."""
        try:
            self._infer(request)
        except Exception:
            self._pool = _Pool(self._make())
            raise

    def facts(self) -> dict[str, int | str]:
        """Return the devices and settings for `explain()`."""
        devices: list[str] = self._pool.compiled.get_property("EXECUTION_DEVICES")
        return {"device": ", ".join(devices), "python_steps": 0}


class _Pool:
    """A compiled model and its idle infer requests. Appending and popping are atomic."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.idle: list[Any] = []

    def take(self) -> Any:
        try:
            return self.idle.pop()
        except IndexError:
            return self.compiled.create_infer_request()


def _infer(request: Any) -> None:
    request.infer(share_outputs=True)


def _infer_dynamic(request: Any) -> None:
    """Run a request asynchronously: with sizes that do not match, `infer` on one thread keeps stale outputs, but `wait` raises."""
    request.start_async()
    request.wait()


def _ports(compiled: Any, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return pairs of the partition's input number and OpenVINO's, without inputs that OpenVINO found to have no effect.

    Raises CompileError if the inputs cannot be matched: an input that is also an output has lost its name.
    """
    ports = {name: number for number, port in enumerate(compiled.inputs) for name in port.get_names()}
    found = {k: ports[name] for k, name in enumerate(names) if name in ports}
    nameless = [number for number in range(len(compiled.inputs)) if number not in found.values()]
    rest = [k for k in range(len(names)) if k not in found]
    if nameless and len(nameless) != len(rest):
        raise CompileError(f"OpenVINO's model has {len(compiled.inputs)} inputs, which cannot be told apart; expected {names}")
    found.update(zip(rest, nameless, strict=False))
    return sorted(found.items())


def _hand_on(compiled: Any) -> dict[int, int]:
    """Return the numbers of outputs that are inputs, with the numbers of those inputs.

    A model with such outputs fills no array that it is given for an output, and may write to the input.
    """
    model = compiled.get_runtime_model()
    inputs = {node.get_friendly_name(): k for k, node in enumerate(model.get_parameters())}
    sources = [result.input_value(0).get_node() for result in model.get_results()]
    return {k: inputs[node.get_friendly_name()] for k, node in enumerate(sources) if node.get_type_name() == "Parameter"}


def _output(port: Any, value: Value) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return the shape and dtype of an output, or None if its shape is not fixed."""
    dtype = to_numpy(value.dtype or "")
    if port.element_type.to_dtype() != dtype:
        raise CompileError(f"output {value.name!r} is {value.dtype}; OpenVINO makes it {port.element_type.to_dtype()}")
    shape = port.partial_shape
    return (tuple(shape.to_shape()), dtype) if shape.is_static else None


def _check_range(array: Array, value: Value) -> None:
    """Raise RuntimeException for numbers beyond 32 bits, in which OpenVINO silently computes int64."""
    if (wrong := beyond_int32(array)) is not None:
        raise RuntimeException(
            f"{value.name!r} has the element {wrong}; OpenVINO computes int64 in 32 bits: "
            "leave OpenVINOExecutionProvider out for this model"
        )


class _Opened:
    """A read-only array presented as writable, as openvino.Tensor requires. Nothing writes to it."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def _writable(array: Array) -> Array:
    return array if array.flags.writeable else np.asarray(_Opened(array))
