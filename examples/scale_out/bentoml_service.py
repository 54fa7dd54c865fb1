"""BentoML: a service whose calls are joined to batches.

    cd examples/scale_out && bentoml serve bentoml_service:Digits

BentoML starts the workers, joins calls that come together along their first dimension, and answers by HTTP. For the Open Inference
Protocol there is `ort-lite serve`.
"""

import bentoml
import numpy as np
from numpy.typing import NDArray
from scoring import probabilities


@bentoml.service(workers=2, traffic={"timeout": 10})
class Digits:
    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=1000)
    def classify(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(n, 1, 8, 8) pixels -> (n, 10)."""
        return probabilities(images)
