"""The core by itself: a Session runs a model, and is explained, viewed and verified by the rooms only where somebody asks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import ort_lite
from ort_lite.options import SessionOptions
from ort_lite.plugins import rooms
from ort_lite.session import Session

ROOT = Path(__file__).parents[2]
TEXT = '<ir_version: 8, opset_import: ["": 17]> main (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }'
X = np.arange(3, dtype=np.float32)
CHILD = """
import sys
import numpy as np
from ort_lite.session import Session
session = Session(sys.argv[1], providers=["CPUExecutionProvider"])
print(*session.run(None, {"x": np.zeros(3, np.float32)})[0].tolist(), session.explain())
session.close()
rooms = ("ort_lite.compat", "ort_lite.params", "ort_lite.testing", "ort_lite.tools")
assert not [name for name in sys.modules if name.startswith(rooms)], sys.modules
"""


def data() -> bytes:
    return bytes(onnx.parser.parse_model(TEXT).SerializeToString())


def test_a_session_needs_no_room(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data())
    command = [sys.executable, "-c", CHILD, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.0 2.0 3.0 ")


def test_options_of_the_core_make_a_session_of_onnxruntimes_kind() -> None:
    options = SessionOptions()
    options.logid = "mine"
    session = ort_lite.InferenceSession(data(), options)
    assert type(session.get_session_options()) is ort_lite.SessionOptions
    assert session.get_session_options().logid == "mine"


def test_a_copy_has_the_class_of_the_options() -> None:
    options = ort_lite.SessionOptions()
    options.add_provider("CPUExecutionProvider", {})
    assert type(options.copy()) is ort_lite.SessionOptions
    assert options.copy().has_providers()
    assert type(ort_lite.RunOptions().copy()) is ort_lite.RunOptions


def test_a_typo_in_an_option_is_answered_with_the_name_of_the_core() -> None:
    with pytest.raises(AttributeError, match="SessionOptions has no option 'enable_profilin'; did you mean 'enable_profiling'"):
        ort_lite.SessionOptions().enable_profilin = True


def test_the_rooms_serve_a_session_of_the_core() -> None:
    session = Session(data())
    params = ort_lite.save_params({"w": np.zeros(3, np.float32)})
    session.load_params(params)
    np.testing.assert_array_equal(session.run(None, {"x": X}, verify="partition")[0], X)
    assert session.verification.ok
    assert "<svg" in session._repr_html_()
    assert session.view().document["title"] == "main"


def test_a_program_may_put_a_viewer_of_its_own_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rooms.HOOKS, "view", f"{__name__}:own_view")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert Session(data()).view() == "seen by nobody else"


def own_view(session: Session, feeds: object, profile: object) -> str:
    assert feeds is None
    assert profile is None
    return "seen by nobody else"
