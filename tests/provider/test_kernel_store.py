"""KernelStore: kernels of one version of a provider, in the store of prepared programs, with its checks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ort_lite.native import cache, store
from ort_lite.provider.kernel_store import KernelStore
from ort_lite.tools.cli import upkeep
from tests.threads import run_together


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORT_LITE_CACHE_DIR", str(tmp_path))
    return tmp_path / cache.PROGRAMS


def test_what_is_written_is_read_again() -> None:
    kernels = KernelStore("NpuExecutionProvider", "1.0, driver 7")
    assert kernels.read(b"relu") is None
    assert kernels.write(b"relu", b"machine code")
    assert kernels.read(b"relu") == b"machine code"
    assert KernelStore("NpuExecutionProvider", "1.0, driver 7").read(b"relu") == b"machine code"


def test_other_versions_providers_and_keys_have_other_kernels() -> None:
    KernelStore("Npu", "1").write(b"relu", b"machine code")
    assert KernelStore("Npu", "2").read(b"relu") is None
    assert KernelStore("Npu1", "").read(b"relu") is None
    assert KernelStore("Npu", "1").read(b"relu ") is None


def test_another_process_reads_it(tmp_path: Path) -> None:
    KernelStore("Npu", "1").write(b"relu", b"machine code")
    code = "from ort_lite.provider.kernel_store import KernelStore; print(KernelStore('Npu', '1').read(b'relu'))"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "b'machine code'\n"


def test_a_damaged_kernel_is_not_read(folder: Path) -> None:
    kernels = KernelStore("Npu", "1")
    kernels.write(b"relu", b"machine code")
    [file] = folder.iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + b"!")
    assert kernels.read(b"relu") is None
    file.write_bytes(data)
    if hasattr(os, "geteuid"):
        file.chmod(0o666)
        assert kernels.read(b"relu") is None, "others could have written it"


def test_a_folder_that_cannot_be_used_is_no_error(folder: Path) -> None:
    folder.write_bytes(b"a file")
    kernels = KernelStore("Npu", "1")
    assert not kernels.write(b"relu", b"machine code")
    assert kernels.read(b"relu") is None


def test_the_size_of_the_folder_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_BYTES", 10_000)
    kernels = KernelStore("Npu", "1")
    assert not kernels.write(b"large", bytes(2501))
    for number in range(10):
        assert kernels.write(b"%d" % number, bytes(2000))
        [newest] = [file for file in folder.iterdir() if file.stat().st_mtime > 1000]
        os.utime(newest, (number, number))
    assert [number for number in range(10) if kernels.read(b"%d" % number) is not None] == [6, 7, 8, 9]


def test_the_number_of_entries_is_limited(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(store, "MOST_ENTRIES", 3)
    kernels = KernelStore("Npu", "1")
    for number in range(5):
        assert kernels.write(b"%d" % number, b"machine code")
        [newest] = [file for file in folder.iterdir() if file.stat().st_mtime > 1000]
        os.utime(newest, (number, number))
    assert [number for number in range(5) if kernels.read(b"%d" % number) is not None] == [2, 3, 4]


def test_the_command_line_counts_and_checks_them(folder: Path) -> None:
    KernelStore("Npu", "1").write(b"relu", b"machine code")
    [entry] = upkeep.entries(upkeep.programs_of(cache.directory()))
    assert not entry.stale and upkeep.trouble(str(folder), entry.key) == ""


def test_threads_write_the_same_kernel_at_once() -> None:
    kernels = KernelStore("Npu", "1")
    run_together(lambda _: kernels.write(b"relu", b"machine code" * 1000), 4)
    assert kernels.read(b"relu") == b"machine code" * 1000
