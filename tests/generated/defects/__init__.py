"""The tables of other people's defects, with onnxruntime 1.32 and onnx 1.23. See `tests.generated.known`."""

from tests.generated.defects.crashes import crash, crash_at_load
from tests.generated.defects.design import DESIGN
from tests.generated.defects.onnxruntime import ONNXRUNTIME_DEFECTS
from tests.generated.defects.reference import REFERENCE_DEFECTS

DEFECTS = (*ONNXRUNTIME_DEFECTS, *REFERENCE_DEFECTS, *DESIGN)

__all__ = ["DEFECTS", "DESIGN", "ONNXRUNTIME_DEFECTS", "REFERENCE_DEFECTS", "crash", "crash_at_load"]
