"""What comes out of the stages."""

from ort_lite.compile.compile import Compiled
from ort_lite.graph.model import Model
from ort_lite.partition.assignment import Assignment
from ort_lite.record import Record
from ort_lite.transform.transform import TransformReport


class Prepared(Record):
    """A model after all stages, and what each of them reported. `incidents` are failures that the next provider made good.

    `keeping` are the partitions that another provider may have to run: their constants must stay.
    """

    model: Model
    report: TransformReport
    assignment: Assignment
    compiled: Compiled
    incidents: list[str]
    keeping: frozenset[str]
