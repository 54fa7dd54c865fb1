"""Batch scoring: a data set through a model, on the workers of Ray Data."""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import ort_lite
from ort_lite.errors import InvalidArgument, hint
from ort_lite_ray.scorer import Plan, Providers, Scorer

if TYPE_CHECKING:
    import ray
    from ray.data import Dataset

Names = Mapping[str, str] | Iterable[str] | None


def score(
    dataset: "Dataset",
    model: str | os.PathLike[str] | bytes,
    *,
    inputs: Names = None,
    outputs: Names = None,
    pad: Mapping[str, float] | None = None,
    batch_size: int = 256,
    providers: Providers = ("CPUExecutionProvider",),
    num_threads: int = 1,
    concurrency: int | tuple[int, int] = 1,
) -> "Dataset":
    """Return the data set with a column for each output of the model. Lazy, like all of Ray Data.

    inputs: {an input of the model: its column}, or names that are both; None: all inputs. outputs: {an output: its column},
    alike. Rows of different shapes run in buckets of one shape. With `pad`, {an input: a number}, rows of that input are
    padded to the longest of the batch, and outputs are as long as that. `concurrency` workers, or as many as are useful
    between two numbers, create a session of `num_threads` threads each and get `batch_size` rows at a time. A worker
    reserves `num_threads` of the cluster's processors for as long as it lives. Leave one processor for reading and writing,
    or Ray waits for it forever; a warning says so.

    Each host reads a path itself, so every host needs the file. Weights, packed ones too, are held once per host. Rows of a
    worker that dies are computed again, and are in the result once.

    Raises InvalidArgument for names that the model or the data set lacks. Errors of workers are raised when the data set is
    consumed.
    """
    import ray
    from ray.data import ActorPoolStrategy

    plan = _plan(model, inputs, outputs, dict(pad or {}), providers, num_threads)
    _check_columns(dataset, plan)
    least, most = (concurrency, concurrency) if isinstance(concurrency, int) else concurrency
    _warn_of_no_reader(most * num_threads, ray.cluster_resources().get("CPU", 0))
    given = ray.put(model) if isinstance(model, bytes) else os.path.abspath(model)
    return dataset.map_batches(
        _Worker,
        fn_constructor_args=(given, plan, str(ray.get_runtime_context().get_job_id())),
        batch_size=batch_size,
        batch_format="numpy",
        num_cpus=num_threads,
        compute=ActorPoolStrategy(min_size=least, max_size=most),
        udf_modifying_row_count=False,
    )


class _Worker(Scorer):
    """A Scorer whose model may be in Ray's object store, which a host's workers read in place."""

    def __init__(self, model: "str | ray.ObjectRef[bytes]", plan: Plan, job: str) -> None:
        import ray

        super().__init__(ray.get(model) if isinstance(model, ray.ObjectRef) else model, plan, job)


def _plan(model: Any, inputs: Names, outputs: Names, pad: dict[str, float], providers: Providers, threads: int) -> Plan:
    """Create the plan from the model's structure, without reading its weights."""
    options = ort_lite.ParseOptions(skip_raw_data=True, load_external_data=False)
    graph = ort_lite.load(model, options).graph
    feeds = _names("input", inputs, [value.name for value in graph.inputs if value.constant is None])
    _names("input", pad, list(feeds))
    return Plan(feeds, _names("output", outputs, [value.name for value in graph.outputs]), pad, tuple(providers), threads)


def _names(kind: str, given: Any, known: list[str]) -> dict[str, str]:
    """Return {the model's name: the column's}. Raises InvalidArgument for unknown names."""
    chosen = dict(given) if isinstance(given, Mapping) else {name: name for name in (known if given is None else given)}
    for name in chosen:
        if name not in known:
            raise InvalidArgument(f"the model has no {kind} {name!r}{hint(name, known)} It has {', '.join(known)}")
    return chosen


def _check_columns(dataset: "Dataset", plan: Plan) -> None:
    """Raise InvalidArgument for a missing column, if the data set knows its columns without being computed."""
    schema = dataset.schema(fetch_if_missing=False)
    for name, column in plan.inputs.items():
        if schema is not None and column not in schema.names:
            raise InvalidArgument(
                f"input {name!r} of the model is to come from column {column!r}, which the data set lacks{hint(column, schema.names)} "
                f"Columns: {', '.join(schema.names)}; inputs={{{name!r}: COLUMN}} names another"
            ).about(input=name)


def _warn_of_no_reader(taken: int, there: float) -> None:
    """Warn if the workers leave no processor for reading and writing. Not an error, because a cluster may grow."""
    if taken > there - 1:
        import warnings

        warnings.warn(
            f"the workers take {taken} of the cluster's {there:g} processors, and Ray waits for one more to read and write: "
            f"lower concurrency= or num_threads=, unless the cluster grows",
            stacklevel=3,
        )
