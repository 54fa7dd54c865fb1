"""Sparse tensors as values: onnxruntime's SparseTensor, its formats and views.

ort_lite computes with dense tensors. A sparse tensor that is fed to a model is converted first (`SparseTensor.dense`).
"""

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ort_lite.dtypes import Array, from_numpy, ort_name
from ort_lite.errors import InvalidArgument, InvalidType
from ort_lite.options.options import NamedNumber
from ort_lite.record import Record
from ort_lite.tensors.dltensor import dims_of

_DENSE_LIMIT = 2**31  # bytes of the dense tensor; the same limit as for sparse tensors in models


class OrtSparseFormat(NamedNumber):
    """The format in which a sparse tensor states the positions of its values."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class SparseCooView(Record):
    """The positions of the values of a tensor in COO format."""

    held: Array

    def indices(self) -> Array:
        """Return int64 positions in the flattened tensor (n,), or coordinates (n, 2)."""
        return self.held


class SparseCsrView(Record):
    """The positions of the values of a tensor in CSR format."""

    columns: Array
    rows: Array

    def inner(self) -> Array:
        """Return the column of each value, int64 (n,)."""
        return self.columns

    def outer(self) -> Array:
        """Return the start of each row's values, followed by the end of the last row, int64 (rows + 1,)."""
        return self.rows


class SparseBlockSparseView(Record):
    """The positions of the blocks of a tensor in block-sparse format."""

    held: Array

    def indices(self) -> Array:
        """Return the positions of the blocks, int32 (2, blocks)."""
        return self.held


_View = SparseCooView | SparseCsrView | SparseBlockSparseView
_AnyView = TypeVar("_AnyView", SparseCooView, SparseCsrView, SparseBlockSparseView)


