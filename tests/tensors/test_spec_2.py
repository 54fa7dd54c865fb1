"""docs/specification.md, rows 2.1 to 2.9: the container and NDArray. DLPack, files and sessions: beside this file."""

import copy
import ctypes
import pickle

import numpy as np
import pytest

from ort_lite import CVMArrayAlloc, CVMArrayFree, CVMArrayFromHandle, NDArray
from ort_lite.errors import InvalidArgument, OutOfMemory
from ort_lite.tensors.container import Container
from ort_lite.tensors.dltensor import FLOAT, INT, UINT, DLContext, DLDataType, DLTensor, check_type
from tests.tensors.arrays import ramp
from tests.threads import run_together


def test_spec_2_1_the_dltensor_is_laid_out_as_in_c() -> None:
    assert ctypes.sizeof(DLTensor) == 48
    fields = ("data", "ctx", "ndim", "dtype", "shape", "strides", "byte_offset")
    assert [getattr(DLTensor, name).offset for name in fields] == [0, 8, 16, 20, 24, 32, 40]
    assert (ctypes.sizeof(DLContext), ctypes.sizeof(DLDataType)) == (8, 4)


def test_spec_2_2_a_container_begins_with_its_dltensor() -> None:
    container = ramp(2, 3).container
    assert ctypes.addressof(container) == ctypes.addressof(container.dl_tensor) == container.address
    tensor = DLTensor.from_address(container.address)
    assert (tensor.ndim, list(tensor.shape[:2]), bool(tensor.strides)) == (2, [2, 3], False)
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (FLOAT, 32, 1)
    assert (
        Container.dl_tensor.offset < Container.manager_ctx.offset < Container.deleter.offset < Container.array_type_code.offset
    )
    assert container.array_type_code == 0


def test_spec_2_3_references_are_counted() -> None:
    a = ramp(2)
    assert (a.use_count(), a.defined, a.same_as(a)) == (1, True, True)
    b, c = NDArray(a), copy.copy(a)
    assert (a.use_count(), b.same_as(a), c.same_as(b)) == (3, True, True)
    d = b.move()
    assert (b.defined, b.use_count(), d.use_count()) == (False, 0, 3)
    d.reset()
    d.reset()
    assert (a.use_count(), d.defined, NDArray().defined, NDArray().use_count()) == (2, False, False, 0)
    with pytest.raises(InvalidArgument, match="undefined: it was reset or moved from"):
        d.numpy()
    assert (repr(a), repr(d)) == ("NDArray(float32[2])", "NDArray(undefined)")


def test_spec_2_3_the_deleter_runs_once_at_zero() -> None:
    gone: list[int] = []
    a = NDArray.from_numpy(np.zeros(3), on_free=lambda: gone.append(1))
    container = a.container
    b = NDArray(a)
    a.reset()
    assert gone == []
    del b
    assert gone == [1]
    for again in (container.dec_ref, container.inc_ref):
        with pytest.raises(InvalidArgument, match="the container is gone"):
            again()
    assert gone == [1]


def test_spec_2_3_the_structs_own_deleter_frees_for_c_code() -> None:
    gone: list[int] = []
    a = NDArray.from_numpy(np.zeros(3), on_free=lambda: gone.append(1)).move()
    container = a.container
    a._container = None  # its reference is now the C code's
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(container.deleter)(container.address)
    assert gone == [1]


def test_spec_2_3_threads_count_without_losing_one() -> None:
    gone: list[int] = []
    a = NDArray.from_numpy(np.zeros(3), on_free=lambda: gone.append(1))

    def hammer(_: int) -> None:
        for _ in range(2000):
            b = NDArray(a)
            c = copy.copy(b)
            b.reset()
            del c

    run_together(hammer, 8)
    assert (a.use_count(), gone) == (1, [])
    a.reset()
    assert gone == [1]


def test_spec_2_4_assignment_shares_until_a_copy_is_asked_for() -> None:
    a = ramp(2, 2)
    lazy, own, deep = copy.copy(a), a.copy(), copy.deepcopy(a)
    assert np.shares_memory(a.numpy(), lazy.numpy())
    assert not np.shares_memory(a.numpy(), own.numpy())
    assert not np.shares_memory(a.numpy(), deep.numpy())
    a.numpy()[0, 0] = 9
    assert [one.numpy()[0, 0] for one in (lazy, own, deep)] == [9, 0, 0]


def test_spec_2_4_an_array_over_it_is_a_reference() -> None:
    a = ramp(3)
    array = a.numpy()
    assert a.use_count() == 2
    a.reset()
    assert array.tolist() == [0, 1, 2]
    assert np.asarray(ramp(3), np.int64).tolist() == [0, 1, 2]


