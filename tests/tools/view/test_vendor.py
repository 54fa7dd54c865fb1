"""Libraries of the page are as their packages have them."""

import hashlib
import lzma
from importlib.resources import files

DIGESTS = {
    "d3.LICENSE": "2a6d2d5f32ba0b755ddbc1c833f766e30cdbe6ebe9a6d4e3e24427721f0b63d3",
    "d3.min.js": "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1",
    "elk-api.js": "ccca46175c05bbd280b5de6c9853103711e52c666a101f145b717e345363e24d",
    "elk-worker.min.js": "dca3a19d9ec37f5634bf5876b4ebd2455c3f43f0d32570136c13c13edaba9bfb",
    "elkjs.LICENSE": "637e81f4a1b6b4079535c499fca05e238cf7605c1ff5b76d60d7da7ce96700c9",
    "plot.LICENSE": "4b295e011e0e046170041b5b46f1349393aeceb95797793a55bd21dbb543363a",
    "plot.umd.min.js": "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb",
}
"""SHA-256 by file; who brings a newer version writes its own here."""


def test_files_are_byte_for_byte_those_that_were_fetched() -> None:
    folder = files("ort_lite.tools.view").joinpath("vendor")
    contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith((".js", ".xz", ".LICENSE"))}
    plain = {
        name.removesuffix(".xz"): lzma.decompress(data) if name.endswith(".xz") else data for name, data in contents.items()
    }
    found = {name: hashlib.sha256(data).hexdigest() for name, data in plain.items()}
    assert found == DIGESTS
