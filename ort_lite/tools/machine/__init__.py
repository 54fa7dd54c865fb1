"""The formal machine: a model as a state (G, M) that steps. Executes the very instructions that `InferenceSession.run` does.

    machine = Machine(session, feed)
    record = machine.step()          # one instruction: its node, what it read, what it wrote
    machine.run()                    # the rest
    machine.outputs()

G is the graph; M one linear memory of N bytes in which everything lies, inputs, constants, intermediate values and outputs;
T the table that says where: name -> (offset, element type, shape). A trace of its steps can be verified by executing it again.
"""

from ort_lite.provider.machine_image import Image, MachineInstruction, Region, TableEntry
from ort_lite.tools.machine.formal_machine import Machine, MachineState, StepRecord, node_tuple
from ort_lite.tools.machine.machine_trace import MachineTrace, record_trace, verify_trace

__all__ = [
    "Image",
    "Machine",
    "MachineInstruction",
    "MachineState",
    "MachineTrace",
    "Region",
    "StepRecord",
    "TableEntry",
    "node_tuple",
    "record_trace",
    "verify_trace",
]
