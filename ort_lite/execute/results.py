"""What a provider's partition returns, looked at before anybody reads it: native code trusts types and shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_lite.dtypes import to_numpy
from ort_lite.errors import ProviderError
from ort_lite.graph.graph import Value
from ort_lite.graph.types import TensorType
from ort_lite.provider.provider import CompiledPartition
from ort_lite.shapes.dims import Shape


class Wrapper:
    """A compiled partition with something of the framework's around it."""

    function: CompiledPartition


class Checked(Wrapper):
    """A compiled partition on the CPU whose outputs are arrays of the types and known dimensions that the graph says.

    NumPy's scalars, which its functions make of 0-d arrays, become arrays; strided arrays become contiguous ones. Raises
    ProviderError for anything else. About 0.3 us an output.
    """

    def __init__(self, function: CompiledPartition, name: str, provider: str, outputs: Sequence[Value]) -> None:
        self.function, self._who, self._outputs = function, f"{name} ({provider})", tuple(outputs)
        self._expected = [_expected(value) for value in outputs]

    def __call__(self, inputs: Sequence[Any]) -> Sequence[Any]:
        results = self.function(inputs)
        if len(results) != len(self._expected):
            return results  # the executor says so
        for k, (result, expected) in enumerate(zip(results, self._expected, strict=True)):
            if expected is not None and not (
                type(result) is np.ndarray
                and result.dtype == expected[0]
                and result.flags.c_contiguous
                and (result.shape == expected[1] or _fits(result.shape, expected[1]))
            ):
                results = list(results)
                results[k] = self._mended(k, result, *expected)
        return results

    def _mended(self, k: int, result: Any, dtype: "np.dtype[Any]", shape: Shape | None) -> Any:
        value = self._outputs[k]
        if isinstance(result, (np.ndarray, np.generic)) and result.dtype == dtype and _fits(result.shape, shape):
            return np.require(result, requirements="C")
        came = f"{result.dtype}{list(result.shape)}" if isinstance(result, (np.ndarray, np.generic)) else type(result).__name__
        raise ProviderError(f"{self._who} returned {came} for {value.name!r}; expected {value.type}")


def _expected(value: Value) -> "tuple[np.dtype[Any], Shape | None] | None":
    """Element type and shape; None for what is no tensor."""
    if not isinstance(value.type, TensorType):
        return None
    return np.dtype(to_numpy(value.type.dtype)), value.type.shape


def _fits(came: tuple[int, ...], expected: Shape | None) -> bool:
    """The rank, and the dimensions that are numbers."""
    if expected is None:
        return True
    return len(came) == len(expected) and all(d == size for size, d in zip(came, expected, strict=True) if isinstance(d, int))
