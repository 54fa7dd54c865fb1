"""Files of weights that change under a session, and external data that leads elsewhere, contradicts itself or repeats itself."""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx.parser
from onnx import TensorProto, numpy_helper

import ort_lite
from ort_lite.errors import Fail, InvalidArgument, InvalidGraph, NoExternalData
from ort_lite.load import external, files
from tests.hostile.model_folders import (
    CPU,
    W,
    X,
    entry,
    folder_of_its_own,
    open_session,
    put_external,
    put_model,
    refused,
    y_of,
)

# Weights are copied


def _change_under(change: Callable[[Path], Any], **keywords: Any) -> None:
    """A default session does not notice what becomes of its files."""
    with folder_of_its_own() as folder:
        session = open_session(put_external(folder), **keywords)
        change(folder / "weights")
        np.testing.assert_array_equal(y_of(session), W + 1)


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


def _change_under_map(change: Callable[[Path], Any], run: Callable[[ort_lite.InferenceSession], Any] = y_of) -> None:
    with folder_of_its_own() as folder:
        session = open_session(put_external(folder), mmap=True)
        np.testing.assert_array_equal(y_of(session), W + 1)
        change(folder / "weights")
        refused(Fail, "has changed since the session was made", run, session)
        refused(Fail, str(folder / "weights"), run, session)


def _by_binding(session: ort_lite.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", X["x"])
    binding.bind_ortvalue_output("y", ort_lite.OrtValue.ortvalue_from_shape_and_type([2048], np.float32))
    session.run_with_iobinding(binding)


def _by_values(session: ort_lite.InferenceSession) -> None:
    session.run_with_ort_values(None, {"x": ort_lite.OrtValue.ortvalue_from_numpy(X["x"])})


def a_mapped_file_that_is_replaced_stays_as_it_was() -> None:
    with folder_of_its_own() as folder:
        session = open_session(put_external(folder), mmap=True)
        _replace(folder / "weights")
        np.testing.assert_array_equal(y_of(session), W + 1)


def a_model_that_was_loaded_without_a_copy_is_looked_at() -> None:
    with folder_of_its_own() as folder:
        session = ort_lite.InferenceSession(ort_lite.load(put_external(folder), no_copy=True), providers=CPU)
        _overwrite(folder / "weights")
        refused(Fail, "has changed", y_of, session)


def nothing_is_mapped_by_default() -> None:
    with folder_of_its_own() as folder:
        session = open_session(put_external(folder))
        assert str(folder) not in Path("/proc/self/maps").read_text(encoding="utf-8")
        assert session.memory()["constants_in_files"] == 0
        mapped = open_session(folder / "model.onnx", mmap=True)
        assert str(folder) in Path("/proc/self/maps").read_text(encoding="utf-8")
        assert mapped.memory()["constants_in_files"] == W.nbytes


def mmap_is_a_bool() -> None:
    with folder_of_its_own() as folder:
        refused(InvalidArgument, "mmap is 'yes'; expected True or False", open_session, put_external(folder), mmap="yes")


def _large(folder: Path) -> Path:
    return put_model(folder, [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.zeros(2**21, np.float32), "large")])


def a_large_model_file_may_be_truncated_afterwards() -> None:
    with folder_of_its_own() as folder:
        session = open_session(path := _large(folder))
        _truncate(path)
        np.testing.assert_array_equal(y_of(session), W + 1)


def _while_read(change: Callable[[Path], Any], words: str, large: bool = True) -> None:
    """The file changes between two of the reads."""
    with folder_of_its_own() as folder:
        path = _large(folder) if large else put_external(folder)
        target, original = path if large else folder / "weights", files.OpenFile.array

        def array(self: files.OpenFile, offset: int, nbytes: int) -> Any:
            if self.path == str(target):
                change(target)
            return original(self, offset, nbytes)

        with patch.object(files.OpenFile, "array", array):
            refused(Fail, words, ort_lite.load, path)


def a_file_that_shrinks_before_it_is_mapped_is_named() -> None:
    with folder_of_its_own() as folder:
        path, dup = put_external(folder), os.dup

        def shrunk(descriptor: int) -> int:
            _truncate(folder / "weights")
            return dup(descriptor)

        with patch.object(os, "dup", shrunk):
            refused(Fail, "became shorter", open_session, path, mmap=True)


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


# External data


def _refuse_external(
    words: str, *more: tuple[str, str], location: str = "weights", error: type[Exception] = InvalidGraph
) -> None:
    with folder_of_its_own() as folder:
        refused(error, words, ort_lite.load, put_external(folder, *more, location=location))


def a_hard_link_is_refused() -> None:
    with folder_of_its_own() as folder:
        path = put_external(folder)
        os.link(folder / "weights", folder / "secret")
        refused(InvalidGraph, "has 2 names (hard links)", ort_lite.load, path)
        refused(InvalidGraph, "has 2 names (hard links)", open_session, path, mmap=True)
        (folder / "secret").unlink()
        np.testing.assert_array_equal(y_of(open_session(path)), W + 1)


