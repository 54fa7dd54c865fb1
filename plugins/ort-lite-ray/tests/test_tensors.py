"""Tensors in files of the host's memory."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ort_lite_ray import tensors
from ort_lite_ray.host import claim
from ort_lite_ray.rows import Array
from ort_lite_ray.tensors import MemoryFolder, copy_out, read, write

LARGE = (3, 20_000)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint16, np.float16, ml_dtypes.bfloat16, np.float32, np.int64, np.complex128]
)
def test_what_is_written_is_read(dtype: type, tmp_path: Path) -> None:
    array: Array = np.random.default_rng(0).integers(0, 2, LARGE).astype(dtype)
    for given in (array, array.T, array[:, ::-1]):
        mapped = write(given, str(tmp_path / "x"))
        assert isinstance(mapped, list)
        for found in (read(mapped), copy_out(mapped)):
            assert found.dtype == given.dtype
            np.testing.assert_array_equal(found, given)
        assert not read(mapped).flags.writeable
        assert copy_out(mapped).flags.writeable


@pytest.mark.parametrize("array", [np.array(1.0), np.zeros((0, 9)), np.zeros(100), np.full(9000, "a", object)], ids=str)
def test_what_is_small_or_no_bytes_stays_as_it_is(array: Array, tmp_path: Path) -> None:
    assert write(array, str(tmp_path / "x")) is array
    assert not list(tmp_path.iterdir())


def test_a_shorter_tensor_over_a_longer_one(tmp_path: Path) -> None:
    long, short = np.arange(90_000.0), np.arange(-50_000.0, 0).reshape(2, -1)
    write(long, str(tmp_path / "x"))
    mapped = write(short, str(tmp_path / "x"))
    assert isinstance(mapped, list)
    np.testing.assert_array_equal(read(mapped), short)
    np.testing.assert_array_equal(copy_out(mapped), short)


def test_without_room_a_tensor_stays_as_it_is(tmp_path: Path) -> None:
    array = np.ones(LARGE)
    assert write(array, str(tmp_path / "gone" / "x")) is array
    if Path("/dev/full").exists():
        assert write(array, "/dev/full") is array


def test_a_run_has_a_folder_of_its_own_and_none_after_a_failure() -> None:
    memory = MemoryFolder()
    with memory.run() as first, memory.run() as second:
        assert first is not None
        assert second is not None
        assert first != second
    kept, folder = failed(memory)
    assert folder in (first, second)
    assert not Path(folder).exists()
    np.testing.assert_array_equal(kept, np.ones(LARGE))
    assert not isinstance(write(np.ones(LARGE), f"{folder}/x"), list)
    with memory.run() as left, memory.run() as new:
        assert left in (first, second)
        assert new not in (first, second)
    path = memory.path
    del memory
    assert path is not None
    assert not path.exists()


def failed(memory: MemoryFolder) -> tuple[Array, str]:
    """What a stage had mapped in a run that failed, and the run's folder."""
    kept, used = [], []
    with suppress(ValueError), memory.run() as folder:
        assert folder is not None
        used.append(folder)
        kept.append(read(write(np.ones(LARGE), f"{folder}/x")))
        raise ValueError("as a stage may")
    return kept[0], used[0]


def test_a_host_without_such_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_MEMORY", Path("/nowhere"))
    memory = MemoryFolder()
    assert memory.path is None
    with memory.run() as folder:
        assert folder is None


def test_what_a_killed_process_left_behind_is_deleted(tmp_path: Path) -> None:
    parent = tmp_path / "tensors"
    killed = (
        "import os, signal; from pathlib import Path; from ort_lite_ray.host import claim;"
        f"folder, held = claim(Path({str(parent)!r}), 'left'); (folder / 'x').write_bytes(b'x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False, timeout=240)
    assert (parent / "left" / "x").exists()
    folder, held = claim(parent, "mine")
    with held:
        assert not (parent / "left").exists()
        claim(parent, "other")[1].close()
        assert folder.exists()
