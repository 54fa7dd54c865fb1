"""Compare ort_lite with the packages of onnxruntime 1.24 to 1.32: `python -m tests.compat.releases FOLDER [--write]`.

Not part of `make test`: downloads 280 MB into FOLDER, once. It lists the configuration keys that a release reads and ort_lite does not
accept, and the public names that a release has and ort_lite lacks, except those of the page on migrating; the exit
status is 1 if there are any. `--write` first writes the table of keys anew, ort_lite/options/onnxruntime_keys.txt.

Keys are texts in the native library. onnxruntime has no list of them, so those of a run are known by name or by how they begin.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ort_lite.errors import InvalidArgument
from ort_lite.options import config_keys
from tests.compat.test_names import ROOT, differences, excused, is_excused

_NAMES = "1.24.1 1.24.2 1.24.3 1.24.4 1.25.0 1.25.1 1.26.0 1.27.0 1.28.0 1.29.0 1.30.0 1.31.0 1.31.1 1.32.0"
RELEASES = tuple(_NAMES.split())
TABLE = Path(config_keys._TABLE)
HEAD = "# Keys that onnxruntime reads, with the first release from 1.24 on that does: python -m tests.compat.releases FOLDER --write"

_KEY = re.compile(
    rb"(?<![ -~])(?:(?:ep|mlas|optimization|session|memory|qnn)(?:\.[a-z0-9_]+)+\.?|gpu_graph_id|disable_synchronize_\w+)\0"
)
_OF_RUNS = re.compile(r"memory\.|qnn\.|gpu_graph_id|disable_synchronize_")
_PIECE = re.compile(r"_$|.(?:session|optimization)\.")
"""Compilers copy long texts by pieces of 16 bytes or more, which lie beside each other: one ends anywhere, or two are joined."""


def main() -> int:
    """Compare all releases, and print what is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat.releases", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table of keys anew")
    chosen = parser.parse_args()
    folders = {release: fetch(release, chosen.folder) for release in RELEASES}
    keys = {release: keys_of(folder) for release, folder in folders.items()}
    if chosen.write:
        TABLE.write_text(table(keys), encoding="utf-8")
        config_keys._of_onnxruntime.cache_clear()
    missing = []
    if TABLE.read_text(encoding="utf-8") != table(keys):
        missing.append(f"{TABLE.name} is not what --write would write")
    for release, folder in folders.items():
        unknown = [key for key in sorted(keys[release]) if not is_accepted(key)]
        names = list(missing_names(names_in(folder)))
        print(f"onnxruntime {release}: {len(keys[release])} keys, {len(unknown)} of them unknown; {len(names)} names missing")
        missing += [f"{release}: {each}" for each in (*unknown, *names)]
    print(*missing, sep="\n", end="\n" if missing else "")
    return 1 if missing else 0


def fetch(release: str, folder: Path) -> Path:
    """Return the folder of the unpacked wheel of a release, which is downloaded if it is not there."""
    unpacked = folder / release
    if not unpacked.is_dir():
        choices = "--quiet --no-deps --only-binary=:all: --disable-pip-version-check"
        pip = [sys.executable, "-m", "pip", "download", *choices.split()]
        subprocess.run([*pip, "--dest", folder, f"onnxruntime=={release}"], check=True, timeout=600)
        (wheel,) = folder.glob(f"onnxruntime-{release}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    return unpacked


def keys_of(folder: Path) -> frozenset[str]:
    """Return the keys, and beginnings of keys, that the native library of an unpacked wheel has as texts."""
    (library,) = (folder / "onnxruntime" / "capi").glob("onnxruntime_pybind11_state*.so")
    texts = {found[0][:-1].decode() for found in _KEY.finditer(library.read_bytes())}
    return frozenset(text for text in texts if not _PIECE.search(text))


def is_accepted(key: str) -> bool:
    """Return True if ort_lite knows the key, or keys that begin so."""
    if key.endswith("."):
        return key in config_keys.OPEN_PREFIXES or any(known.startswith(key) for known in config_keys.session_keys())
    try:
        (config_keys.check_run if _OF_RUNS.match(key) else config_keys.check_session)([key])
    except InvalidArgument:
        return False
    return True


def table(keys: dict[str, frozenset[str]]) -> str:
    """Return the text of the table: a line "session KEY RELEASE" or "run KEY RELEASE" for each key, sorted."""
    first = {key: release for release in reversed(keys) for key in keys[release] if not key.endswith(".")}
    lines = [f"{'run' if _OF_RUNS.match(key) else 'session'} {key} {_minor(release)}" for key, release in first.items()]
    return "\n".join((HEAD, *sorted(lines))) + "\n"


def _minor(release: str) -> str:
    return release.rpartition(".")[0]


def names_in(folder: Path) -> dict[str, Any]:
    """Return what tests.compat.record_names says of an unpacked wheel, in a process that imports it."""
    code = "import json, sys; from tests.compat.record_names import recorded; json.dump(recorded(), sys.stdout)"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment, timeout=240
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def missing_names(record: dict[str, Any]) -> Iterator[str]:
    """Yield what a release has and ort_lite lacks, except what the page excuses.

    Parameters are compared with the newest release alone, in test_names.py: earlier ones call some otherwise.
    """
    names = excused()
    for each in differences(record):
        if each.endswith(": missing") and not is_excused(each, names):
            yield each


if __name__ == "__main__":
    raise SystemExit(main())
