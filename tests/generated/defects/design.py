"""Results of ort-lite that depend on its configuration by design. They are no defects, but are looked up in the same way."""

from tests.generated.known import Defect, both, is_integer, is_rare, nearly, within

DESIGN: tuple[Defect, ...] = (
    Defect(
        "3 threads",
        "com.microsoft.DynamicQuantizeLSTM",
        "quantizes the hidden states of the rows of one thread together, as onnxruntime does",
        nearly(2e-2),
    ),
    Defect(
        "other target",
        "Resize Upsample",
        "rounds what is halfway between two integers as sums come out, where multiplications are fused with additions or not",
        both(is_integer, within(1), is_rare),
    ),
)
