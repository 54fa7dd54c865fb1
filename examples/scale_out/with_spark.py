"""Spark: `predict_batch_udf` makes the session once a Python worker and hands it batches of a column.

    python examples/scale_out/with_spark.py

Spark needs a Java. On a cluster every worker needs ort_lite, and the model's file by the same path.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType
from scoring import MODEL, report, test_images


def make_predict(path: str) -> Callable[[Any], Any]:
    """Called once in each worker, where this file is not: it travels with all that it needs."""
    import ort_lite

    options = ort_lite.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort_lite.InferenceSession(path, options, ["CPUExecutionProvider"])
    return lambda images: session.run(["probabilities"], {"images": images.astype("uint8")})[0]


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    images = test_images()
    score = predict_batch_udf(
        partial(make_predict, str(MODEL)), return_type=ArrayType(FloatType()), batch_size=64, input_tensor_shapes=[[1, 8, 8]]
    )
    with SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate() as spark:
        rows = [(k, image.ravel().tolist()) for k, image in enumerate(images)]
        frame = spark.createDataFrame(rows, "id long, image array<short>").repartition(4)
        scored = frame.select("id", score("image").alias("probabilities")).orderBy("id").collect()
    report(np.array([row.probabilities for row in scored], np.float32))


if __name__ == "__main__":
    main()
