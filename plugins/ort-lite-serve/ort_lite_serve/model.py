"""A served model: its session, its metadata, and the check of requests against it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, from_ort_name
from ort_lite.errors import DeadlineExceeded, InvalidArgument
from ort_lite.record import Record
from ort_lite_serve.limits import Limits, Refused
from ort_lite_serve.tensors import NAMES

Feeds = Mapping[str, Array]
Runner = Callable[[Feeds, float], Sequence[Any]]
"""A function that runs feeds within a number of seconds, called in a thread. Raises InvalidArgument and DeadlineExceeded."""


class Side(Record):
    """An input or an output: its element type and its dimensions. A dimension that is not a number is free."""

    dtype: str
    shape: tuple[int | str | None, ...]

    @property
    def dims(self) -> list[int]:
        """The dimensions as the protocol states them: -1 is free."""
        return [d if isinstance(d, int) else -1 for d in self.shape]

    def takes(self, array: Array) -> bool:
        """Return True if an array has the type and a possible shape."""
        dtype = "string" if array.dtype == object else from_numpy(array.dtype)
        fits = len(self.shape) == array.ndim and all(d in (-1, size) for d, size in zip(self.dims, array.shape, strict=True))
        return dtype == self.dtype and fits


class ServedModel:
    """A model to serve.

    `session` is an ort_lite.InferenceSession, or any object with its `get_inputs` and `get_outputs`; `run` replaces its
    `run`. Raises InvalidArgument for an input or output that the protocol has no type for: a sequence, 4-bit integers, ...
    """

    def __init__(
        self, name: str, session: Any, version: str = "1", platform: str = "ort_lite", run: Runner | None = None
    ) -> None:
        self.name, self.version, self.platform = name, version, platform
        self.inputs = {arg.name: _side(name, arg) for arg in session.get_inputs()}
        self.outputs = {arg.name: _side(name, arg) for arg in session.get_outputs()}
        self._run = run or (lambda feeds, seconds: session.run(None, feeds, timeout=seconds))

    @property
    def joins(self) -> bool:
        """True if requests can be joined: all inputs and outputs have the same free first dimension."""
        first = {side.shape[0] if side.shape else 1 for side in (*self.inputs.values(), *self.outputs.values())}
        return bool(self.inputs) and len(first) == 1 and isinstance(first.pop(), str)

    def metadata(self) -> dict[str, Any]:
        """Return the model's metadata as the protocol defines it."""

        def describe(sides: Mapping[str, Side]) -> list[dict[str, Any]]:
            return [{"name": name, "datatype": NAMES[side.dtype], "shape": side.dims} for name, side in sides.items()]

        head = {"name": self.name, "versions": [self.version], "platform": self.platform}
        return {**head, "inputs": describe(self.inputs), "outputs": describe(self.outputs)}

    def check(self, inputs: Feeds, outputs: Sequence[str], limits: Limits) -> None:
        """Raise Refused for names, types or shapes that are not the model's, and for too many rows."""
        for name in outputs:
            if name not in self.outputs:
                raise Refused(400, f"{self.name} has no output {name!r}; it has {', '.join(self.outputs)}")
        if inputs.keys() != self.inputs.keys():
            there = ", ".join(inputs) or "none"
            raise Refused(400, f"the request has the inputs {there}; {self.name} takes {', '.join(self.inputs) or 'none'}")
        for name, array in inputs.items():
            side = self.inputs[name]
            if not side.takes(array):
                came = "string" if array.dtype == object else array.dtype.name
                raise Refused(400, f"input {name!r} is {came}{[*array.shape]}; {self.name} takes {side.dtype}{side.dims}")
            if side.dims[:1] == [-1] and array.shape[0] > limits.batch:
                raise Refused(400, f"input {name!r} has {array.shape[0]} rows; this server takes {limits.batch} in a request")

    def run(self, feeds: Feeds, seconds: float) -> dict[str, Array]:
        """Run the model and return its outputs by name. Raises Refused if the feeds are invalid or the time is over."""
        try:
            results = self._run(feeds, seconds)
        except DeadlineExceeded:
            raise Refused(504, f"{self.name} took longer than {seconds:.3g} s") from None
        except InvalidArgument as error:
            raise Refused(400, str(error)) from error
        return {name: np.asarray(result) for name, result in zip(self.outputs, results, strict=True)}


def _side(model: str, arg: Any) -> Side:
    inside = arg.type.removeprefix("tensor(").removesuffix(")")
    if arg.type != f"tensor({inside})" or (dtype := from_ort_name(arg.type)) not in NAMES:
        known = ", ".join(NAMES)
        raise InvalidArgument(
            f"model {model!r}: {arg.name!r} is a {arg.type}; the Open Inference Protocol has tensors of {known}"
        )
    return Side(dtype, tuple(arg.shape))
