"""IOBinding: bind inputs and outputs to memory once for many runs. Method names are onnxruntime's."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_lite.compat.bound_outputs import fill, fill_device
from ort_lite.compat.ort_value import OrtValue, at_address, dims_at, dtype_of
from ort_lite.dtypes import Array
from ort_lite.errors import InvalidArgument
from ort_lite.execute.donation import Donations
from ort_lite.execute.replay import KeptMemory
from ort_lite.options.options import RunOptions
from ort_lite.provider.provider import CPU, Device, ExecutionProvider
from ort_lite.record import Record
from ort_lite.tensors.device_tensor import DeviceTensor, on_device, parse_device

if TYPE_CHECKING:
    from ort_lite.compat.ort_value_vector import OrtValueVector
    from ort_lite.session.run_state import RunState
    from ort_lite.session.session import Session


class _Targets(Record, eq=False):
    """The bound outputs by kind, until one is bound again."""

    memory: Mapping[str, OrtValue]
    """Outputs that are bound to memory."""
    there: Mapping[str, OrtValue]
    """Bound tensors on devices."""
    devices: Mapping[str, Device]
    """The devices of outputs that are not on the CPU."""
    places: tuple[int, ...]
    """The positions of the bound outputs among the model's."""

    def tensors(self) -> list[tuple[str, DeviceTensor]]:
        """Return the bound tensors on devices."""
        return [(name, tensor) for name, value in self.there.items() if (tensor := value.device_tensor) is not None]


