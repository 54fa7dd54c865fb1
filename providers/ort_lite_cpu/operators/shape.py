"""Shape and Size: resolved while lowering, from the symbolic shape. What reaches a kernel here has no known rank."""

from ort_lite_cpu.lowering.op import NodeLowering
from ort_lite_cpu.registry import ANY, operator


@operator("Shape", "Size", types=ANY)
def shape(op: NodeLowering) -> None:
    """Set the output's contents to dimensions of the input: nothing runs for an input of up to 64 dimensions."""
    raise op.reject(f"rank {len(op.raw(0).shape)}; up to 64 is there")
