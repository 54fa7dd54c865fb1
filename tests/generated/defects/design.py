"""Results of ort-lite that depend on its configuration by design. They are no defects, but are looked up in the same way."""

import numpy as np

from tests.generated.comparison import Mismatch
from tests.generated.known import Defect, both, dtype, expects_nan, is_integer, is_rare, nearly, special, within
from tests.generated.walk import Site


def _is_float32(site: Site, mismatch: Mismatch) -> bool:
    return mismatch.where is not None and bool(mismatch.got.dtype == np.float32)


DESIGN: tuple[Defect, ...] = (
    Defect(
        "3 threads",
        "com.microsoft.DynamicQuantizeLSTM",
        "quantizes the hidden states of the rows of one thread together, as onnxruntime does",
        nearly(2e-2),
    ),
    Defect(
        "unoptimized",
        "LayerNormalization",
        "computes statistics of what was there before a Cast to 16 bits, as in onnxruntime",
        both(dtype(0, "float16", "bfloat16"), _is_float32, nearly(5e-3)),
    ),
    Defect(
        "accelerator",
        "Conv",
        "multiplies padding by infinite weights, whose taps the CPU provider leaves out",
        both(special, expects_nan),
    ),
    Defect(
        "other target",
        "Resize Upsample",
        "rounds what is halfway between two integers as sums come out, where multiplications are fused with additions or not",
        both(is_integer, within(1), is_rare),
    ),
)
