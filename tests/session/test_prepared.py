"""Prepared programs: a session that reads one is the session that would have been created, and anything else is not used."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import ort_lite
from ort_lite.errors import OrtLiteError
from ort_lite.load.files import OpenFile
from ort_lite.log.events import Event, Subscriber
from ort_lite.memory import heap
from ort_lite.native import store as disk
from ort_lite.session.prepared import store
from ort_lite.session.prepared.program import SECTIONS
from ort_lite.session.prepared.sections import Sections
from tests.session.prepared_sessions import equal, feeds, found, model, session, store_in, stored

TABLES = 3 + Sections.__match_args__.index("tables")
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return store_in(tmp_path / "programs", monkeypatch)


def test_the_second_session_reads_what_the_first_one_stored() -> None:
    fresh = session(model(), prepared="0")
    first = session(model())
    assert (found(first), stored(first)) == ("no, because there is none", "yes")
    second = session(model())
    assert (found(second), stored(second)) == ("yes", "")
    for shapes in ({}, {"n": 1, "h": 5}, {"n": 5, "h": 30}):
        wanted = fresh.run(None, feeds(**shapes))
        assert all(map(equal, wanted, second.run(None, feeds(**shapes))))


PROCESS = """
import sys
import numpy as np
import ort_lite
from ort_lite.native import store
from ort_lite.session.prepared.program import SECTIONS
from ort_lite.session.prepared.sections import Sections
store.directory = lambda: sys.argv[1]
options = ort_lite.SessionOptions()
for name in ("ort_lite.prepared", "ort_lite.creation_trace"):
    options.add_session_config_entry(name, "1")
