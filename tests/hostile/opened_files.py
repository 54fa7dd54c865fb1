"""Paths that lead to pipes, devices, links or files that change, wherever a caller or a model names one.

Each case raises where something hangs, is read that should not be, or is refused by an error that does not say what is wrong.
"""

import contextlib
import errno
import hashlib
import os
import socket
import struct
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ort_lite
from ort_lite.errors import Fail, InvalidArgument, InvalidGraph, InvalidParams, InvalidProtobuf, NoExternalData, NoSuchFile
from ort_lite.native import cache, packs, private, upkeep
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.serialization import external, files
from ort_lite.tensors.adapter_file import read_adapter_bytes

_Errors = type[BaseException] | tuple[type[BaseException], ...]
CPU = ["CPUExecutionProvider"]
W = np.arange(2048, dtype=np.float32)
X = {"x": np.ones(2048, np.float32)}


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(os.path.realpath(name))


def _refused(
    error: type[BaseException] | tuple[type[BaseException], ...],
    words: str,
    call: Callable[..., Any],
    *arguments: Any,
    **keywords: Any,
) -> None:
    try:
        call(*arguments, **keywords)
    except error as caught:
        said = str(caught)
    else:
        raise AssertionError(f"not refused: expected {words!r}")
    assert words in said, f"{said} does not say {words!r}"


def _session(path: Path, **keywords: Any) -> ort_lite.InferenceSession:
    return ort_lite.InferenceSession(path, providers=CPU, **keywords)


def _model(folder: Path, initializers: list[TensorProto]) -> Path:
    """y = x + the first initialiser."""
    infos = [helper.make_tensor_value_info(name, 1, [2048]) for name in "xy"]
    node = helper.make_node("Add", ["x", initializers[0].name], ["y"])
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], initializers)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _entry(name: str = "w", location: str = "weights", *more: tuple[str, str]) -> TensorProto:
    tensor = TensorProto(name=name, data_type=1, dims=W.shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), *more):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _external(folder: Path, *more: tuple[str, str], location: str = "weights") -> Path:
    """A model whose weights are in a file beside it."""
    (folder / "weights").write_bytes(W.tobytes())
    return _model(folder, [_entry("w", location, *more)])


def _y(session: ort_lite.InferenceSession) -> Any:
    return session.run(None, X)[0]


# Weights are copied


def _change_under(change: Callable[[Path], Any], **keywords: Any) -> None:
    """A default session does not notice what becomes of its files."""
    with _folder() as folder:
        session = _session(_external(folder), **keywords)
        change(folder / "weights")
        np.testing.assert_array_equal(_y(session), W + 1)


def _truncate(path: Path) -> None:
    os.truncate(path, 0)


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(np.full(2048, np.nan, np.float32).tobytes())
    os.utime(path, ns=(1, 1))


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(bytes(8192))
    other.replace(path)


def _change_under_map(change: Callable[[Path], Any], run: Callable[[ort_lite.InferenceSession], Any] = _y) -> None:
    with _folder() as folder:
        session = _session(_external(folder), mmap=True)
        np.testing.assert_array_equal(_y(session), W + 1)
        change(folder / "weights")
        _refused(Fail, "has changed since the session was made", run, session)
        _refused(Fail, str(folder / "weights"), run, session)


