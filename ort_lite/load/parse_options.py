"""Options for loading, saving and consolidating, with the names and defaults of onnx-light where it has them.

A function that takes TensorBufferOptions also accepts the other two classes, with their thresholds.
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
    """Options for tensors and their layout. Setting an invalid value raises InvalidArgument immediately.

    raw_data_threshold: the size in bytes from which a tensor counts; negative values become 0. alignment: the address and offset of
    each tensor become multiples of it, which need not be a power of two; 0 leaves them unchanged.
    """

    _names: ClassVar[tuple[str, ...]] = ("raw_data_threshold", "alignment")

    def __init__(self, *, raw_data_threshold: int = 0, alignment: int = 0) -> None:
        """Set options by name. Raises InvalidArgument for an invalid value."""
        self.raw_data_threshold = raw_data_threshold
        self.alignment = alignment

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}; it has {', '.join(self._names)}")
        object.__setattr__(self, name, self._check(name, value))

    def _check(self, name: str, value: Any) -> Any:
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

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._names)})"


class ParseOptions(TensorBufferOptions):
    """Options of `load`.

    no_copy: borrow bytes instead of copying them, if the source allows (docs/memory.md has the table). External data is then
    mapped, as by `InferenceSession(..., mmap=True)`, and sessions check before each run that the files have not changed.
    copy_misaligned: with no_copy, copy tensors that are not aligned to their element size. skip_raw_data: load only the structure;
    initialisers of at least raw_data_threshold bytes get no array. load_external_data: False leaves initialisers in external data
    without an array. max_tensor_size_bytes: larger tensors are rejected before memory is allocated; None means no limit.
    max_recursion_depth: the limit on nested messages, of which each nested graph takes three; protobuf itself stops at 100.
    external_data_roots: folders besides the model's that may contain external data, with links resolved. raw_data_callback: called
    with (tensor, graph name) for every tensor with raw bytes after loading; a function that it returns is called exactly once, when
    the owner of the bytes is released.
    """

    _names = (
        *TensorBufferOptions._names,
        "no_copy",
        "copy_misaligned",
        "skip_raw_data",
        "load_external_data",
        "max_tensor_size_bytes",
        "max_recursion_depth",
        "external_data_roots",
        "raw_data_callback",
    )

    def __init__(
        self,
        *,
        raw_data_threshold: int = 1024,
        alignment: int = 0,
        no_copy: bool = False,
        copy_misaligned: bool = False,
        skip_raw_data: bool = False,
        load_external_data: bool = True,
        max_tensor_size_bytes: int | None = None,
        max_recursion_depth: int = 100,
        external_data_roots: Sequence[str | os.PathLike[str]] = (),
        raw_data_callback: RawDataCallback | None = None,
    ) -> None:
        """Set options by name. Raises InvalidArgument for an invalid value."""
        super().__init__(raw_data_threshold=raw_data_threshold, alignment=alignment)
        self.no_copy = no_copy
        self.copy_misaligned = copy_misaligned
        self.skip_raw_data = skip_raw_data
        self.load_external_data = load_external_data
        self.max_tensor_size_bytes = max_tensor_size_bytes
        self.max_recursion_depth = max_recursion_depth
        self.external_data_roots = external_data_roots
        self.raw_data_callback = raw_data_callback

    def _check(self, name: str, value: Any) -> Any:
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
        return super()._check(name, value)


class SerializeOptions(TensorBufferOptions):
    """Options of `save`.

    external_data: the name of a file next to the model for initialisers of at least raw_data_threshold bytes; None keeps everything
    in the model, up to protobuf's 2 GiB. alignment: of tensors in that file; 0 means 64, which suits all kernels.
    """

    _names = (*TensorBufferOptions._names, "external_data")

    def __init__(
        self,
        *,
        raw_data_threshold: int = kSmallTensorDataThresholdBytes,
        alignment: int = 0,
        external_data: str | None = None,
    ) -> None:
        """Set options by name. Raises InvalidArgument for an invalid value."""
        super().__init__(raw_data_threshold=raw_data_threshold, alignment=alignment)
        self.external_data = external_data

    def _check(self, name: str, value: Any) -> Any:
        if name == "external_data":
            if value is not None and not isinstance(value, str):
                raise InvalidArgument(f"{type(self).__name__}.{name}: got {value!r}, expected a file name or None")
            return value
        return super()._check(name, value)
