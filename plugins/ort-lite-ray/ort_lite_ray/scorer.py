"""A scoring worker: a session created once, and a function from batches to batches."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import ort_lite
from ort_lite.dtypes import from_ort_name, to_numpy
from ort_lite.errors import InvalidArgument, hint
from ort_lite.record import Record, field
from ort_lite_ray.host import share_weights
from ort_lite_ray.rows import Array, buckets, column, pad_columns

Providers = Sequence[str | tuple[str, dict[str, Any]]]


class Plan(Record):
    """The work of scoring workers.

    `inputs` are {the model's input: the column}, `outputs` {the model's output: the column that it becomes}, `pad` {the
    model's input: the value that pads rows}.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    pad: Mapping[str, float] = field(default_factory=dict)
    providers: Providers = ("CPUExecutionProvider",)
    num_threads: int = 1


class Scorer:
    """A function that adds columns with the model's outputs to a batch {column: rows}. Rows keep their order.

    `model` is a path, or bytes. Workers of one `job` share their weights on each host.
    """

    def __init__(self, model: str | bytes, plan: Plan, job: str | None = None) -> None:
        if job is not None:
            share_weights(job)
        options = ort_lite.SessionOptions()
        options.intra_op_num_threads = plan.num_threads
        self._plan = plan
        self._session = ort_lite.InferenceSession(model, options, providers=list(plan.providers))
        given = {value.name: value for value in self._session.get_inputs()}
        self._types = {name: to_numpy(from_ort_name(given[name].type)) for name in plan.inputs}
        leading = {shape[0] for name in plan.inputs if (shape := given[name].shape)}
        self._largest = 1 if 1 in leading else None

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Score a batch. Raises InvalidArgument for a column that the batch lacks, and the errors of `run`."""
        feeds = pad_columns({name: _column(batch, name, wanted) for name, wanted in self._plan.inputs.items()}, self._plan.pad)
        results: list[list[Any]] = [[None] * len(next(iter(feeds.values()))) for _ in self._plan.outputs]
        for places, rows in buckets(feeds, self._largest):
            typed = {name: _convert(name, array, self._types[name]) for name, array in rows.items()}
            for made, values in zip(results, self._session.run(list(self._plan.outputs), typed), strict=True):
                _put(made, places, values)
        return dict(batch) | {name: column(made) for name, made in zip(self._plan.outputs.values(), results, strict=True)}


def _column(batch: Mapping[str, Array], name: str, wanted: str) -> Array:
    if wanted not in batch:
        raise InvalidArgument(
            f"input {name!r} of the model is to come from column {wanted!r}, which the rows lack{hint(wanted, batch)} "
            f"Columns: {', '.join(batch)}; inputs={{{name!r}: COLUMN}} names another"
        ).about(input=name)
    return batch[wanted]


def _convert(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert to the model's type. Raises InvalidArgument if that would be another kind of number."""
    if dtype.hasobject or np.can_cast(array.dtype, dtype, "same_kind"):
        return array.astype(dtype, copy=False)
    raise InvalidArgument(f"input {name!r} of the model: the column has {array.dtype}, expected {dtype}").about(
        input=name, expected=str(dtype), got=str(array.dtype)
    )


def _put(made: list[Any], places: Sequence[int], values: Array) -> None:
    if np.ndim(values) == 0 or len(values) != len(places):
        raise InvalidArgument(
            f"an output has the shape {np.shape(values)} for {len(places)} rows; expected a row of it for each row: "
            f"choose others by outputs="
        )
    for place, value in zip(places, values, strict=True):
        made[place] = np.asarray(value)
