"""Paths that lead to pipes, devices, folders or files without end, wherever a caller names one."""

import errno
import os
import socket
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import onnx

import ort_lite
from ort_lite.errors import Fail, InvalidArgument, InvalidProtobuf, NoSuchFile
from ort_lite.load import source
from ort_lite.native import cache, packs, private
from ort_lite.partition.cost.cost_model import CostModel
from ort_lite.tools.cli import upkeep
from tests.hostile.model_folders import CPU, W, folder_of_its_own, open_session, put_external, refused


def _in_place_of_a_file(call: Callable[[Path], Any], error: type[Exception] = Fail, ending: str = "") -> None:
    """A pipe, a socket and a device are named, and none of them is waited for."""
    with folder_of_its_own() as folder:
        os.mkfifo(pipe := folder / f"pipe{ending}")
        refused(error, "it is a named pipe", call, pipe)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(folder / f"socket{ending}"))
            refused(error, "it is a socket", call, folder / f"socket{ending}")
        (link := folder / f"zero{ending}").symlink_to("/dev/zero")
        refused(error, "it is a character device", call, link)


def the_end_of_a_pipe_is_no_model() -> None:
    read, write = os.pipe()
    refused(Fail, "it is a named pipe", ort_lite.load, f"/dev/fd/{read}")
    os.close(read)
    os.close(write)


def a_file_object_may_have_no_end() -> None:
    with Path("/dev/zero").open("rb") as file, patch.object(source, "_LARGEST", 2**26):
        refused(InvalidProtobuf, "the model, a file object, has more than 67,108,864 bytes", ort_lite.load, file)


def files_of_proc_have_no_size() -> None:
    refused(Fail, "it has bytes but no size", ort_lite.load, "/proc/self/maps")
    refused(Fail, "it has bytes but no size", ort_lite.load_params, "/proc/self/maps")


def folders_are_named() -> None:
    with folder_of_its_own() as folder:
        refused(InvalidProtobuf, "it is a folder", ort_lite.load, folder)
        refused(Fail, "it is a folder", ort_lite.load_params, folder)
        refused(Fail, "it is a folder", ort_lite.LoraAdapter().Load, folder)
        refused(Fail, "it is a folder", CostModel.load, folder)


def paths_that_no_system_has_are_named() -> None:
    with folder_of_its_own() as folder:
        (folder / "loop").symlink_to(folder / "loop")
        refused(Fail, "cannot be read: Too many levels", ort_lite.load, folder / "loop")
        refused(Fail, "cannot be read: File name too long", ort_lite.load, "x" * 5000)
        refused(Fail, "embedded null", ort_lite.load, "a\0b")
        refused(NoSuchFile, "cannot be loaded", ort_lite.load, folder / "absent")
        refused(NoSuchFile, "cannot be read", CostModel.load, folder / "absent")


def a_file_of_a_terabyte_is_not_read() -> None:
    with folder_of_its_own() as folder:
        path = folder / "huge.onnx"
        for head in (b"", b"\x08\x08", b"PK\x03\x04", b"\x08\x08\x3a\x80\x80\x80\x80\x40", b"\x08\x08\x3b"):
            path.write_bytes(head)
            os.truncate(path, 2**40)
            refused(InvalidProtobuf, str(path), ort_lite.load, path)


def a_file_that_does_not_fit_is_said_to() -> None:
    with folder_of_its_own() as folder:
        path = folder / "huge"
        path.write_bytes(b"x")
        os.truncate(path, 2**40)
        for call in (ort_lite.load_params, CostModel.load, ort_lite.LoraAdapter().Load):
            refused((Fail, MemoryError), str(path), call, path)


def _view(path: Path) -> Any:
    with folder_of_its_own() as folder:
        return open_session(put_external(folder)).view(profile=path)