def test_spec_2_4_contiguous_arrays_are_taken_as_they_are_and_others_copied() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.shares_memory(NDArray.from_numpy(array).numpy(), array)
    for other in (array.T, array[:, ::2], array.astype(">i4"), np.frombuffer(b"\0" * 9, np.uint8)[1:].view(np.int32)):
        made = NDArray.from_numpy(other)
        assert made.numpy().tolist() == other.tolist()
        assert not np.shares_memory(made.numpy(), other)
    with pytest.raises(InvalidArgument, match="string has no DLDataType"):
        NDArray.from_numpy(np.array(["a"], object))
    with pytest.raises(InvalidArgument, match=r"element type datetime64\[s\], which ONNX lacks"):
        NDArray.from_numpy(np.zeros(2, "datetime64[s]"))


def test_spec_2_5_a_view_is_the_same_memory_and_keeps_its_parent() -> None:
    a = ramp(4)
    view = a.create_view((2, 1), "uint32")
    assert (a.use_count(), view.container.manager_ctx) == (2, a.container.address)
    assert view.data_ptr == a.data_ptr
    a.reset()
    assert view.numpy().view(np.float32).tolist() == [[0], [1]]
    with pytest.raises(InvalidArgument, match="a view of 12 bytes over an NDArray of 8 needs a bigger memory"):
        view.create_view((3,), "float32")
    with pytest.raises(InvalidArgument, match="negative dimension"):
        view.create_view((-1,))


def test_spec_2_5_only_compact_tensors_come_in() -> None:
    with pytest.raises(InvalidArgument, match=r"shape \[3, 2\] has strides \[1, 3\]: expected a compact one"):
        NDArray.from_dlpack(np.zeros((2, 3)).T)


def test_spec_2_6_a_handle_is_freed_once() -> None:
    before = len(Container.live)
    handle = CVMArrayAlloc((2, 3), FLOAT, 32)
    assert len(Container.live) == before + 1
    assert DLTensor.from_address(handle).ndim == 2
    shared = CVMArrayFromHandle(handle)
    CVMArrayFree(handle)
    assert shared.shape == (2, 3)
    shared.reset()
    assert len(Container.live) == before
    with pytest.raises(InvalidArgument, match=r"0x[0-9a-f]+ is no tensor's handle: it was freed already, or never allocated"):
        CVMArrayFree(handle)
    with pytest.raises(InvalidArgument, match="containers are allocated on the CPU"):
        CVMArrayAlloc((1,), INT, 8, 1, 2, 0)


@pytest.mark.parametrize(("bits", "lanes"), [(8, 1), (32, 1), (64, 16), (64, 64)])
def test_spec_2_7_memory_begins_at_a_multiple_of_64_and_of_the_element(bits: int, lanes: int) -> None:
    handles = [CVMArrayAlloc((n,), INT, bits, lanes) for n in (0, 1, 3)]
    for handle in handles:
        assert (DLTensor.from_address(handle).data or 0) % max(64, bits // 8 * lanes) == 0
        assert CVMArrayFromHandle(handle).nbytes == Container.at(handle).shape[0] * bits // 8 * lanes
        CVMArrayFree(handle)


@pytest.mark.parametrize(
    ("code", "bits", "lanes", "valid"),
    [
        (INT, 8, 1, True),
        (FLOAT, 64, 4, True),
        (UINT, 1, 1, True),
        (INT, 1, 1, False),
        (INT, 12, 1, False),
        (FLOAT, 24, 1, False),
        (INT, 4, 1, False),
        (INT, 0, 1, False),
        (INT, 32, 0, False),
    ],
)
def test_spec_2_8_element_types_are_checked(code: int, bits: int, lanes: int, valid: bool) -> None:
    if valid:
        check_type(code, bits, lanes)
        return
    with pytest.raises(InvalidArgument, match="expected"):
        check_type(code, bits, lanes)
    with pytest.raises(InvalidArgument, match="expected"):
        CVMArrayAlloc((2,), code, bits, lanes)


@pytest.mark.parametrize("shape", [(2**62, 4), (2**31, 2**31, 0, 2**31), (-1,)])
def test_spec_2_8_sizes_are_checked_before_anything_is_allocated(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match=r"larger than any memory|negative"):
        NDArray.empty(shape, "float32")
    with pytest.raises(OutOfMemory, match=r"a tensor of shape \[1152921504606846976\]"):
        NDArray.empty((2**60,), "float32")


def test_spec_2_9_a_copy_needs_exactly_as_many_bytes() -> None:
    a, b = ramp(2, 3), NDArray.empty((6,), "int32")
    a.copyto(b)
    assert b.numpy().view(np.float32).tolist() == [0, 1, 2, 3, 4, 5]
    a.copyfrom(np.arange(12).reshape(6, 2)[:, 1].astype(np.float32))
    assert a.numpy()[1].tolist() == [7, 9, 11]
    with pytest.raises(InvalidArgument, match="copy of 20 bytes into an NDArray of 24"):
        a.copyfrom(np.zeros(5, np.float32))
    frozen = NDArray.from_numpy(np.frombuffer(bytes(24), np.float32))
    with pytest.raises(InvalidArgument, match="read-only"):
        frozen.copyfrom(a)


def test_spec_2_9_a_pickle_is_a_copy() -> None:
    made = pickle.loads(pickle.dumps(ramp(2, 3)))
    assert made.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
