"""Results of ort-lite that depend on its configuration by design. They are no defects, but are looked up in the same way."""

from tests.generated.known import Defect, nearly

DESIGN: tuple[Defect, ...] = (
    Defect(
        "3 threads",
        "com.microsoft.DynamicQuantizeLSTM",
        "quantizes the hidden states of the rows of one thread together, as onnxruntime does",
        nearly(2e-2),
    ),
)
