"""Wheels of kernel packs."""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

import ort_lite
from ort_lite.native import packs

_LOWEST = "manylinux_2_17"  # of the C library, objects need mathematics alone
_DATE = (1980, 1, 1, 0, 0, 0)
_INIT = '"""Kernels of ort-lite, compiled ahead of time: the data files are all of it."""\n'
_METADATA = """Metadata-Version: 2.4
Name: ort-lite-kernels
Version: {version}
Summary: Kernels of ort-lite, compiled ahead of time
License-Expression: Apache-2.0
Requires-Dist: ort-lite=={version}
"""
_WHEEL = """Wheel-Version: 1.0
Generator: ort-lite
Root-Is-Purelib: false
Tag: {tag}
"""


def kernels(pack: Path, folder: Path) -> Path:
    """The wheel of a pack, whose name says the architecture: the same bytes for the same pack."""
    architecture, version = pack.name.partition("-")[0], ort_lite.__version__
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}-none-{_LOWEST}_{architecture}"
    info = f"{packs.PACKAGE}-{version}.dist-info"
    contents = {
        f"{packs.PACKAGE}/__init__.py": _INIT.encode(),
        f"{packs.PACKAGE}/{packs.file_name(architecture)}": pack.read_bytes(),
        f"{info}/METADATA": _METADATA.format(version=version).encode(),
        f"{info}/WHEEL": _WHEEL.format(tag=tag).encode(),
    }
    lines = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in contents.items()]
    contents[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{packs.PACKAGE}-{version}-{tag}.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return made


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
