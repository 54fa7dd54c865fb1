"""Copy the contents of OrtValues between devices."""

from collections.abc import Sequence
from typing import Any

from ort_lite.compat.ort_value import OrtValue
from ort_lite.errors import InvalidArgument


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy each source to its destination on any devices. Returns when all copies are done. O(bytes).

    Raises InvalidArgument for lists of different lengths, a stream, or another type or shape; nothing is copied then.
    """
    if len(src) != len(dst):
        raise InvalidArgument(f"copy_tensors: {len(src)} sources and {len(dst)} destinations, expected as many")
    if stream is not None:
        raise InvalidArgument(f"copy_tensors: got the stream {stream!r}, expected None: providers order their own copies")
    for k, (one, other) in enumerate(zip(src, dst, strict=True)):
        if (one.data_type(), one.shape()) != (other.data_type(), other.shape()):
            ours, theirs = (f"{each.data_type()} {each.shape()}" for each in (one, other))
            raise InvalidArgument(f"copy_tensors: source {k} is {ours}, its destination {theirs}; expected the same")
    for one, other in zip(src, dst, strict=True):
        other.update_inplace(one)