made = ort_lite.InferenceSession(sys.argv[2], options)
found = [event.facts["found"] for event in made.creation_trace.events if "found" in event.facts]
assert found == ["yes"], found
assert "numba" not in sys.modules
feeds = dict(np.load(sys.argv[3]))
np.savez(sys.argv[4], *made.run(None, feeds))
"""


def test_another_process_reads_it(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(model())
    wanted = session(tmp_path / "model.onnx").run(None, feeds())
    np.savez(tmp_path / "feeds.npz", **feeds())
    command = [
        sys.executable,
        "-c",
        PROCESS,
        *(str(tmp_path / name) for name in ("programs", "model.onnx", "feeds.npz", "y.npz")),
    ]
    subprocess.run(command, check=True, timeout=300)
    assert all(map(equal, wanted, np.load(tmp_path / "y.npz").values()))


def test_a_path_and_bytes_have_one_program(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(model())
    assert stored(session(tmp_path / "model.onnx")) == "yes"
    assert found(session(model())) == found(session(bytearray(model()))) == found(session(memoryview(model()))) == "yes"


def test_it_describes_itself_as_a_new_session_does(tmp_path: Path) -> None:
    fresh = session(model(), prepared="0")
    session(model())
    second = session(model())
    assert found(second) == "yes"
    for describe in (
        lambda made: made.get_inputs(),
        lambda made: made.get_outputs(),
        lambda made: made.get_modelmeta().custom_metadata_map,
        lambda made: str(made.explain()),
        lambda made: made.explain().as_dict(),
        lambda made: {k: str(c) for k, c in made._state.prepared.compiled.kernels().items()},
    ):
        assert str(describe(second)) == str(describe(fresh))
    for made in (fresh, second):
        made.run(None, feeds())
    assert second.memory() == fresh.memory()
    assert str(second.memory_plans()) == str(fresh.memory_plans())


class Seen(Subscriber):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_end(self, event: Event) -> None:
        self.events.append(event)


def test_a_recorded_run_has_the_same_events() -> None:
    names = []
    session(model())
    for made in (session(model(), prepared="0"), session(model())):
        seen = Seen()
        made._events.subscribe(seen)
        made.run(None, feeds())
        names.append([(event.name, event.kind, event.args.get("op_name")) for event in seen.events])
    assert names[0] == names[1]
    assert len(names[0]) > 5


def test_errors_of_a_run_name_the_same_node() -> None:
    session(model())
    messages = []
    for made in (session(model(), prepared="0"), session(model())):
        with pytest.raises(OrtLiteError) as error:
            made.run(None, {**feeds(), "picked": np.array([99])})
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "Gather" in messages[1]


def test_a_model_with_other_weights_is_created_anew() -> None:
    session(model())
    other = session(model(seed=1))
    assert found(other) == "no, because weights have changed"
    assert all(map(equal, session(model(seed=1), prepared="0").run(None, feeds()), other.run(None, feeds())))
    assert found(session(model(seed=1))) == "yes"


def test_external_data_is_read_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    made = onnx.load_from_string(model())
    onnx.save(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    assert stored(session(path)) == "yes"
    assert found(session(path)) == "yes"
    data = bytearray((tmp_path / "weights").read_bytes())
    data[5000] ^= 1
    (tmp_path / "weights").write_bytes(data)
    assert found(session(path)) == "no, because weights have changed"
    (tmp_path / "weights").write_bytes(data[:-1])
    with pytest.raises(OrtLiteError) as mine:
        session(path)
    with pytest.raises(OrtLiteError) as fresh:
        session(path, prepared="0")
    assert type(mine.value) is type(fresh.value)


def test_small_external_data_is_compared_although_what_is_made_of_it_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    made = onnx.load_from_string(model())
    [scale] = [tensor for tensor in made.graph.initializer if tensor.name == "scale"]
    start = (data := b"".join(tensor.raw_data for tensor in made.graph.initializer)).index(scale.raw_data)
    onnx.save(made, path, save_as_external_data=True, location="weights", size_threshold=0)
    assert stored(session(path)) == "yes"
    changed = bytearray((tmp_path / "weights").read_bytes())
    assert len(changed) == len(data)
    changed[start] ^= 1
    (tmp_path / "weights").write_bytes(changed)
    assert found(session(path)) == "no, because weights have changed"


def test_a_large_tensor_goes_from_the_file_to_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, path = onnx.load_from_string(model()), tmp_path / "model.onnx"
    made.graph.initializer.append(numpy_helper.from_array(np.ones((1 << 18,), np.float32), "unused"))
    path.write_bytes(made.SerializeToString())
    assert stored(session(path)) == "yes"
    monkeypatch.setattr(OpenFile, "whole", lambda file: pytest.fail("the file is read whole"))
    last = session(path)
    assert found(last) == "yes"
    path.unlink()
    assert all(map(equal, last.run(None, feeds()), session(model()).run(None, feeds())))


def test_memory_goes_back_where_large_tensors_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    small = """<ir_version: 10, opset_import: ["": 21]> main (float[N] x) => (float[N] y) { y = Relu(x) }"""
    data = onnx.parser.parse_model(small).SerializeToString()
    for source in (data, model()):
        session(source)
    calls: list[int] = []
    monkeypatch.setattr(heap, "give_back", lambda: calls.append(1))
    assert found(session(data)) == "yes"
    assert not calls
    assert found(session(model())) == "yes"
    assert calls == [1]


@pytest.fixture
def entry(folder: Path) -> Path:
    session(model())
    [name] = os.listdir(folder)
    return folder / name


def positions(size: int, sections: int) -> Iterator[int]:
    """Yield every byte of the header, and 2,000 others."""
    header = 38 + len(b"prepared program 1\n") + 8 * (1 + sections)
    yield from range(header)
    yield from random.Random(0).sample(range(header, size), 2000)


def test_no_changed_byte_of_an_entry_is_used(entry: Path) -> None:
    data, name = entry.read_bytes(), entry.name
    for at in positions(len(data), SECTIONS):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        entry.write_bytes(changed)
        assert store.read(name, SECTIONS) is None
    entry.write_bytes(bytes(reversed(data)))
    assert found(session(model())) == "no, because there is none"
    assert found(session(model())) == "yes"  # the damaged one was replaced


def test_no_shortened_entry_is_used(entry: Path) -> None:
    data, name = entry.read_bytes(), entry.name
    sections = store.read(name, SECTIONS)
    assert sections is not None
    sizes, start = [len(section) for section in sections], len(data) - sum(map(len, sections))
    for at in [0, 19, 38, start - 8, start - 1, *(start + sum(sizes[:k]) for k in range(SECTIONS)), len(data) - 1]:
        entry.write_bytes(data[:at])
        assert store.read(name, SECTIONS) is None
    entry.write_bytes(data + b"\0")
    assert store.read(name, SECTIONS) is None


def test_malformed_sections_with_a_right_digest_are_not_used(entry: Path) -> None:
    """Whoever may write entries may run code anyway: this is about entries of other releases, and never ends a process."""
    sections = store.read(entry.name, SECTIONS)
    assert sections is not None
    whole, rng = [bytes(section) for section in sections], random.Random(1)
    wanted = session(model(), prepared="0").run(None, feeds())
    for number in (0, 1, 2, 3, TABLES):
        for _ in range(30):
            changed = bytearray(whole[number])
            at = rng.randrange(len(changed))
            changed[at:] = b"" if rng.random() < 0.5 else changed[at:][::-1]
            if bytes(changed) == whole[number]:
                continue
            store.write(entry.name, [*whole[:number], bytes(changed), *whole[number + 1 :]])
            made = session(model())
            assert all(map(equal, wanted, made.run(None, feeds())))
            if number == TABLES:
                with suppress(OrtLiteError):
                    made.explain()


@pytest.mark.parametrize("name", ["builtins.eval", "os.system", "subprocess.Popen", "builtins.exec", "numpy.load"])
def test_an_entry_finds_no_other_functions(name: str) -> None:
    import pickle

    from ort_lite.session.prepared.pickling import Reader

    module, _, function = name.rpartition(".")
    data = b"c" + module.encode() + b"\n" + function.encode() + b"\n."
    with pytest.raises(pickle.PickleError, match="is not allowed"):
        Reader(data, {}, ()).load()


def test_an_entry_that_others_could_have_written_is_not_used(entry: Path, folder: Path) -> None:
    entry.chmod(0o666)
    assert found(session(model())) == "no, because there is none"
    entry.chmod(0o600)
    folder.chmod(0o777)
    assert found(session(model())) == "no, because there is none"


def test_the_oldest_entries_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(model())
    [name] = os.listdir(folder)
    os.utime(folder / name, (1, 1))
    monkeypatch.setattr(disk, "MOST_BYTES", (folder / name).stat().st_size * 3 // 2 * 4)
    monkeypatch.setattr(disk, "limit", lambda folder, most, limit=disk.limit: limit(folder, most // 4))
    session(model(), ort_lite__fusion="0")
    assert name not in os.listdir(folder)
    assert len(os.listdir(folder)) == 1


@pytest.mark.parametrize(
    ("create", "reason"),
    [
        (lambda: session(model(), prepared="0"), ""),
        (lambda: session(onnx.load_from_string(model())), ""),
    ],
)
def test_other_sessions_store_nothing(create: Callable[[], Any], reason: str, folder: Path) -> None:
    assert found(create()) == reason
    assert not folder.exists()


def test_random_numbers_of_the_system_are_not_stored(folder: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> main () => (float[N, M] y) { y = RandomNormal<shape=[3, 4]>() }'
    data = onnx.parser.parse_model(text).SerializeToString()
    made = session(data)
    assert "entropy" in stored(made)
    assert not folder.exists()
    assert not equal(made.run(None, {})[0], session(data).run(None, {})[0])


GENERATED = sorted(str(path.relative_to(DATA)) for path in (DATA / "generated").glob("*/model.onnx"))[::6]
EXPORTED = [f"transformers/{name}.onnx" for name in ("bert", "gpt2", "t5_decoder", "t5_encoder", "vit")]


@pytest.mark.parametrize("name", [*GENERATED, *EXPORTED, "silero/silero_vad.onnx"])
def test_models_compute_the_same(name: str) -> None:
    path = DATA / name
    fresh, _, second = session(path, prepared="0"), session(path), session(path)
    inputs = {arg.name: _example(arg) for arg in fresh.get_inputs()}
    if any(value is None for value in inputs.values()):
        return  # an input is no tensor
    wanted, came = _outcome(fresh, inputs), _outcome(second, inputs)
    assert type(wanted) is type(came)
    assert wanted == came if isinstance(wanted, str) else all(map(equal, wanted, came))
    assert str(second.explain()) == str(fresh.explain())


def _example(arg: Any) -> Any:
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(bool)": bool}
    if arg.type not in kinds:
        return None
    shape = [dim if isinstance(dim, int) else 3 for dim in arg.shape]
    return (np.random.default_rng(0).standard_normal(shape) * 3).astype(kinds[arg.type])


def _outcome(made: ort_lite.InferenceSession, inputs: dict[str, Any]) -> Any:
    try:
        return made.run(None, inputs)
    except OrtLiteError as error:
        return str(error)
