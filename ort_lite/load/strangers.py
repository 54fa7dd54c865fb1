"""Recognition of files that are not models, for error messages."""

from ort_lite.load.wire import ByteSource

_HEADS = (
    (b"PK\x03\x04", "a zip archive: unpack it"),
    (b"\x1f\x8b", "compressed with gzip: unpack it"),
    (b"BZh", "compressed with bzip2: unpack it"),
    (b"\xfd7zXZ", "compressed with xz: unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file that it stands for: run `git lfs pull`"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"\x89HDF", "an HDF5 file, as Keras writes: convert it to ONNX"),
    (b"GGUF", "a GGUF file: convert it to ONNX"),
    (b"\x89PNG", "a PNG image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "an ELF program or library"),
    (b"\x80\x02", "a Python pickle: export the model to ONNX where it was made"),
    (b"\x80\x03", "a Python pickle: export the model to ONNX where it was made"),
    (b"\x80\x04", "a Python pickle: export the model to ONNX where it was made"),
    (b"\x80\x05", "a Python pickle: export the model to ONNX where it was made"),
)
_LOOKED_AT = 1024
_TAGS = '"(2:B'  # possible first bytes of a truncated model


def stranger(source: ByteSource) -> str:
    """Describe the bytes and what to do with them; "" if they are not recognized. O(1)."""
    if not source.size:
        return "empty"
    head = bytes(source.piece(0, min(_LOOKED_AT, source.size)))
    for start, what in _HEADS:
        if head.startswith(start):
            return what
    if head[257:262] == b"ustar":
        return "a tar archive: unpack it"
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model: convert it to ONNX"
    if not any(head):
        return "zeros only"
    return _safetensors(head, source.size) or _text(head)


def _safetensors(head: bytes, size: int) -> str:
    """Recognize eight bytes of length, followed by that much JSON."""
    length = int.from_bytes(head[:8], "little")
    return "a safetensors file, weights without a graph" if head[8:9] == b"{" and 0 < length <= size - 8 else ""


def _text(head: bytes) -> str:
    try:
        text = head.decode("ascii").strip()
    except UnicodeDecodeError:
        return ""
    if not text or any(ord(letter) < 32 and letter not in "\t\n\r\f" for letter in text):
        return ""
    lowered = text[:200].lower()
    if lowered.startswith(("<!doctype html", "<html")):
        return "an HTML page, perhaps what a server said in the place of the file"
    if lowered.startswith("<?xml"):
        return "XML"
    if text[0] in "{[":
        return "JSON"
    return "" if text[0] in _TAGS else "text"
