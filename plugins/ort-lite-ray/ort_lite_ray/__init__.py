"""ort-lite on Ray: `score` puts a data set through a model on many workers, `RayExecutionProvider` runs a model in stages on actors."""

from ort_lite_ray.score import score

__all__ = ["score"]
