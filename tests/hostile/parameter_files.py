"""Adapters and parameter files that are small and ask for much, or contradict themselves."""

import contextlib
import struct
import time
from collections.abc import Callable

import ort_lite
from ort_lite.compat.adapter_file import read_adapter_bytes
from ort_lite.errors import InvalidParams
from tests.hostile.model_folders import W, folder_of_its_own, refused


def _adapter(parameters: list[tuple[int, int, int, int]], tail: bytes) -> bytes:
    """An adapter whose parameters are tables of four offsets from its beginning: name, dimensions, element type and data."""
    data = bytearray(8)
    table = len(data) + 12
    data += struct.pack("<6H", 12, 20, 4, 8, 12, 16) + struct.pack("<4i", 12, 1, 0, 0) + bytes(4)
    struct.pack_into("<I4s", data, 0, table, b"TORT")
    struct.pack_into("<I", data, table + 16, len(data) - table - 16)
    data += struct.pack("<I", len(parameters))
    slots = len(data)
    data += bytes(4 * len(parameters))
    places = slots + 4 * len(parameters)
    after = places + 12 + 20 * len(parameters)
    data += struct.pack("<6H", 12, 20, 4, 8, 12, 16)
    for k, (name, dims, kind, raw) in enumerate(parameters):
        place = places + 12 + 20 * k
        struct.pack_into("<I", data, slots + 4 * k, place - slots - 4 * k)
        fields = [after + target - place - at for target, at in ((name, 4), (dims, 8))]
        data += struct.pack("<i4i", place - places, *fields, kind, after + raw - place - 16)
    return bytes(data + tail)


def names_that_overlap_do_not_fill_the_memory() -> None:
    """2 MB, of which each parameter's name would be half."""
    tail = struct.pack("<I", 2**19) * 2000 + struct.pack("<IqI", 1, 0, 0) + bytes(2**20)
    many = [(4 * k, 8000, 1, 8012) for k in range(1000)]
    refused(InvalidParams, "overlap", read_adapter_bytes, _adapter(many, tail))


def data_that_overlaps_is_not_copied_over_and_over() -> None:
    tail = b"".join(struct.pack("<I", 1) + bytes([k % 256, k // 256, 0, 0]) for k in range(1000))
    begin = len(tail)
    tail += struct.pack("<Iq", 1, 2**19) + struct.pack("<I", 2**19) + bytes(2**19 + 64)
    for shift in range(8):
        many = [(8 * k, begin, 2, begin + 12) for k in range(1000)]
        with contextlib.suppress(InvalidParams):
            read_adapter_bytes(_adapter(many, bytes(shift) + tail))


def dimensions_that_numpy_refuses_are_named() -> None:
    def of(*dims: int) -> bytes:
        tail = struct.pack("<I", 1) + b"abc\0" + struct.pack(f"<I{len(dims)}q", len(dims), *dims) + struct.pack("<I", 0)
        return _adapter([(0, 8, 1, 12 + 8 * len(dims))], tail)

    refused(InvalidParams, "65 dimensions", read_adapter_bytes, of(*[0] * 65))
    refused(InvalidParams, "larger than any memory", read_adapter_bytes, of(2**62, 2**62, 0))
    refused(InvalidParams, "negative", read_adapter_bytes, of(-1, 0))
    assert read_adapter_bytes(of(0)).parameters["a"].shape == (0,)


def any_adapter_is_read_or_refused() -> None:
    whole = ort_lite.AdapterFormat()
    whole.set_parameters({name: ort_lite.OrtValue.ortvalue_from_numpy(W[:4].reshape(2, 2)) for name in ("a", "b")})
    with folder_of_its_own() as folder:
        whole.export_adapter(folder / "adapter")
        data = (folder / "adapter").read_bytes()
    for position in range(len(data)):
        for value in (0, 1, 127, 255):
            with contextlib.suppress(InvalidParams):
                read_adapter_bytes(data[:position] + bytes([value]) + data[position + 1 :])


def two_of_many_names_are_found_at_once() -> None:
    names = [*(f"{k:08}" for k in range(200_000)), f"{199_999:08}"]
    data = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(names))
    data += b"".join(struct.pack("<Q", 8) + name.encode() for name in names)
    begin = time.process_time()
    refused(InvalidParams, "the name '00199999' comes twice", ort_lite.load_params, data)
    assert time.process_time() - begin < 2


CASES: dict[str, Callable[[], None]] = {
    "names overlap": names_that_overlap_do_not_fill_the_memory,
    "data overlaps": data_that_overlaps_is_not_copied_over_and_over,
    "dimensions of adapters": dimensions_that_numpy_refuses_are_named,
    "any adapter": any_adapter_is_read_or_refused,
    "a name twice": two_of_many_names_are_found_at_once,
}