def _by_binding(session: ort_lite.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", X["x"])
    binding.bind_ortvalue_output("y", ort_lite.OrtValue.ortvalue_from_shape_and_type([2048], np.float32))
    session.run_with_iobinding(binding)


def _by_values(session: ort_lite.InferenceSession) -> None:
    session.run_with_ort_values(None, {"x": ort_lite.OrtValue.ortvalue_from_numpy(X["x"])})


def a_mapped_file_that_is_replaced_stays_as_it_was() -> None:
    with _folder() as folder:
        session = _session(_external(folder), mmap=True)
        _replace(folder / "weights")
        np.testing.assert_array_equal(_y(session), W + 1)


def a_model_that_was_loaded_without_a_copy_is_looked_at() -> None:
    with _folder() as folder:
        session = ort_lite.InferenceSession(ort_lite.load(_external(folder), no_copy=True), providers=CPU)
        _overwrite(folder / "weights")
        _refused(Fail, "has changed", _y, session)


def nothing_is_mapped_by_default() -> None:
    with _folder() as folder:
        session = _session(_external(folder))
        assert str(folder) not in Path("/proc/self/maps").read_text(encoding="utf-8")
        assert session.memory()["constants_in_files"] == 0
        mapped = _session(folder / "model.onnx", mmap=True)
        assert str(folder) in Path("/proc/self/maps").read_text(encoding="utf-8")
        assert mapped.memory()["constants_in_files"] == W.nbytes


def mmap_is_a_bool() -> None:
    with _folder() as folder:
        _refused(InvalidArgument, "mmap is 'yes'; expected True or False", _session, _external(folder), mmap="yes")


def _large(folder: Path) -> Path:
    return _model(folder, [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.zeros(2**21, np.float32), "large")])


def a_large_model_file_may_be_truncated_afterwards() -> None:
    with _folder() as folder:
        session = _session(path := _large(folder))
        _truncate(path)
        np.testing.assert_array_equal(_y(session), W + 1)


def _while_read(change: Callable[[Path], Any], words: str, large: bool = True) -> None:
    """The file changes between two of the reads."""
    with _folder() as folder:
        path = _large(folder) if large else _external(folder)
        target, original = path if large else folder / "weights", files.OpenFile.array

        def array(self: files.OpenFile, offset: int, nbytes: int) -> Any:
            if self.path == str(target):
                change(target)
            return original(self, offset, nbytes)

        with patch.object(files.OpenFile, "array", array):
            _refused(Fail, words, ort_lite.load, path)


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


# External data


def _refuse_external(
    words: str, *more: tuple[str, str], location: str = "weights", error: type[Exception] = InvalidGraph
) -> None:
    with _folder() as folder:
        _refused(error, words, ort_lite.load, _external(folder, *more, location=location))


def a_hard_link_is_refused() -> None:
    with _folder() as folder:
        path = _external(folder)
        os.link(folder / "weights", folder / "secret")
        _refused(InvalidGraph, "has 2 names (hard links)", ort_lite.load, path)
        _refused(InvalidGraph, "has 2 names (hard links)", _session, path, mmap=True)
        (folder / "secret").unlink()
        np.testing.assert_array_equal(_y(_session(path)), W + 1)


def what_other_tools_write_is_taken() -> None:
    with _folder() as folder:
        digest = hashlib.sha1(W.tobytes()).hexdigest().upper()
        more = (("offset", "0"), ("length", str(W.nbytes)), ("checksum", digest), ("basepath", "/x"), ("prepacked_0", "0;1;x"))
        np.testing.assert_array_equal(_y(_session(_external(folder, *more))), W + 1)


def _swapped(swap: Callable[[Path, Path], Any], location: str) -> None:
    """A link takes the place of a file or folder between the look at its name and the opening."""
    with _folder() as folder, _folder() as elsewhere:
        (elsewhere / "weights").write_bytes(b"secret..." * 1000)
        path = _external(folder, location=location)
        (folder / "sub").mkdir()
        (folder / "sub" / "weights").write_bytes(W.tobytes())
        original = files.open_below

        def open_below(folder_: str, name: str) -> files.OpenFile:
            swap(folder, elsewhere)
            return original(folder_, name)

        with patch.object(external, "open_below", open_below):
            _refused((NoExternalData, InvalidGraph), "weights", ort_lite.load, path)


def _swap_folder(folder: Path, elsewhere: Path) -> None:
    (folder / "sub").rename(folder / "old")
    (folder / "sub").symlink_to(elsewhere)


