"""A model that is served: its session, what the protocol says of it, and what requests have to look like."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import Array, from_numpy, from_ort_name
from ort_lite.errors import DeadlineExceeded, InvalidArgument
from ort_lite_serve.limits import Refused
from ort_lite_serve.protocol import NAMES

Feeds = Mapping[str, Array]
Run = Callable[[Feeds, float], Sequence[Any]]
"""What runs feeds, in a thread of its own, within so many seconds. Raises DeadlineExceeded."""


class Model:
    """`session` is an ort_lite.InferenceSession, or what has `get_inputs` and `get_outputs` as it does; `run` is how it is run."""

    def __init__(self, name: str, session: Any, version: str = "1", platform: str = "ort_lite", run: Run | None = None) -> None:
        self.name, self.version, self.platform, self.session = name, version, platform, session
        self.inputs = {arg.name: (from_ort_name(arg.type), tuple(arg.shape)) for arg in session.get_inputs()}
        self.outputs = {arg.name: (from_ort_name(arg.type), tuple(arg.shape)) for arg in session.get_outputs()}
        self._run = run or (lambda feeds, seconds: session.run(None, feeds, timeout=seconds))

    @property
    def batches(self) -> bool:
        """Whether requests can be joined: the first dimension of all inputs and outputs is free."""
        sides = [*self.inputs.values(), *self.outputs.values()]
        return bool(self.inputs) and all(shape and not isinstance(shape[0], int) for _, shape in sides)

    def metadata(self) -> dict[str, Any]:
        def told(side: Mapping[str, tuple[str, tuple[Any, ...]]]) -> list[dict[str, Any]]:
            return [
                {"name": name, "datatype": NAMES[dtype], "shape": [d if isinstance(d, int) else -1 for d in shape]}
                for name, (dtype, shape) in side.items()
            ]

        head = {"name": self.name, "versions": [self.version], "platform": self.platform}
        return {**head, "inputs": told(self.inputs), "outputs": told(self.outputs)}

    def check(self, inputs: Feeds, outputs: Sequence[str]) -> None:
        """Raises Refused for other names, types or shapes than the model's."""
        for name in outputs:
            if name not in self.outputs:
                raise Refused(400, f"{self.name} has no output {name!r}; it has {', '.join(self.outputs)}")
        missing = [name for name in self.inputs if name not in inputs]
        unknown = [name for name in inputs if name not in self.inputs]
        if missing or unknown:
            what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}, which the model has not"
            raise Refused(400, f"the request for {self.name} {what}; its inputs are {', '.join(self.inputs) or 'none'}")
        for name, array in inputs.items():
            dtype, shape = self.inputs[name]
            came = "string" if array.dtype == object else from_numpy(array.dtype)
            fits = len(shape) == array.ndim and all(
                not isinstance(d, int) or d == size for d, size in zip(shape, array.shape, strict=True)
            )
            if came != dtype or not fits:
                wanted = [d if isinstance(d, int) else -1 for d in shape]
                raise Refused(400, f"input {name!r} is {came}{list(array.shape)}; {self.name} takes {dtype}{wanted}")

    def run(self, feeds: Feeds, seconds: float) -> dict[str, Array]:
        """Outputs by name. Raises Refused for what the model says of the feeds, and where the time is over."""
        try:
            results = self._run(feeds, seconds)
        except DeadlineExceeded:
            raise Refused(504, f"{self.name} took longer than {seconds:.3g} s") from None
        except InvalidArgument as error:
            raise Refused(400, str(error)) from error
        return {name: np.asarray(result) for name, result in zip(self.outputs, results, strict=True)}
