"""Compare rows that are scored while workers are killed with a serial run, row by row.

From the repository's root: PYTHONPATH=. python plugins/ort-lite-ray/benchmarks/workers_killed.py [ROWS [KILLS]]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ray.data
from ort_lite_ray import score
from ort_lite_ray.scorer import Plan, Scorer
from ort_lite_ray.testing import Killer, cluster

DIGITS = Path("examples/digits")


def main(folder: Path) -> None:
    """Score the rows, kill workers meanwhile, and compare. `folder` holds the data set."""
    rows, kills = (int(sys.argv[k]) if len(sys.argv) > k else default for k, default in ((1, 200_000), (2, 10)))
    images = np.load(DIGITS / "test_images.npz")["images"]
    chosen = images[np.arange(rows) % len(images)]
    chosen = chosen ^ (np.arange(rows) % 13).astype(np.uint8)[:, None, None, None]  # so that rows differ
    serial = Scorer(str(DIGITS / "digits_cnn.onnx"), Plan({"images": "images"}, {"probabilities": "p"}))
    expected = np.concatenate([serial({"images": chosen[k : k + 256]})["p"] for k in range(0, rows, 256)])
    with cluster():
        numbered = ray.data.range(rows).map_batches(
            lambda batch: {"id": batch["id"], "images": chosen[batch["id"]]}, batch_format="numpy"
        )
        numbered.write_parquet(str(folder / "in"))
        scored = score(
            ray.data.read_parquet(str(folder / "in")).repartition(40),
            DIGITS / "digits_cnn.onnx",
            outputs={"probabilities": "p"},
            concurrency=2,
        )
        begin = time.perf_counter()
        with Killer(["ray::MapWorker", "ray::Write", "ray::Read"], 2.0, kills) as killer:
            scored.drop_columns(["images"]).write_parquet(str(folder / "out"))
        seconds = time.perf_counter() - begin
        ids, found = [], []
        for batch in ray.data.read_parquet(str(folder / "out")).iter_batches(batch_format="numpy"):
            ids.append(batch["id"])
            found.append(batch["p"])
    order = np.concatenate(ids)
    np.testing.assert_array_equal(np.sort(order), np.arange(rows))
    np.testing.assert_allclose(np.concatenate(found), expected[order], atol=1e-5)  # other batches round differently
    print(f"{rows} rows, each once, as the serial run; {len(killer.killed)} workers killed in {seconds:.0f} s: {killer.killed}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