class SparseTensor:
    """Values and their positions, on the CPU.

    Contiguous arrays are shared, others are copied. All are exposed read-only.
    """

    __slots__ = ("_format", "_shape", "_values", "_view")

    def __init__(self, sparse_tensor: "SparseTensor") -> None:
        """Share the arrays of another sparse tensor. Use the class methods to create one from arrays."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise InvalidType(
                f"SparseTensor({sparse_tensor!r}): expected a SparseTensor; sparse_coo_from_numpy makes one of arrays"
            )
        self._set(sparse_tensor._format, sparse_tensor._shape, sparse_tensor._values, sparse_tensor._view)

    def _set(self, format_: OrtSparseFormat, shape: tuple[int, ...], values: Array, view: _View) -> "SparseTensor":
        self._format, self._shape, self._values, self._view = format_, shape, values, view
        return self

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Sequence[int], values: Array, coo_indices: Array, ort_device: Any = None
    ) -> "SparseTensor":
        """Create a tensor in COO format.

        `values` is (n,); `coo_indices` is int64, (n,) positions in the flattened tensor or (n, 2) coordinates in a matrix.
        Raises InvalidArgument for shapes that do not match, an index outside the tensor, and a device other than the CPU.
        """
        shape, values, index = _shape(dense_shape), _values(values, 1), _indices("coo_indices", coo_indices, np.int64)
        _on_cpu(ort_device)
        count = values.shape[0]
        if index.ndim > 2 or index.size not in (count, 2 * count):
            raise InvalidArgument(
                f"coo_indices are of shape {list(index.shape)}; expected [{count}] or [{count}, 2] for {count} values"
            )
        if index.size == count:
            limits: tuple[int, ...] = (prod(shape),)
        else:
            limits, index = shape, index.reshape(-1, 2)
            if len(shape) != 2:
                raise InvalidArgument(
                    f"coo_indices of shape {list(index.shape)} are for a matrix; dense_shape is {list(shape)}"
                )
        _within("coo_indices", index.reshape(count, len(limits)), limits)
        return cls.__new__(cls)._set(OrtSparseFormat.ORT_SPARSE_COO, shape, values, SparseCooView(index))

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape: Sequence[int], values: Array, inner_indices: Array, outer_indices: Array, ort_device: Any = None
    ) -> "SparseTensor":
        """Create a matrix in CSR format.

        `values` is (n,), `inner_indices` (n,) holds their columns, and `outer_indices` (rows + 1,) the start of each row.
        Raises the errors of `sparse_coo_from_numpy`, and InvalidArgument for row starts that decrease.
        """
        shape, values = _shape(dense_shape), _values(values, 1)
        columns, rows = (
            _indices(name, index, np.int64)
            for name, index in (("inner_indices", inner_indices), ("outer_indices", outer_indices))
        )
        _on_cpu(ort_device)
        if len(shape) != 2:
            raise InvalidArgument(f"dense_shape is {list(shape)}; expected two dimensions: CSR is of matrices")
        expected = [values.shape, (shape[0] + 1,)]
        if [columns.shape, rows.shape] != expected:
            came = f"{list(columns.shape)} and {list(rows.shape)}"
            raise InvalidArgument(
                f"inner_indices and outer_indices are of shape {came}; expected {' and '.join(map(str, map(list, expected)))}"
            )
        _within("inner_indices", columns.reshape(-1, 1), shape[1:])
        if rows[0] != 0 or rows[-1] != len(values) or (np.diff(rows) < 0).any():
            raise InvalidArgument(
                f"outer_indices are {rows.tolist()}; expected numbers that rise from 0 to {len(values)}, the count of values"
            )
        return cls.__new__(cls)._set(OrtSparseFormat.ORT_SPARSE_CSRC, shape, values, SparseCsrView(columns, rows))

    @classmethod
    def blocksparse_from_numpy(
        cls, dense_shape: Sequence[int], values: Array, block_indices: Array, ort_device: Any = None
    ) -> "SparseTensor":
        """Create a tensor in block-sparse format.

        `values` has at least three dimensions; `block_indices` is int32 (2, n), where n is the product of the dimensions from
        the third on. Raises InvalidArgument for other shapes and for a device other than the CPU.
        """
        shape, values = _shape(dense_shape), _values(values, 3)
        index = _indices("block_indices", block_indices, np.int32)
        _on_cpu(ort_device)
        blocks = prod(values.shape[2:])
        if index.shape != (2, blocks):
            raise InvalidArgument(f"block_indices are of shape {list(index.shape)}; expected [2, {blocks}]")
        return cls.__new__(cls)._set(OrtSparseFormat.ORT_SPARSE_BLOCK_SPARSE, shape, values, SparseBlockSparseView(index))

    # Description

    def values(self) -> Array:
        """Return the stored values, read-only."""
        return self._values

    def as_coo_view(self) -> SparseCooView:
        """Return the positions in COO format. Raises InvalidArgument for another format."""
        return self._view_as(SparseCooView, "COO")

    def as_csrc_view(self) -> SparseCsrView:
        """Return the positions in CSR format. Raises InvalidArgument for another format."""
        return self._view_as(SparseCsrView, "CSR(C)")

    def as_blocksparse_view(self) -> SparseBlockSparseView:
        """Return the positions in block-sparse format. Raises InvalidArgument for another format."""
        return self._view_as(SparseBlockSparseView, "BlockSparse")

    def _view_as(self, kind: type[_AnyView], name: str) -> _AnyView:
        if not isinstance(self._view, kind):
            raise InvalidArgument(f"this sparse tensor does not contain {name} format; it is {self._format.name}")
        return self._view

    # The view names of onnxruntime's native class

    get_coo_data, get_csrc_data, get_blocksparse_data = as_coo_view, as_csrc_view, as_blocksparse_view

    def _get_c_tensor(self) -> "SparseTensor":
        return self

    def to_cuda(self, ort_device: Any) -> "SparseTensor":
        """Raise InvalidArgument: sparse tensors exist only on the CPU."""
        raise InvalidArgument(
            f"to_cuda({ort_device!r}): sparse tensors are on the CPU alone; make it dense and copy that to the device"
        )

    def format(self) -> OrtSparseFormat:
        """Return the format of the positions."""
        return self._format

    def dense_shape(self) -> list[int]:
        """Return the shape of the dense tensor."""
        return list(self._shape)

    def data_type(self) -> str:
        """Return the type as onnxruntime spells it: "sparse_tensor(float)"."""
        return f"sparse_{ort_name(from_numpy(self._values.dtype))}"

    def device_name(self) -> str:
        """Return "cpu": sparse tensors are in host memory."""
        return "cpu"

    def dense(self) -> Array:
        """Return a new dense array, filled with zeros or empty strings. O(elements of the dense tensor).

        Raises InvalidArgument for the block-sparse format, which no ONNX operator reads, and for more than 2 GiB.
        """
        dtype = self._values.dtype
        if prod(self._shape) * dtype.itemsize > _DENSE_LIMIT:
            raise InvalidArgument(f"a sparse tensor of shape {self.dense_shape()} is too large to make dense: 2 GiB at most")
        made = np.full(self._shape, "", dtype) if dtype.kind in "OUST" else np.zeros(self._shape, dtype)
        match self._view:  # indices are copied: NumPy checks them before use, and another thread may write to shared ones
            case SparseCooView(held) if held.ndim == 2:
                made[held[:, 0].copy(), held[:, 1].copy()] = self._values
            case SparseCooView(held):
                made.reshape(-1)[held.copy()] = self._values
            case SparseCsrView(columns, rows):
                made[np.repeat(np.arange(len(rows) - 1), np.diff(rows)), columns.copy()] = self._values
            case _:
                raise InvalidArgument(f"{self._format.name} is not made dense; pass the tensor as COO or CSR")
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the dense array, which a feed of a dense input accepts."""
        if copy is False:
            raise ValueError("a sparse tensor is no array without a copy")
        return np.array(self.dense(), dtype, copy=None)

    def __repr__(self) -> str:
        return f"SparseTensor({self.data_type()}{self.dense_shape()}, {self._values.size} values, {self._format.name})"


