"""What workers of one host share: a folder of weights, which goes when nobody uses it any more."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from ort_lite.memory.sharing import shared

_PREFIX = "ort-lite-ray-weights"
_HELD: list[IO[bytes]] = []
"""Locks of this process, which the operating system gives back when it ends, however it does."""


def share_weights(job: str) -> Path:
    """Large constants and packed weights of this process's sessions are mapped from files that the job's workers share from now on.

    Folders of jobs of this user that have no worker any more are deleted: what is left behind by a job is the last one's.
    """
    mine = Path(tempfile.gettempdir()) / f"{_PREFIX}-{os.getuid()}"
    mine.mkdir(mode=0o700, exist_ok=True)
    if mine.stat().st_uid != os.getuid() or mine.is_symlink():
        raise PermissionError(f"{mine} belongs to another user; it holds weights that workers trust: delete it")
    with (mine / "lock").open("wb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        folder = mine / job
        folder.mkdir(exist_ok=True)
        _hold(folder)
        for other in mine.iterdir():
            if other.is_dir() and other != folder:
                _delete_unused(other)
    shared.keep_in(str(folder))
    return folder


def _hold(folder: Path) -> None:
    file = (folder / "lock").open("wb")
    fcntl.flock(file, fcntl.LOCK_SH)
    _HELD.append(file)


def _delete_unused(folder: Path) -> None:
    with suppress(OSError), (folder / "lock").open("wb") as file:  # BlockingIOError: a worker holds it
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
