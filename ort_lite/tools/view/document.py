"""The data of a page: `collect` creates it, and the page's scripts read it as JSON.

Names of nodes are unique within a model at one moment, but a page shows several moments, so nodes have keys. The key of a node in
the stage "partitioned" is its name, and nearly always in the other stages too. If a node of that name has other operands or
attributes in another stage, its key there ends in a number ("Add_1~2"). Values have keys as well: their names in the main graph,
prefixed with the path of the body inside one ("If_0.then_branch/sum") and with the name of the partition if compilation created
them.
"""

from typing import NotRequired, TypedDict

FORMAT = "ort-lite view 1"


class ValueData(TypedDict):
    """A value, with the sizes of the run that is shown. `bytes` is a number, an expression in free dimensions that are not known,
    or None if the type does not tell.
    """

    type: str  # "float32[8, 3]"
    symbolic: NotRequired[str]  # the type with free dimensions, if that differs: "float32[N, 3]"
    dtype: str | None
    shape: list[int | str] | None
    bytes: int | str | None
    constant: NotRequired[str]  # of weights: what they hold, in short ("min -1.2, mean 0.01, max 3.4", or their elements)


class NodeData(TypedDict):
    """A node in one form. Its name is not unique across stages, but its key is."""

    name: str
    operator: str  # "Conv", "com.microsoft.Gelu"
    graph: str  # the path of the graph that it is in; "" is the main one
    inputs: list[str | None]  # keys of values; None where an optional one is left out
    outputs: list[str | None]
    captures: NotRequired[list[str]]  # what its bodies read of outer graphs
    attributes: dict[str, str]
    bodies: NotRequired[list[str]]  # paths


class BodyData(TypedDict):
    """A graph: the main one (`path` is "" and `node` is None), or the body of a control-flow node."""

    path: str
    node: str | None  # key of the node it belongs to
    inputs: list[str]
    outputs: list[str]


class StageData(TypedDict):
    """One moment of the model. Its nodes are those of the previous stage without `removed` and with `added`, all of them keys.

    The first stage adds all nodes. A node whose inputs changed is in both lists under two keys, and in none of `changes`.
    """

    id: str  # "loaded", "transform:NUMBER", "partitioned", "compiled"
    title: str  # "As loaded", "fold_constants", "fuse_conv_bias and 2 more rules", ...
    level: str  # of the transforms that made it, the highest, or ""
    note: str  # what it is about, a sentence or two
    removed: list[str]
    added: list[str]
    changes: list["ChangeData"]


class ChangeData(TypedDict):
    """One change by a rule, or several that build on each other, as keys of removed and added nodes."""

    rule: str  # names with ", " between them; of what partitioning inserted the reason
    removed: list[str]
    added: list[str]


class ReasonData(TypedDict):
    """The reason why a provider does not run a node."""

    provider: str
    verdict: str  # "taken", "declined", "lost"
    code: str
    detail: str


class PlacementData(TypedDict):
    """The provider and partition of a node, and why other providers do not run it."""

    provider: str
    partition: str
    reasons: list[ReasonData]  # one for each provider that does not have it
    rule: str
    inserted: str


class CopyData(TypedDict):
    """A copy of a value between devices."""

    value: str
    bytes: int | str | None
    route: list[str]  # devices
    reader: str  # partition, or "output"
    graph: str


class FusedData(TypedDict):
    """A node of a compiled partition, and the keys of the nodes of the stage "partitioned" that it replaces."""

    name: str  # its key
    operator: str
    parts: list[str]


class PartitionData(TypedDict):
    """The nodes that a provider compiles as one unit."""

    name: str
    provider: str
    device: str
    graph: str
    nodes: list[str]  # keys, in order
    inputs: list[str]
    outputs: list[str]
    facts: dict[str, int | str]
    fused: list[FusedData]


class TensorData(TypedDict):
    """A rectangle of the memory chart: bytes `offset` to `offset + size`, and steps `first` to `last` inclusive."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    role: str  # "scratch", "constant", "persistent"
    node: NotRequired[str]  # key of the node that makes it


class ArenaData(TypedDict):
    """The memory plan of a partition. `bound` is the least that any plan needs; `live` holds the bytes in use at each step."""

    partition: str
    memory: str
    role: str
    size: int
    bound: int
    steps: list[str]  # what is run at each step
    live: list[int]
    tensors: list[TensorData]
    shapes: str  # of which inputs: "x [1, 3, 224, 224]"


class TrackData(TypedDict):
    """A row of the timeline, such as a thread or a device."""

    id: int
    name: str


class EventData(TypedDict):
    """An event in microseconds since the start of the run. Events of a track are nested or disjoint; outer ones come first."""

    name: str
    category: str  # "Session" (the run), "Step" (a partition or a copy), "Kernel", "Copy" (on a track of its route)
    provider: str
    track: int
    start: float
    duration: float
    node: NotRequired[str]  # key
    bytes: NotRequired[int]
    details: NotRequired[dict[str, str]]  # what the provider says of it: "kernel", "shapes", ...


class FlowData(TypedDict):
    """An arrow between two points of the timeline."""

    name: str
    source: tuple[int, float]  # track, microseconds
    target: tuple[int, float]


class TimelineData(TypedDict):
    """The events of one profiled run."""

    tracks: list[TrackData]
    events: list[EventData]
    flows: list[FlowData]
    left_out: NotRequired[int]  # events that are too short to be shown beside so many others


class CostData(TypedDict):
    """The median cost of a node in one run. `shared` is the number of nodes that ran as one, each with an equal share.

    The peak is known of runs on this machine.
    """

    microseconds: float
    share: float  # of the run, 0 to 1
    flops: NotRequired[int]
    bytes: NotRequired[int]
    shared: int
    limit: NotRequired[str]  # the instruction or "memory", whichever is nearer to its peak
    of_peak: NotRequired[float]  # the share of that peak


class CandidateData(TypedDict):
    """The predicted cost of a kernel that can compute a node, in microseconds of one thread."""

    kernel: float
    moves: float  # of the changes of layout around the kernel


class KernelData(TypedDict):
    """The kernels that compute a node, and the candidates that were compared."""

    kernels: list[str]  # with their types and static parameters
    taken: str
    runner_up: str  # "" if no other candidate fits
    costs: dict[str, CandidateData]  # by candidate; at nominal sizes of open dimensions, mostly 256
    rejected: dict[str, str]  # why each of the others does not fit


class OperatorData(TypedDict):
    """The documentation of an operator."""

    since: int
    doc: str
    url: str  # of its page in ONNX's documentation; "" where it has none


class ProviderData(TypedDict):
    """A provider of the session and its device."""

    name: str
    device: str


class Document(TypedDict):
    """The data of one page."""

    format: str
    title: str
    facts: list[tuple[str, str]]  # (label, text): producer, opsets, weights, CPU, versions
    providers: list[ProviderData]
    operators: dict[str, OperatorData]
    values: dict[str, ValueData]
    nodes: dict[str, NodeData]
    graphs: list[BodyData]
    stages: list[StageData]
    placements: dict[str, PlacementData]  # of the nodes of the stage "partitioned"
    partitions: list[PartitionData]
    copies: list[CopyData]
    notes: list[str]
    memory: list[ArenaData]
    timeline: TimelineData | None  # of one profiled run
    costs: dict[str, CostData]  # by key, of the stage "partitioned"
    kernels: dict[str, KernelData]  # by key, of the last stage; of partitions that tell them
    other: NotRequired["Document"]  # to compare with; without the values that are equal in both
