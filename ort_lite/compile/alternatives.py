"""The contract of what runs a partition's nodes when the partition fails in a run."""

from typing import Protocol

from ort_lite.execute.execute import Executable
from ort_lite.provider.provider import Partition


class Alternatives(Protocol):
    """The providers after a partition's own, for a partition that fails in a run."""

    def executable(self, partition: Partition) -> Executable:
        """Compile the partition's nodes for them. Raises what creating a session raises."""