def _swap_file(folder: Path, elsewhere: Path) -> None:
    (folder / "weights").unlink()
    (folder / "weights").symlink_to(elsewhere / "weights")


def _swap_pipe(folder: Path, elsewhere: Path) -> None:
    (folder / "weights").unlink()
    os.mkfifo(folder / "weights")


def tensors_that_are_all_the_same_file_are_not_copied_over_and_over() -> None:
    with _folder() as folder:
        (folder / "weights").write_bytes(bytes(2**24))
        many = [_entry("w", "weights", ("length", str(W.nbytes)))]
        for k in range(1000):
            tensor = TensorProto(
                name=f"v{k}", data_type=TensorProto.UINT8, dims=[2**24 - k], data_location=TensorProto.EXTERNAL
            )
            tensor.external_data.add(key="location", value="weights")
            many.append(tensor)
        _refused(InvalidGraph, "they overlap", ort_lite.load, _model(folder, many))


def two_names_of_the_same_bytes_are_read_once() -> None:
    with _folder() as folder:
        path = _model(folder, [_entry("w"), _entry("v")])
        (folder / "weights").write_bytes(W.tobytes())
        constants: list[Any] = [value.constant for value in ort_lite.load(path).graph.initializers.values()]
        assert np.shares_memory(*constants)


def _allowed(root: str, location: str, words: str, error: type[Exception] = InvalidGraph) -> None:
    with _folder() as folder:
        options = ort_lite.ParseOptions(external_data_roots=[root])
        _refused(error, words, ort_lite.load, _external(folder, location=location), options)


def _context(make: Callable[[Path], Any], words: str, error: type[Exception]) -> None:
    """The file of a compiled context."""
    with _folder() as folder:
        node = helper.make_node(
            "EPContext",
            ["x"],
            ["y"],
            domain="com.microsoft",
            embed_mode=0,
            ep_cache_context="c.bin",
            source="CPUExecutionProvider",
        )
        infos = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
        graph = helper.make_graph([node], "g", infos[:1], infos[1:])
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        path = folder / "model.onnx"
        path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString())
        make(folder / "c.bin")
        _refused(error, words, _session, path)


def _linked_file(path: Path) -> None:
    path.write_bytes(b"x")
    os.link(path, path.with_name("other"))


# Paths of callers


def _in_place_of_a_file(call: Callable[[Path], Any], error: type[Exception] = Fail, ending: str = "") -> None:
    """A pipe, a socket and a device are named, and none of them is waited for."""
    with _folder() as folder:
        os.mkfifo(pipe := folder / f"pipe{ending}")
        _refused(error, "it is a named pipe", call, pipe)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(folder / f"socket{ending}"))
            _refused(error, "it is a socket", call, folder / f"socket{ending}")
        (link := folder / f"zero{ending}").symlink_to("/dev/zero")
        _refused(error, "it is a character device", call, link)


def the_end_of_a_pipe_is_no_model() -> None:
    read, write = os.pipe()
    _refused(Fail, "it is a named pipe", ort_lite.load, f"/dev/fd/{read}")
    os.close(read)
    os.close(write)


def files_of_proc_have_no_size() -> None:
    _refused(Fail, "it has bytes but no size", ort_lite.load, "/proc/self/maps")
    _refused(Fail, "it has bytes but no size", ort_lite.load_params, "/proc/self/maps")


def folders_are_named() -> None:
    with _folder() as folder:
        _refused(InvalidProtobuf, "it is a folder", ort_lite.load, folder)
        _refused(Fail, "it is a folder", ort_lite.load_params, folder)
        _refused(Fail, "it is a folder", ort_lite.LoraAdapter().Load, folder)
        _refused(Fail, "it is a folder", CostModel.load, folder)