def json_that_nests_deep_is_refused() -> None:
    with folder_of_its_own() as folder:
        path = folder / "deep.json"
        path.write_bytes(b"[" * 2**20)
        refused(InvalidArgument, "is not a cost model", CostModel.load, path)
        refused(InvalidArgument, "no trace of a session", _view, path)


def _feeds(path: Path, text: str = "(float[2048] x) => (float[2048] y) { y = Identity(x) }", **given: Any) -> Any:
    """Read the feeds of a model that a command line gives."""
    from ort_lite.tools.cli.feed_arguments import feeds_of

    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    usual = {"feeds": None, "input": [f"x={path}"], "value": [], "shape": [], "dim": [], "seed": 0}
    return feeds_of(Namespace(**usual | given), ort_lite.InferenceSession(model, providers=CPU).get_inputs())


def _archive(path: Path) -> Any:
    return _feeds(path, feeds=str(path), input=[])


def _strings(path: Path) -> Any:
    return _feeds(path, "(string[N] x) => (string[N] y) { y = Identity(x) }")


# Files that are written


def an_optimized_model_takes_the_place_of_no_pipe() -> None:
    with folder_of_its_own() as folder:
        os.mkfifo(pipe := folder / "pipe.onnx")
        for target in (pipe, Path("/dev/null"), folder):
            options = ort_lite.SessionOptions()
            options.optimized_model_filepath = str(target)
            refused(Fail, "cannot be written: it is", ort_lite.InferenceSession, put_external(folder), options, CPU)
        assert pipe.is_fifo()
        assert Path("/dev/null").is_char_device()


def nobody_waits_for_the_reader_of_a_pipe() -> None:
    with folder_of_its_own() as folder:
        os.mkfifo(pipe := folder / "pipe")
        for call in (partial(ort_lite.save_params, {"w": W}, pipe), partial(ort_lite.AdapterFormat().export_adapter, pipe)):
            refused(OSError, os.strerror(errno.ENXIO), call)
        refused(OSError, "regular file", upkeep.export, str(folder), str(pipe))


# The kernel cache and packs

KEY = "0" * 40


def _private(call: Callable[[Path], Any]) -> None:
    with folder_of_its_own() as folder:
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
    refused(OSError, "not a regular file", upkeep.import_, str(folder), str(folder / "objects"))


def _pipe_for_a_pack(folder: Path) -> None:
    os.mkfifo(folder / "pack")
    refused(OSError, "not a regular file", packs.Pack, str(folder / "pack"), b"")


def _pipe_to_lock(folder: Path) -> None:
    from ort_lite.native import compile_claims

    os.mkfifo(folder / compile_claims.FILE)
    assert compile_claims.CompileClaims(str(folder)).take(KEY)
    refused(OSError, "not a regular file", private.opener, str(folder / compile_claims.FILE), os.O_RDWR)


CASES: dict[str, Callable[[], None]] = {
    "no model": partial(_in_place_of_a_file, ort_lite.load),
    "no model of a session": partial(_in_place_of_a_file, open_session),
    "the end of a pipe": the_end_of_a_pipe_is_no_model,
    "a file object without end": a_file_object_may_have_no_end,
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
    "no .npy": partial(_in_place_of_a_file, _feeds, InvalidArgument, ".npy"),
    "no .pb": partial(_in_place_of_a_file, _feeds, InvalidArgument, ".pb"),
    "no .txt": partial(_in_place_of_a_file, _strings, InvalidArgument, ".txt"),
    "no .npz": partial(_in_place_of_a_file, _archive, InvalidArgument, ".npz"),
    "an optimized model": an_optimized_model_takes_the_place_of_no_pipe,
    "pipes without readers": nobody_waits_for_the_reader_of_a_pipe,
    "a pipe for a kernel": partial(_private, _pipe_for_a_kernel),
    "a huge kernel": partial(_private, _huge_kernel),
    "a pipe to import": partial(_private, _pipe_to_import),
    "a pipe for a pack": partial(_private, _pipe_for_a_pack),
    "a pipe to lock": partial(_private, _pipe_to_lock),
}
