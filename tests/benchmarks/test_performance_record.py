"""docs/performance.jsonl: what is read, what is rejected, and how measurements replace each other."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.measurements import measured, operator
from tests.benchmarks.record import RECORD, InvalidRecord, merge, parse, read, write
from tests.benchmarks.summary import by_cpu, cpu_summaries, geometric_mean


def line(**changes: Any) -> str:
    """A line with some of its fields changed, or removed by None."""
    fields = {**json.loads(measured().as_json()), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def test_the_repository_has_a_sorted_record(tmp_path: Path) -> None:
    write(read(), tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == RECORD.read_text()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    conv = operator("Conv", "1x3x8x8", "4x3x3x3*", attributes=("pads=1,1,1,1",), features=("avx2",), ratio=None)
    write([measured(threads=2), conv, measured()], file)
    assert read(file) == [measured(), measured(threads=2), conv]
    assert len(file.read_text().splitlines()) == 3
    assert conv.title == "Conv 1x3x8x8 4x3x3x3* pads=1,1,1,1 float32"


def test_a_new_measurement_replaces_the_one_with_the_same_key() -> None:
    old = [measured(), measured(threads=2), measured(rival="openvino"), measured(cpu="Beta"), measured(features=("avx2",))]
    new = measured(ratio=3.0, version="0.2.0", date="2026-01-02")
    found = merge(old, [new])
    assert len(found) == len(old)
    assert set(found) == {new, *old[1:]}
    add = operator("Add", "2x3", "3")
    assert (
        len(merge([add], [operator("Add", "2x3", "3*"), add.replace(dtype="float16"), add.replace(attributes=("axis=1",))]))
        == 4
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object"),
        (line(speed=3), "unknown field 'speed'"),
        (line(cpu=None), "no field 'cpu'"),
        (line(threads=0), "threads is 0, expected a positive integer"),
        (line(threads=True), "threads is true, expected a positive integer"),
        (line(ours="1 ms"), 'ours is "1 ms", expected a positive number'),
        (line(noise=float("nan")), "noise is NaN, expected a positive number"),
        (line(features="avx2"), 'features is "avx2", expected a list of texts'),
        (line(name=""), 'name is "", expected a text'),
        (line(kind="node"), "kind is 'node', expected model or operator"),
        (line(kind="operator"), "an operator has shapes and a dtype"),
        (line(ratio=None), "expected a ratio, or differs: true without one"),
        (line(differs=True), "expected a ratio, or differs: true without one"),
        (line(ours=None), "expected both times"),
        (line(ratio=2.02), "ratio is 2.02, but theirs over ours is 2.000"),
        (line(date="2026-13-01"), "date is '2026-13-01'"),
    ],
)
def test_a_line_that_is_wrong_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidRecord) as raised:
        parse(text)
    assert message in str(raised.value)


def test_an_error_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    file.write_text(f"{line()}\n{line(threads=-1)}\n")
    with pytest.raises(InvalidRecord, match=r"record\.jsonl, line 2: threads is -1"):
        read(file)
    file.write_text(f"{line()}\n{line(threads=2)}\n{line(ratio=None, differs=True)}\n")
    with pytest.raises(InvalidRecord, match=r"record\.jsonl, line 3: measures the same as line 1"):
        read(file)


def test_a_cpu_is_summarized_by_means_and_losses() -> None:
    found = [
        measured("GEMM 512", 1, 0.5),
        measured("light_vgg19", 1, 8.0),
        measured("200 tiny nodes", 1, None),
        measured("MLP of one row", 1, 0.976),
        measured("GEMM 512", 2, 0.97),
        measured("GEMM 512", 2, 3.0, rival="openvino"),
        measured("my own model", 1, 0.1),
        operator("Add", "2x3", "3", ratio=0.1),
        measured("GEMM 512", 1, 4.0, cpu="Beta"),
    ]
    alpha, beta = cpu_summaries(merge((), found))
    assert (alpha.name, beta.name) == ("Alpha", "Beta")
    one = alpha.comparisons["onnxruntime", 1]
    assert one.count == 3
    assert one.mean == pytest.approx((0.5 * 8.0 * 0.976) ** (1 / 3))
    assert dict(one.slower) == {"GEMM 512": 0.5}
    assert dict(alpha.comparisons["onnxruntime", 2].slower) == {"GEMM 512": 0.97}
    assert alpha.comparisons["openvino", 2].mean == pytest.approx(3.0)
    assert set(beta.comparisons) == {("onnxruntime", 1)}


def test_a_mean_without_ratios_is_none() -> None:
    (alpha,) = cpu_summaries([measured(ratio=None)])
    assert alpha.comparisons["onnxruntime", 1].mean is None
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_cpus_of_one_name_are_told_apart_by_their_features() -> None:
    def names(*features: tuple[str, ...]) -> list[str]:
        return [name for name, _ in by_cpu([measured(cpu="Beta"), *(measured(features=own) for own in features)])]

    assert names(("avx2",)) == ["Alpha", "Beta"]
    assert names(("avx2",), ("avx2", "fma")) == ["Alpha without fma", "Alpha with fma", "Beta"]
    three = names(("avx2", "amx"), ("avx2", "fma"), ("avx2",))
    assert three == ["Alpha without amx, fma", "Alpha with amx", "Alpha with fma", "Beta"]
    assert names((), ("avx2",)) == ["Alpha with unknown features", "Alpha with known features", "Beta"]