def paths_that_no_system_has_are_named() -> None:
    with _folder() as folder:
        (folder / "loop").symlink_to(folder / "loop")
        _refused(Fail, "cannot be read: Too many levels", ort_lite.load, folder / "loop")
        _refused(Fail, "cannot be read: File name too long", ort_lite.load, "x" * 5000)
        _refused(Fail, "cannot be read: embedded null", ort_lite.load, "a\0b")
        _refused(NoSuchFile, "cannot be loaded", ort_lite.load, folder / "absent")
        _refused(NoSuchFile, "cannot be read", CostModel.load, folder / "absent")


def a_file_of_a_terabyte_is_not_read() -> None:
    with _folder() as folder:
        path = folder / "huge.onnx"
        for head in (b"", b"\x08\x08", b"PK\x03\x04", b"\x08\x08\x3a\x80\x80\x80\x80\x40", b"\x08\x08\x3b"):
            path.write_bytes(head)
            os.truncate(path, 2**40)
            _refused(InvalidProtobuf, str(path), ort_lite.load, path)


def a_file_that_does_not_fit_is_said_to() -> None:
    with _folder() as folder:
        path = folder / "huge"
        path.write_bytes(b"x")
        os.truncate(path, 2**40)
        for call in (ort_lite.load_params, CostModel.load, ort_lite.LoraAdapter().Load):
            _refused((Fail, MemoryError), str(path), call, path)


def _view(path: Path) -> Any:
    with _folder() as folder:
        return _session(_external(folder)).view(profile=path)


def json_that_nests_deep_is_refused() -> None:
    with _folder() as folder:
        path = folder / "deep.json"
        path.write_bytes(b"[" * 2**20)
        _refused(InvalidArgument, "is not a cost model", CostModel.load, path)
        _refused(InvalidArgument, "no trace of a session", _view, path)


def _feed(path: Path) -> Any:
    from ort_lite.commands.feeds import feeds_of

    arguments = Namespace(feeds=None, input=[f"x={path}"], value=[], shape=[], dim=[], seed=0)
    with _folder() as folder:
        return feeds_of(arguments, _session(_external(folder)).get_inputs())


def _archive(path: Path) -> Any:
    from ort_lite.commands.feeds import feeds_of

    arguments = Namespace(feeds=str(path), input=[], value=[], shape=[], dim=[], seed=0)
    with _folder() as folder:
        return feeds_of(arguments, _session(_external(folder)).get_inputs())


def _strings(path: Path) -> Any:
    from ort_lite.commands.feeds import feeds_of

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (string[N] x) => (string[N] y) { y = Identity(x) }'
    )
    arguments = Namespace(feeds=None, input=[f"x={path}"], value=[], shape=[], dim=[], seed=0)
    return feeds_of(arguments, ort_lite.InferenceSession(model, providers=CPU).get_inputs())


# Files that are written


def an_optimized_model_takes_the_place_of_no_pipe() -> None:
    with _folder() as folder:
        os.mkfifo(pipe := folder / "pipe.onnx")
        for target in (pipe, Path("/dev/null"), folder):
            options = ort_lite.SessionOptions()
            options.optimized_model_filepath = str(target)
            _refused(Fail, "cannot be written: it is", ort_lite.InferenceSession, _external(folder), options, CPU)
        assert pipe.is_fifo()
        assert Path("/dev/null").is_char_device()


def nobody_waits_for_the_reader_of_a_pipe() -> None:
    with _folder() as folder:
        os.mkfifo(pipe := folder / "pipe")
        for call in (partial(ort_lite.save_params, {"w": W}, pipe), partial(ort_lite.AdapterFormat().export_adapter, pipe)):
            _refused(OSError, os.strerror(errno.ENXIO), call)
        _refused(OSError, "regular file", upkeep.export, str(folder), str(pipe))


# Adapters


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
    _refused(InvalidParams, "overlap", read_adapter_bytes, _adapter(many, tail))


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

    _refused(InvalidParams, "65 dimensions", read_adapter_bytes, of(*[0] * 65))
    _refused(InvalidParams, "larger than any memory", read_adapter_bytes, of(2**62, 2**62, 0))
    _refused(InvalidParams, "negative", read_adapter_bytes, of(-1, 0))
    assert read_adapter_bytes(of(0)).parameters["a"].shape == (0,)