class IOBinding:
    """The bindings of one session.

    A contiguous array is read in place, and an output bound to memory is written in place. A value on a device is read there,
    and an output stays on the device that it is bound to: a result of `get_outputs()` can be bound as the next run's input
    without a copy.

    Each thread needs a binding of its own.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._output_names = [arg.name for arg in session.get_outputs()]
        self._known = {
            "input": {arg.name for arg in (*session.get_inputs(), *session.get_overridable_initializers())},
            "output": {*self._output_names},
        }
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | Device] = {}
        self._targets: dict[str, Array] = {}
        self._is_new = True
        self._bound: _Targets | None = None
        self._results: list[OrtValue] = []
        self._state: RunState | None = None
        self._memory = KeptMemory()

    @property
    def _iobinding(self) -> "IOBinding":
        """This binding, where onnxruntime has its native class."""
        return self

    # Inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array, which each run reads as it is then.

        It is read in place if it is contiguous and of the input's type.
        """
        self._check("input", name)
        before, targets = self._inputs.get(name), self._targets.values()
        if not self._is_new:  # an input that is an output's memory has a part in how the others are written
            replaced = not isinstance(before, np.ndarray) or any(target is before for target in targets)
            shares = not isinstance(arr_on_cpu, np.ndarray) or any(
                np.may_share_memory(target, arr_on_cpu) for target in targets
            )
            self._is_new = replaced or shares
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to memory at an address, which must stay valid while the binding is used.

        On a device, its provider must support addresses (`ort_lite.provider.transfers.TakesAddresses`).
        """
        self._check("input", name)
        self.bind_ortvalue_input(name, self._at_address(device_type, device_id, element_type, shape, buffer_ptr))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to an OrtValue, without a copy."""
        self._check("input", name)
        self._inputs[name], self._is_new = ortvalue.value() if ortvalue.device_tensor is None else ortvalue, True

    def bind_state(self, state: "RunState | None") -> None:
        """Let runs use a state of the session (`create_run_state`), which has inputs and outputs besides those that are bound."""
        self._state = state

    def synchronize_inputs(self) -> None:
        """Wait until the devices of the inputs have finished their work. Does nothing for the CPU."""
        _synchronize(self._inputs.values())

    def clear_binding_inputs(self) -> None:
        """Unbind all inputs, and the state."""
        self._inputs.clear()
        self._state, self._is_new = None, True

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
        """Bind an output to memory at an address, or to a device on which each run allocates it.

        Memory must stay valid while the binding is used. Raises InvalidArgument for a device on which the session has no
        provider.
        """
        self._check("output", name)
        device = parse_device(device_type, device_id)
        if device != CPU:
            provider_of(self._session._devices(), device)
        if buffer_ptr is None:
            if self._outputs.get(name) != device:
                self._is_new, self._bound = self._is_new or isinstance(self._outputs.get(name), OrtValue), None
                self._outputs[name] = device
            return
        if element_type is None or shape is None:
            raise InvalidArgument(f"output {name!r}: a buffer needs element_type= and shape= besides")
        target = self._at_address(device_type, device_id, element_type, shape, buffer_ptr)
        if target.device_tensor is not None:
            _check_overwrites(name, target.device_tensor.provider)
        self._outputs[name], self._is_new, self._bound = target, True, None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to an OrtValue, whose memory each run overwrites.

        For a value on a device see `ort_lite.provider.transfers.Overwrites`.
        """
        self._check("output", name)
        if not ortvalue.is_tensor():
            raise InvalidArgument(f"output {name!r}: bound to {ortvalue.data_type()}, expected a tensor")
        self._outputs[name], self._is_new, self._bound = ortvalue, True, None

    def synchronize_outputs(self) -> None:
        """Wait until the devices of the outputs have finished, and raise their error. CPU outputs are complete when a run returns."""
        _synchronize(self._results)

    def clear_binding_outputs(self) -> None:
        """Unbind all outputs."""
        self._outputs.clear()
        self._results.clear()
        self._is_new, self._bound = True, None

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run in the order in which they were bound."""
        return list(self._results)

    def get_outputs_as_ortvaluevector(self) -> "OrtValueVector":
        """Return the outputs in an OrtValueVector."""
        from ort_lite.compat.ort_value_vector import OrtValueVector

        return OrtValueVector(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs as arrays, lists and dicts. Bound memory is copied, since the next run overwrites it."""
        return [
            result.numpy().copy() if target is result and result.device_tensor is None else result.value()
            for result, target in zip(self._results, self._outputs.values(), strict=False)
        ]

    # Running

    def run(self, run_options: RunOptions | None = None) -> None:
        """Run the session with the bindings. Returns when `InferenceSession.run_with_iobinding` does.

        Raises InvalidArgument if an output does not fit the memory that it is bound to, and the errors of `run`.
        """
        if not self._outputs and self._state is None:
            raise InvalidArgument(f"no output is bound; the model has {', '.join(sorted(self._known['output']))}")
        bound = self._bound = self._bound or self._describe_outputs()
        if run_options is None and self._state is None and not bound.devices:
            self._results = self._run_on_cpu(bound)
            return
        in_place = Donations(self._bound_to_both(bound.tensors()))
        results = self._run_with_targets(run_options, self._device_outputs(bound), in_place)
        made = dict(zip(self._outputs, results, strict=True))
        computed = {in_place.allowed[name] for name in in_place.taken if name in in_place.allowed}
        for name, target in bound.memory.items():
            if target.device_tensor is None:
                fill(name, target.numpy(), made[name])
            else:
                fill_device(name, target.device_tensor, made[name], name in computed)
        self._results = [bound.memory[name] if name in bound.memory else OrtValue(result) for name, result in made.items()]

    def _run_on_cpu(self, bound: _Targets) -> list[OrtValue]:
        """Run without options, with all outputs on the CPU, computed in the bound memory if possible."""
        memory = bound.memory
        results = self._run_in_place(bound.places) if memory else None
        if results is None:
            results = self._session._start_run([*self._outputs], self._inputs, None, {})
        values, targets = [], self._targets
        for name, result in zip(self._outputs, results, strict=True):
            value = memory.get(name)
            if value is None:
                value = OrtValue(result)
            elif result is not targets.get(name):
                fill(name, value.numpy(), result)
            values.append(value)
        return values

    def _run_with_targets(self, options: RunOptions | None, wanted: Mapping[str, Device], in_place: Donations) -> list[Any]:
        """Run with the state, if there is one, with memory that stays, or with outputs computed in the memory of inputs."""
        session, names = self._session, list(self._outputs)
        if self._state is None:
            donations = in_place if in_place.allowed else None
            return session._start_run(names, self._inputs, options, wanted, donations, self._kept_memory(wanted, options))

        def run(names: Sequence[str], feed: Mapping[str, Any], homes: Mapping[str, Device], donations: Donations) -> list[Any]:
            donations.allowed = {**in_place.allowed, **donations.allowed}
            try:
                return session._start_run(names, feed, options, {**wanted, **homes}, donations)
            finally:
                in_place.taken = donations.taken

        return self._state.run(run, session, names, self._inputs)

    def _describe_outputs(self) -> _Targets:
        memory = {name: target for name, target in self._outputs.items() if isinstance(target, OrtValue)}
        there = {name: target for name, target in memory.items() if target.device_tensor is not None}
        devices = {name: device for name, target in self._outputs.items() if (device := _device_of(target)) != CPU}
        places = tuple(self._output_names.index(name) for name in self._outputs)
        return _Targets(memory, there, devices, places)

    def _bound_to_both(self, tensors: Sequence[tuple[str, DeviceTensor]]) -> dict[str, str | None]:
        """Return the inputs on devices that are bound to the same tensor as exactly one output, with the name of the output."""
        outputs: dict[int, list[str]] = {}
        for name, target in tensors:
            outputs.setdefault(id(target), []).append(name)
        pairs = [(name, outputs.get(id(on_device(value)), [])) for name, value in self._inputs.items()] if outputs else []
        return {name: found[0] for name, found in pairs if len(found) == 1}

    def _kept_memory(self, wanted: Mapping[str, Device], options: RunOptions | None) -> KeptMemory | None:
        """Return the memory that stays between runs, if all inputs and outputs do that are on devices."""
        tensors = [] if self._bound is None else self._bound.tensors()
        self._memory.bound = {name: tensor.value for name, tensor in tensors}
        stays = wanted and wanted.keys() <= self._memory.bound.keys()
        if not stays or any(on_device(x) is None for x in self._inputs.values()):
            return None
        self._wait_for_others(tensors, options)
        return self._memory

    def _wait_for_others(self, tensors: Sequence[tuple[str, DeviceTensor]], options: RunOptions | None) -> None:
        """Wait until other provider instances neither read nor write the outputs, which partitions may compute in place."""
        from ort_lite.session.device_values import wait_for_readers

        providers = self._session._devices()
        for _, tensor in tensors:
            wait_for_readers(tensor, options)
            if tensor.work is not None and providers.get(tensor.device) is not tensor.provider:
                tensor.work.finish(options)

    def _device_outputs(self, bound: _Targets) -> dict[str, Device]:
        """Return the outputs that stay on a device of the session."""
        there = self._session._devices() if bound.devices else {}
        return {name: device for name, device in bound.devices.items() if device in there}

    def _at_address(self, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], address: int) -> OrtValue:
        """Return a tensor over memory that the caller owns."""
        if dtype_of(element_type) == "string":
            raise InvalidArgument("Only binding non-string Tensors is possible at an address; bind an OrtValue of the strings")
        device = parse_device(device_type, device_id)
        if device == CPU:
            return at_address(element_type, shape, address)
        from ort_lite.session import device_values

        dtype = dtype_of(element_type)
        dims = dims_at(shape, dtype, address)
        there = provider_of(self._session._devices(), device)
        return OrtValue(device_values.at_address(there, dtype, tuple(dims), address))

    def _run_in_place(self, places: Sequence[int]) -> list[Any] | None:
        """Run with outputs computed in the bound memory. Return those at `places`, or None: not possible, and nothing was run."""
        if self._is_new:
            self._targets, self._is_new = self._find_targets(), False
        targets = self._targets
        outputs = self._session._run_into(self._inputs, [*map(targets.get, self._output_names)]) if targets else None
        return None if outputs is None else [outputs[k] for k in places]

    def _find_targets(self) -> dict[str, Array]:
        """Return the arrays of outputs that can be computed there: memory of their own, or that of the input that they replace."""
        inputs = {name: value for name, value in self._inputs.items() if isinstance(value, np.ndarray)}
        if len(inputs) < len(self._inputs):  # values of other types may share memory with a target
            return {}
        others, replaced, targets = [*inputs.values()], self._session._aliases(), dict[str, Array]()
        for name, bound in self._outputs.items():
            if not isinstance(bound, OrtValue) or bound.device_tensor is not None:
                continue
            target = bound.numpy()
            if not (target.flags.writeable and target.flags.c_contiguous and target.flags.aligned):
                continue
            sharing = [other for other in others if np.may_share_memory(target, other)]
            own = inputs.get(replaced.get(name, ""))
            if own is not None and len(sharing) == 1 and sharing[0] is own and _are_same_memory(own, target):
                targets[name] = own
            elif not sharing:
                targets[name] = target
                others.append(target)
        return targets

    def _check(self, kind: str, name: str) -> None:
        if name not in self._known[kind]:
            names = ", ".join(sorted(map(repr, self._known[kind])))
            raise InvalidArgument(f"the model has no {kind} {name!r}; it has {names or 'none'}")


def _are_same_memory(a: Array, b: Array) -> bool:
    """Return True for contiguous arrays of one type and shape at one address."""
    alike = a.dtype == b.dtype and a.shape == b.shape and a.flags.c_contiguous
    return alike and a.ctypes.data == b.ctypes.data


def provider_of(devices: Mapping[Device, ExecutionProvider], device: Device) -> ExecutionProvider:
    """Return the session's provider on a device. Raises InvalidArgument if it has none."""
    if device not in devices:
        raise InvalidArgument(f"the session has no device {device}; it has {', '.join(map(str, devices))}")
    return devices[device]


def _device_of(target: OrtValue | Device) -> Device:
    if isinstance(target, Device):
        return target
    return CPU if target.device_tensor is None else target.device_tensor.device


def _synchronize(values: Iterable[Any]) -> None:
    there = [tensor for value in values if (tensor := on_device(value)) is not None]
    if there:
        from ort_lite.session.device_values import synchronize

        synchronize(there)


def _check_overwrites(name: str, provider: ExecutionProvider) -> None:
    from ort_lite.session.device_values import can_overwrite

    if not can_overwrite(provider):
        raise InvalidArgument(f"output {name!r}: the data transfer of {provider.name} has no overwrite, bind an OrtValue")
