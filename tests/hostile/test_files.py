"""What is no model says what it is, and names the file."""

from pathlib import Path

import pytest

from ort_lite.errors import InvalidProtobuf
from ort_lite.load.load import load
from tests.hostile.files import FILES


@pytest.mark.parametrize(("data", "what"), FILES.values(), ids=FILES)
def test_what_is_no_model_says_what_it_is(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "some.onnx"
    path.write_bytes(data)
    with pytest.raises(InvalidProtobuf, match=what) as caught:
        load(path)
    assert "some.onnx" in str(caught.value)
    with pytest.raises(InvalidProtobuf, match=what):
        load(data)