def what_other_tools_write_is_taken() -> None:
    with folder_of_its_own() as folder:
        digest = hashlib.sha1(W.tobytes()).hexdigest().upper()
        more = (("offset", "0"), ("length", str(W.nbytes)), ("checksum", digest), ("basepath", "/x"), ("prepacked_0", "0;1;x"))
        np.testing.assert_array_equal(y_of(open_session(put_external(folder, *more))), W + 1)


def _swapped(swap: Callable[[Path, Path], Any], location: str, below: bool = True) -> None:
    """A link takes the place of a file or folder between the look at its name and the opening; `below`: the system has openat."""
    with folder_of_its_own() as folder, folder_of_its_own() as elsewhere:
        (elsewhere / "weights").write_bytes(b"secret..." * 1000)
        path = put_external(folder, location=location)
        (folder / "sub").mkdir()
        (folder / "sub" / "weights").write_bytes(W.tobytes())
        original = files.open_below

        def open_below(folder_: str, name: str) -> files.OpenFile:
            swap(folder, elsewhere)
            return original(folder_, name)

        with patch.object(external, "open_below", open_below), patch.object(files, "_BELOW", below):
            refused((NoExternalData, InvalidGraph), "weights", ort_lite.load, path)


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
    with folder_of_its_own() as folder:
        (folder / "weights").write_bytes(bytes(2**24))
        many = [entry("w", "weights", ("length", str(W.nbytes)))]
        for k in range(1000):
            tensor = TensorProto(
                name=f"v{k}", data_type=TensorProto.UINT8, dims=[2**24 - k], data_location=TensorProto.EXTERNAL
            )
            tensor.external_data.add(key="location", value="weights")
            many.append(tensor)
        refused(InvalidGraph, "they overlap", ort_lite.load, put_model(folder, many))


def two_names_of_the_same_bytes_are_read_once() -> None:
    with folder_of_its_own() as folder:
        path = put_model(folder, [entry("w"), entry("v")])
        (folder / "weights").write_bytes(W.tobytes())
        constants: list[Any] = [value.constant for value in ort_lite.load(path).graph.initializers.values()]
        assert np.shares_memory(*constants)


def _allowed(root: str, location: str, words: str, error: type[Exception] = InvalidGraph) -> None:
    with folder_of_its_own() as folder:
        options = ort_lite.ParseOptions(external_data_roots=[root])
        refused(error, words, ort_lite.load, put_external(folder, location=location), options)


def _context(make: Callable[[Path], Any], words: str, error: type[Exception]) -> None:
    """The file of a compiled context."""
    with folder_of_its_own() as folder:
        text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[2] x) => (float[2] y) {
            y = com.microsoft.EPContext<embed_mode = 0, ep_cache_context = "c.bin", source = "CPUExecutionProvider">(x) }"""
        path = folder / "model.onnx"
        path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
        make(folder / "c.bin")
        refused(error, words, open_session, path)


def _linked_file(path: Path) -> None:
    path.write_bytes(b"x")
    os.link(path, path.with_name("other"))


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
    "weights shrink before they are mapped": a_file_that_shrinks_before_it_is_mapped_is_named,
    "a hard link": a_hard_link_is_refused,
    "an unknown key": partial(_refuse_external, "has the key '__class__'", ("__class__", "x")),
    "an unknown key of another case": partial(_refuse_external, "has the key 'Offset'", ("Offset", "4")),
    "a key twice": partial(_refuse_external, "a key twice", ("location", "/etc/passwd")),
    "a thousand keys": partial(_refuse_external, "1001 keys", *[(f"prepacked_{k}", "") for k in range(1000)]),
    "a long location": partial(_refuse_external, "without a usable location: '././", location="./" * 500_000 + "weights"),
    "a wrong checksum": partial(_refuse_external, "the SHA-1 digest of 'weights' is", ("checksum", "0" * 40)),
    "a checksum of another kind": partial(_refuse_external, "the model says 'xxx", ("checksum", "x" * 9999)),
    "keys of other tools": what_other_tools_write_is_taken,
    "a folder is swapped for a link": partial(_swapped, _swap_folder, "sub/weights"),
    "a file is swapped for a link": partial(_swapped, _swap_file, "weights"),
    "a file is swapped for a pipe": partial(_swapped, _swap_pipe, "weights"),
    "a folder is swapped, no openat": partial(_swapped, _swap_folder, "sub/weights", below=False),
    "a file is swapped, no openat": partial(_swapped, _swap_file, "weights", below=False),
    "a pipe is swapped in, no openat": partial(_swapped, _swap_pipe, "weights", below=False),
    "tensors overlap": tensors_that_are_all_the_same_file_are_not_copied_over_and_over,
    "tensors share": two_names_of_the_same_bytes_are_read_once,
    "a device as weights": partial(_allowed, "/dev", "/dev/zero", "it is a character device"),
    "a file of /proc as weights": partial(_allowed, "/proc", "/proc/self/maps", "which has 0: cut short"),
    "a folder as weights": partial(_refuse_external, "it is a folder", location="."),
    "a pipe as a context": partial(_context, os.mkfifo, "it is a named pipe", InvalidGraph),
    "a hard link as a context": partial(_context, _linked_file, "hard links", InvalidGraph),
}
