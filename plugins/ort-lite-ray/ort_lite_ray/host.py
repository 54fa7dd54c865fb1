"""Folders that processes of one host share, removed when no process uses them."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from ort_lite.memory.sharing import shared

_HELD: list[IO[bytes]] = []
"""Locks of this process. The operating system releases them when the process ends, even if it is killed."""


def share_weights(job: str) -> Path:
    """Map large constants and packed weights of this process's sessions from files that the job's workers share, from now on."""
    folder, held = claim(Path(tempfile.gettempdir()) / f"ort-lite-ray-weights-{os.getuid()}", job)
    _HELD.append(held)
    shared.keep_in(str(folder))
    return folder


def claim(parent: Path, name: str) -> tuple[Path, IO[bytes]]:
    """Create a folder in `parent` and lock it. The folder exists while a process holds its lock.

    Folders in `parent` that no process holds, such as those of killed processes, are deleted. Raises PermissionError if
    `parent` belongs to another user.
    """
    parent.mkdir(mode=0o700, exist_ok=True)
    if parent.stat().st_uid != os.getuid() or parent.is_symlink():
        raise PermissionError(f"{parent} belongs to another user; it holds what workers trust: delete it")
    with (parent / "lock").open("wb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        folder = parent / name
        folder.mkdir(exist_ok=True)
        held = (folder / "lock").open("wb")
        fcntl.flock(held, fcntl.LOCK_SH)
        for other in parent.iterdir():
            if other.is_dir() and other != folder:
                _delete_if_free(other)
    return folder, held


def _delete_if_free(folder: Path) -> None:
    with suppress(OSError), (folder / "lock").open("wb") as file:  # BlockingIOError: a worker holds it
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