def any_adapter_is_read_or_refused() -> None:
    whole = ort_lite.AdapterFormat()
    whole.set_parameters({name: ort_lite.OrtValue.ortvalue_from_numpy(W[:4].reshape(2, 2)) for name in ("a", "b")})
    with _folder() as folder:
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
    _refused(InvalidParams, "the name '00199999' comes twice", ort_lite.load_params, data)
    assert time.process_time() - begin < 2


# The kernel cache and packs

KEY = "0" * 40


def _private(call: Callable[[Path], Any]) -> None:
    with _folder() as folder:
        folder.chmod(0o700)
        call(folder)


def _pipe_for_a_kernel(folder: Path) -> None:
    os.mkfifo(folder / KEY, 0o600)
    assert cache.read(str(folder), KEY) is None
    assert upkeep.trouble(str(folder), KEY) == "it is not a regular file"


def _huge_kernel(folder: Path) -> None:
    (folder / KEY).touch(0o600)
    os.truncate(folder / KEY, 2**40)
    assert cache.read(str(folder), KEY) is None
    assert upkeep.trouble(str(folder), KEY) == "is too large"


def _pipe_to_import(folder: Path) -> None:
    os.mkfifo(folder / "objects")
    _refused(OSError, "not a regular file", upkeep.import_, str(folder), str(folder / "objects"))


def _pipe_for_a_pack(folder: Path) -> None:
    os.mkfifo(folder / "pack")
    _refused(OSError, "not a regular file", packs.Pack, str(folder / "pack"), b"")


def _pipe_to_lock(folder: Path) -> None:
    from ort_lite.native import claims

    os.mkfifo(folder / claims.FILE)
    assert claims.Claims(str(folder)).take(KEY)
    _refused(OSError, "not a regular file", private.opener, str(folder / claims.FILE), os.O_RDWR)


