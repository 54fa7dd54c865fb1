"""Data sets on a cluster: what comes out is what a serial run gives, whoever dies."""

from pathlib import Path

import numpy as np
import pytest
import ray.data
from ort_lite_ray import score
from ort_lite_ray.rows import Array, column
from ort_lite_ray.scorer import Plan, Scorer
from ort_lite_ray.testing import Killer

from ort_lite.errors import InvalidArgument

DIGITS = Path(__file__).parents[3] / "examples/digits"
MODEL = DIGITS / "digits_cnn.onnx"

pytestmark = pytest.mark.usefixtures("ray_cluster")


def images(count: int) -> Array:
    known = np.load(DIGITS / "test_images.npz")["images"]
    salt = (np.arange(count) % 13).astype(np.uint8)[:, None, None, None]
    return np.asarray(known[np.arange(count) % len(known)] ^ salt)


def collected(dataset: ray.data.Dataset, *names: str) -> list[Array]:
    batches = list(dataset.iter_batches(batch_format="numpy"))
    return [np.concatenate([batch[name] for batch in batches]) for name in names]


def test_killed_workers_lose_no_row_and_score_none_twice(tmp_path: Path) -> None:
    rows = 40_000
    given = images(rows)
    serial = Scorer(str(MODEL), Plan({"images": "images"}, {"probabilities": "p"}))
    expected = np.concatenate([serial({"images": given[k : k + 256]})["p"] for k in range(0, rows, 256)])
    numbered = ray.data.range(rows).map_batches(lambda rows: {"id": rows["id"], "images": given[rows["id"]]})
    numbered.write_parquet(str(tmp_path / "in"))
    scored = score(
        ray.data.read_parquet(str(tmp_path / "in")).repartition(40), MODEL, outputs={"probabilities": "p"}, concurrency=2
    )
    with Killer(["ray::MapWorker", "ray::Write"], 0.7, most=4) as killer:
        scored.drop_columns(["images"]).write_parquet(str(tmp_path / "out"))
    ids, found = collected(ray.data.read_parquet(str(tmp_path / "out")), "id", "p")
    assert killer.killed, "nobody was killed: the test shows nothing"
    np.testing.assert_array_equal(np.sort(ids), np.arange(rows))
    np.testing.assert_allclose(found, expected[ids], atol=1e-5)  # products of other batches round otherwise


def test_rows_of_several_lengths_and_a_model_in_memory() -> None:
    import onnx.parser

    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> main (float[N,T] x) => (float[N,1] y) <int64[1] a = {1}> { y = ReduceSum(x, a) }'
    )
    rows = column([np.arange(k % 5 + 1, dtype=np.float32) for k in range(200)])
    dataset = ray.data.from_items([{"id": k, "row": row} for k, row in enumerate(rows)])
    scored = score(dataset, model.SerializeToString(), inputs={"x": "row"}, outputs=["y"], batch_size=64)
    ids, found = collected(scored, "id", "y")
    np.testing.assert_array_equal(found[:, 0], [sum(range(k % 5 + 1)) for k in ids])


def test_names_are_looked_at_before_anything_runs() -> None:
    dataset = ray.data.from_numpy(images(2)).rename_columns({"data": "pictures"}).materialize()
    with pytest.raises(InvalidArgument, match="no input 'image'; did you mean 'images'"):
        score(dataset, MODEL, inputs={"image": "pictures"})
    with pytest.raises(InvalidArgument, match="no output 'p'"):
        score(dataset, MODEL, inputs={"images": "pictures"}, outputs={"p": "p"})
    with pytest.raises(InvalidArgument, match=r"column 'picture', which the data set lacks; did you mean 'pictures'\?"):
        score(dataset, MODEL, inputs={"images": "picture"})
    assert score(dataset, MODEL, inputs={"images": "pictures"}, outputs=["probabilities"]).count() == 2
