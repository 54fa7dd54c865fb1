"""IOBinding: inputs and outputs bound to memory once, for many runs. Method names are onnxruntime's."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.options.options import RunOptions
from ort_lite.session.metadata import NodeArg
from ort_lite.session.ort_value import OrtValue, check_device, dtype_of
from ort_lite.tensors.container import Container
from ort_lite.tensors.dltensor import code_of
from ort_lite.tensors.ndarray import NDArray
from ort_lite.tensors.values import array_of


class Bindable(Protocol):
    """What a binding asks of its session."""

    def get_inputs(self) -> list[NodeArg]: ...

    def get_outputs(self) -> list[NodeArg]: ...

    def get_overridable_initializers(self) -> list[NodeArg]: ...

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]: ...

    def _run_into(self, input_feed: Mapping[str, Any], targets: Mapping[str, Any]) -> dict[str, Any] | None: ...


class IOBinding:
    """Bindings of one session. Contiguous arrays are read where they are; an output that was bound to memory is written there.

    Not for runs in several threads at once: each needs a binding of its own.
    """

    def __init__(self, session: Bindable) -> None:
        self._session = session
        self._known = {
            "input": {arg.name for arg in (*session.get_inputs(), *session.get_overridable_initializers())},
            "output": {arg.name for arg in session.get_outputs()},
        }
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    # Inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """The array as it will be at each run; it is read in place where it is contiguous and of the input's type."""
        self._check("input", name)
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Memory at an address, which must stay while the binding lives."""
        self._check("input", name)
        self._inputs[name] = at_address(device_type, device_id, element_type, shape, buffer_ptr).numpy()

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._check("input", name)
        self._inputs[name] = ortvalue.value()

    def synchronize_inputs(self) -> None:
        """Inputs are on the CPU: there is nothing to wait for."""

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    # Outputs

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """To memory at an address, which must stay while the binding lives; without one, each run allocates the output."""
        self._check("output", name)
        check_device(device_type, device_id)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise InvalidArgument(f"output {name!r}: a buffer needs element_type= and shape= besides")
        self._outputs[name] = OrtValue(at_address(device_type, device_id, element_type, shape, buffer_ptr))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Each run writes the output into the value's memory."""
        self._check("output", name)
        if not ortvalue.is_tensor():
            raise InvalidArgument(f"output {name!r}: bound to {ortvalue.data_type()}, expected a tensor")
        self._outputs[name] = ortvalue

    def synchronize_outputs(self) -> None:
        """Outputs are complete when a run returns."""

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._results.clear()

    def get_outputs(self) -> list[OrtValue]:
        """Of the run before, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """As arrays, lists and dicts; memory that outputs are bound to is copied, since the next run writes to it."""
        bound = self._outputs.values()
        return [
            result.value() if target is None else result.numpy().copy()
            for result, target in zip(self._results, bound, strict=False)
        ]

    # Running

    def run(self, run_options: RunOptions | None = None) -> None:
        """What `InferenceSession.run_with_iobinding` does.

        Raises InvalidArgument where an output does not fit the memory it is bound to, and what `run` raises.
        """
        if not self._outputs:
            raise InvalidArgument(f"no output is bound; the model has {', '.join(sorted(self._known['output']))}")
        given = {name: target.numpy() for name, target in self._outputs.items() if target is not None}
        results = self._run_in_place(given) if given and run_options is None else None
        if results is None:
            results = self._session.run(list(self._outputs), self._inputs, run_options)
        for name, result in zip(self._outputs, results, strict=True):
            if name in given:
                _fill(name, given[name], result)
        self._results = [
            OrtValue(result) if target is None else target
            for target, result in zip(self._outputs.values(), results, strict=True)
        ]

    def _run_in_place(self, given: Mapping[str, Array]) -> list[Any] | None:
        """The outputs, computed in the memory they are bound to as far as that is possible; None: nothing was run."""
        others = [value for value in self._inputs.values() if isinstance(value, np.ndarray)]
        if len(others) < len(self._inputs):  # who knows whose memory the others show
            return None
        targets: dict[str, Array] = {}
        for name, target in given.items():
            usable = target.flags.writeable and target.flags.c_contiguous
            if usable and not any(np.may_share_memory(target, other) for other in others):
                targets[name] = target
                others.append(target)
        outputs = self._session._run_into(self._inputs, targets) if targets else None
        return None if outputs is None else [outputs[name] for name in self._outputs]

    def _check(self, kind: str, name: str) -> None:
        if name not in self._known[kind]:
            names = ", ".join(sorted(map(repr, self._known[kind])))
            raise InvalidArgument(f"the model has no {kind} {name!r}; it has {names or 'none'}")


def _fill(name: str, target: Array, result: Any) -> None:
    array = array_of(result)
    if array.dtype != target.dtype or array.shape != target.shape:
        came, expected = (f"{a.dtype}{list(a.shape)}" for a in (array, target))
        raise InvalidArgument(f"output {name!r} is {came}; it is bound to memory for {expected}")
    if not target.flags.writeable:
        raise InvalidArgument(f"output {name!r} is bound to read-only memory")
    if array is not target:
        target[...] = array


def at_address(device_type: str, device_id: int, element_type: Any, shape: Sequence[int], address: int) -> NDArray:
    """An NDArray over memory that the caller keeps where it is."""
    check_device(device_type, device_id)
    dims = [int(dim) for dim in shape]
    if not address and 0 not in dims:
        raise InvalidArgument("a buffer at address 0; expected where the first element is, `array.ctypes.data`")
    return NDArray.adopt(Container.over(address, dims, (*code_of(dtype_of(element_type)), 1), None))


__all__ = ["IOBinding"]
