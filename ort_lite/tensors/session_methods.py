"""What InferenceSession offers for NDArray, OrtValue and IOBinding. What they need is imported when it is used."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ort_lite.options.options import RunOptions

if TYPE_CHECKING:
    from ort_lite.session.session import InferenceSession
    from ort_lite.tensors.io_binding import IOBinding
    from ort_lite.tensors.ort_value import OrtValue


class TensorMethods:
    """Base of InferenceSession, and of nothing else."""

    def io_binding(self) -> "IOBinding":
        """A new IOBinding for this session."""
        from ort_lite.tensors.io_binding import IOBinding

        return IOBinding(cast("InferenceSession", self))

    def run_with_iobinding(self, iobinding: "IOBinding", run_options: RunOptions | None = None) -> None:
        """Runs on what is bound; results are in `iobinding.get_outputs()` and in the memory that outputs are bound to."""
        iobinding.run(run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, "OrtValue"],
        run_options: RunOptions | None = None,
    ) -> list["OrtValue"]:
        """As `run`, with OrtValues in and out; neither side is copied."""
        from ort_lite.tensors.ort_value import OrtValue

        feed = {name: value.value() for name, value in input_dict_ort_values.items()}
        return [OrtValue(value) for value in cast("InferenceSession", self).run(output_names, feed, run_options)]
