"""Options of loading, saving and consolidating. Names and defaults are onnx-light's, where it has them.

Any function that takes TensorBufferOptions takes the other two as well, with the thresholds that they have.
"""

import os
from collections.abc import Callable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar

from ort_lite.errors import InvalidArgument

if TYPE_CHECKING:
    from ort_lite.load.tensor_slot import TensorSlot

kSmallTensorDataThresholdBytes = 64  # noqa: N816 (onnx-light's name)

RawDataCallback = Callable[["TensorSlot", str], Callable[[], object] | None]


class TensorBufferOptions:
    """Options for tensors and their layout. Setting an attribute to an impossible value raises InvalidArgument at once.

    raw_data_threshold: bytes from which a tensor counts; below 0 is 0. alignment: each tensor's address and offset become
    multiples of it, powers of two or not; 0 leaves them.
    """

    _defaults: ClassVar[dict[str, Any]] = {"raw_data_threshold": 0, "alignment": 0}

    raw_data_threshold: int
    alignment: int

    def __init__(self, **values: Any) -> None:
        """Raises TypeError for an option that is not known, InvalidArgument for a value."""
        if unknown := values.keys() - self._defaults.keys():
            known = ", ".join(self._defaults)
            raise TypeError(f"{type(self).__name__} takes no {', '.join(sorted(unknown))}; it takes {known}")
        for name, default in (self._defaults | values).items():
            setattr(self, name, default)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}; it has {', '.join(self._defaults)}")
        object.__setattr__(self, name, self._checked(name, value))

    def _checked(self, name: str, value: Any) -> Any:
        if name == "raw_data_threshold":
            return max(0, self._count(name, value, -(2**63)))
        return self._count(name, value) if name == "alignment" else value

    def _count(self, name: str, value: Any, least: int = 0) -> int:
        try:
            number = index(value) if not isinstance(value, bool) else least - 1
        except TypeError:
            number = least - 1
        if number < least:
            raise InvalidArgument(
                f"{type(self).__name__}.{name}: got {value!r}, expected a whole number, {max(least, 0)} or more"
            )
        return number

    def _flag(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InvalidArgument(f"{type(self).__name__}.{name}: got {value!r}, expected True or False")
        return value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # they can be changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._defaults)})"


class ParseOptions(TensorBufferOptions):
    """Options of `load`.

    no_copy: borrow instead of copying, where the source allows (docs/memory.md has the table); external data is mapped then, as by
    `InferenceSession(..., mmap=True)`, and sessions look before each run whether the files have changed. copy_misaligned: with no_copy,
    copy tensors whose bytes do not lie at a multiple of their element's size. skip_raw_data: initialisers of
    raw_data_threshold bytes and more are left without an array: the structure alone. load_external_data: False leaves those
    in external data without one. max_tensor_size_bytes: a larger tensor is refused before it is allocated; None: no limit.
    max_recursion_depth: messages within messages, three for each nested graph; protobuf itself ends at 100.
    external_data_roots: folders outside of the model's own that external data may be in, links resolved.
    raw_data_callback: called as (tensor, graph name) for every tensor with raw bytes once the model is loaded; a function
    that it returns is called exactly once when the bytes' owner token goes.
    """

    _defaults: ClassVar[dict[str, Any]] = {
        "raw_data_threshold": 1024,
        "alignment": 0,
        "no_copy": False,
        "copy_misaligned": False,
        "skip_raw_data": False,
        "load_external_data": True,
        "max_tensor_size_bytes": None,
        "max_recursion_depth": 100,
        "external_data_roots": (),
        "raw_data_callback": None,
    }

    no_copy: bool
    copy_misaligned: bool
    skip_raw_data: bool
    load_external_data: bool
    max_tensor_size_bytes: int | None
    max_recursion_depth: int
    external_data_roots: Sequence[str | os.PathLike[str]]
    raw_data_callback: RawDataCallback | None

    def _checked(self, name: str, value: Any) -> Any:
        if name in ("no_copy", "copy_misaligned", "skip_raw_data", "load_external_data"):
            return self._flag(name, value)
        if name == "max_recursion_depth":
            return self._count(name, value, 1)
        if name == "max_tensor_size_bytes":
            return None if value is None else self._count(name, value)
        if name == "external_data_roots":
            if isinstance(value, (str, bytes, os.PathLike)):
                raise InvalidArgument(f"{type(self).__name__}.{name}: got {value!r}, expected a list of folders")
            return tuple(os.fspath(folder) for folder in value)
        if name == "raw_data_callback" and value is not None and not callable(value):
            raise InvalidArgument(f"{type(self).__name__}.{name}: got {value!r}, expected a function or None")
        return super()._checked(name, value)


class SerializeOptions(TensorBufferOptions):
    """Options of `save`.

    external_data: the name of a file beside the model that receives initialisers of raw_data_threshold bytes and more; None
    keeps all in the model, up to protobuf's 2 GiB. alignment: of a tensor in that file; 0 is 64, which suits any kernel.
    """

    _defaults: ClassVar[dict[str, Any]] = {
        "raw_data_threshold": kSmallTensorDataThresholdBytes,
        "alignment": 0,
        "external_data": None,
    }

    external_data: str | None

    def _checked(self, name: str, value: Any) -> Any:
        if name == "external_data":
            if value is not None and not isinstance(value, str):
                raise InvalidArgument(f"{type(self).__name__}.{name}: got {value!r}, expected a file name or None")
            return value
        return super()._checked(name, value)