CASES: dict[str, Callable[[], None]] = {
    "a file that is truncated": partial(_change_under, _truncate),
    "a file that is overwritten": partial(_change_under, _overwrite),
    "a file that is deleted": partial(_change_under, os.unlink),
    "a file that is replaced": partial(_change_under, _replace),
    "a file that is truncated, mmap=False": partial(_change_under, _truncate, mmap=False),
    "a mapped file that is truncated": partial(_change_under_map, _truncate),
    "a mapped file that is overwritten": partial(_change_under_map, _overwrite),
    "a mapped file that is touched": partial(_change_under_map, _touch),
    "a mapped file that grows": partial(_change_under_map, _grow),
    "a mapped file, bound outputs": partial(_change_under_map, _truncate, _by_binding),
    "a mapped file, OrtValues": partial(_change_under_map, _truncate, _by_values),
    "a mapped file, verified": partial(_change_under_map, _truncate, lambda s: s.run(None, X, verify="partition")),
    "a mapped file, with a timeout": partial(_change_under_map, _truncate, lambda s: s.run(None, X, timeout=10)),
    "a mapped file that is replaced": a_mapped_file_that_is_replaced_stays_as_it_was,
    "a model loaded without a copy": a_model_that_was_loaded_without_a_copy_is_looked_at,
    "nothing is mapped by default": nothing_is_mapped_by_default,
    "mmap is a bool": mmap_is_a_bool,
    "a large model is truncated": a_large_model_file_may_be_truncated_afterwards,
    "a large model shrinks while it is read": partial(_while_read, _truncate, "became shorter"),
    "a large model grows while it is read": partial(_while_read, _grow, "changed while it was read"),
    "weights shrink while they are read": partial(_while_read, _truncate, "became shorter", False),
    "weights change while they are read": partial(_while_read, _touch, "changed while it was read", False),
    "a hard link": a_hard_link_is_refused,
    "an unknown key": partial(_refuse_external, "has the key '__class__'", ("__class__", "x")),
    "an unknown key of another case": partial(_refuse_external, "has the key 'Offset'", ("Offset", "4")),
    "a key twice": partial(_refuse_external, "a key twice", ("location", "/etc/passwd")),
    "a thousand keys": partial(_refuse_external, "1001 keys", *[(f"prepacked_{k}", "") for k in range(1000)]),
    "a wrong checksum": partial(_refuse_external, "the SHA-1 digest of 'weights' is", ("checksum", "0" * 40)),
    "a checksum of another kind": partial(_refuse_external, "the model says 'xxx", ("checksum", "x" * 9999)),
    "keys of other tools": what_other_tools_write_is_taken,
    "a folder is swapped for a link": partial(_swapped, _swap_folder, "sub/weights"),
    "a file is swapped for a link": partial(_swapped, _swap_file, "weights"),
    "a file is swapped for a pipe": partial(_swapped, _swap_pipe, "weights"),
    "tensors overlap": tensors_that_are_all_the_same_file_are_not_copied_over_and_over,
    "tensors share": two_names_of_the_same_bytes_are_read_once,
    "a device as weights": partial(_allowed, "/dev", "/dev/zero", "it is a character device"),
    "a file of /proc as weights": partial(_allowed, "/proc", "/proc/self/maps", "which has 0: cut short"),
    "a folder as weights": partial(_refuse_external, "it is a folder", location="."),
    "a pipe as a context": partial(_context, os.mkfifo, "it is a named pipe", InvalidGraph),
    "a hard link as a context": partial(_context, _linked_file, "hard links", InvalidGraph),
    "no model": partial(_in_place_of_a_file, ort_lite.load),
    "no model of a session": partial(_in_place_of_a_file, _session),
    "the end of a pipe": the_end_of_a_pipe_is_no_model,
    "files of /proc": files_of_proc_have_no_size,
    "folders": folders_are_named,
    "impossible paths": paths_that_no_system_has_are_named,
    "a terabyte": a_file_of_a_terabyte_is_not_read,
    "more than fits": a_file_that_does_not_fit_is_said_to,
    "no adapter": partial(_in_place_of_a_file, lambda path: ort_lite.LoraAdapter().Load(path)),
    "no adapter to read": partial(_in_place_of_a_file, ort_lite.AdapterFormat.read_adapter),
    "no parameters": partial(_in_place_of_a_file, ort_lite.load_params),
    "no array": partial(_in_place_of_a_file, ort_lite.NDArray.load),
    "no cost model": partial(_in_place_of_a_file, CostModel.load),
    "no profile": partial(_in_place_of_a_file, _view),
    "deep JSON": json_that_nests_deep_is_refused,
    "no .npy": partial(_in_place_of_a_file, _feed, InvalidArgument, ".npy"),
    "no .pb": partial(_in_place_of_a_file, _feed, InvalidArgument, ".pb"),
    "no .txt": partial(_in_place_of_a_file, _strings, InvalidArgument, ".txt"),
    "no .npz": partial(_in_place_of_a_file, _archive, InvalidArgument, ".npz"),
    "an optimized model": an_optimized_model_takes_the_place_of_no_pipe,
    "pipes without readers": nobody_waits_for_the_reader_of_a_pipe,
    "names overlap": names_that_overlap_do_not_fill_the_memory,
    "data overlaps": data_that_overlaps_is_not_copied_over_and_over,
    "dimensions of adapters": dimensions_that_numpy_refuses_are_named,
    "any adapter": any_adapter_is_read_or_refused,
    "a name twice": two_of_many_names_are_found_at_once,
    "a pipe for a kernel": partial(_private, _pipe_for_a_kernel),
    "a huge kernel": partial(_private, _huge_kernel),
    "a pipe to import": partial(_private, _pipe_to_import),
    "a pipe for a pack": partial(_private, _pipe_for_a_pack),
    "a pipe to lock": partial(_private, _pipe_to_lock),
}
