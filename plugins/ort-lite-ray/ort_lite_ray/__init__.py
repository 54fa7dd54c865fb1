"""ort-lite on Ray: `score` runs a data set through a model on many workers; `RayExecutionProvider` runs one in stages."""

from ort_lite_ray.score import score

__all__ = ["score"]