def _shape(given: Sequence[int]) -> tuple[int, ...]:
    return tuple(dims_of(given))


def _values(given: Any, least: int) -> Array:
    """Return values as a read-only array with one dimension, or with at least `least` dimensions."""
    values = np.ascontiguousarray(given)
    if values.ndim != least if least == 1 else values.ndim < least:
        raise InvalidArgument(
            f"values are of shape {list(np.shape(given))}; expected {least} dimension{'s or more' * (least > 1)}"
        )
    try:
        from_numpy(values.dtype)
    except KeyError:
        raise InvalidArgument(f"values are of type {values.dtype}, which ONNX lacks") from None
    return _read_only(values)


def _indices(name: str, given: Any, kind: type[np.int32] | type[np.int64]) -> Array:
    index = np.asarray(given)
    if index.dtype.kind not in "iu":
        raise InvalidType(f"{name} are of type {index.dtype}; expected {kind.__name__}")
    return _read_only(np.ascontiguousarray(index, kind))


def _read_only(array: Array) -> Array:
    """Return a read-only view, so that validated positions cannot be changed through the tensor."""
    seen = array.view()
    seen.setflags(write=False)
    return seen


def _within(name: str, index: Array, limits: Sequence[int]) -> None:
    """Check that the indices (n, axes) are below the limit of their axis."""
    if index.size and ((index < 0) | (index >= np.array(limits))).any():
        raise InvalidArgument(f"{name}: an index is outside of {list(limits)}")


def _on_cpu(device: Any) -> None:
    kind = getattr(device, "device_type", None)
    if kind is not None and int(kind() if callable(kind) else kind) != 0:
        raise InvalidArgument(f"a sparse tensor on {device!r}: they are on the CPU alone")
