"""A document by hand, whose numbers are known: a chain of nodes in two stages, an arena, a run, and another session beside it."""

from ort_lite.tools.view.document import (
    FORMAT,
    ArenaData,
    Document,
    EventData,
    KernelData,
    PlacementData,
    StageData,
    TimelineData,
    ValueData,
)

CPU, SAMPLE = "CPUExecutionProvider", "SampleExecutionProvider"
FLOATS: ValueData = {"type": "float32[4]", "dtype": "float32", "shape": [4], "bytes": 16}
CHAIN = ("Abs_0", "Neg_1", "Exp_2")
GONE = "Identity_3"


def _placement(provider: str, why: str) -> PlacementData:
    other = SAMPLE if provider == CPU else CPU
    return {
        "provider": provider,
        "partition": f"{provider}_0",
        "reasons": [{"provider": other, "verdict": "declined", "code": "operator", "detail": why}] if why else [],
        "rule": "",
        "inserted": "",
    }


def _stages() -> list[StageData]:
    loaded: StageData = {
        "id": "loaded",
        "title": "As loaded",
        "level": "",
        "note": "The model as its file has it.",
        "removed": [],
        "added": [*CHAIN, GONE],
        "changes": [],
    }
    simpler: StageData = {
        "id": "transform:1",
        "title": "remove_no_op",
        "level": "basic",
        "note": "Nodes that do nothing go.",
        "removed": [GONE],
        "added": [],
        "changes": [{"rule": "remove_no_op", "removed": [GONE], "added": []}],
    }
    last: StageData = loaded | {"id": "partitioned", "title": "Partitioned", "added": []}
    return [loaded, simpler, last]


def _arena() -> ArenaData:
    """Three steps; a large tensor at the bottom all the time, a small one above it in the last two."""
    return {
        "partition": f"{CPU}_0",
        "memory": "cpu",
        "role": "scratch",
        "size": 4_000_000,
        "bound": 3_500_000,
        "steps": list(CHAIN),
        "live": [3_000_000, 3_500_000, 3_500_000],
        "tensors": [
            {"name": "large", "offset": 0, "size": 3_000_000, "first": 0, "last": 2, "role": "scratch", "node": "Abs_0"},
            {"name": "small", "offset": 3_500_000, "size": 500_000, "first": 1, "last": 2, "role": "scratch", "node": "Neg_1"},
        ],
        "shapes": "x [4]",
    }


def _event(name: str, category: str, start: float, duration: float, track: int = 0) -> EventData:
    return {
        "name": name,
        "category": category,
        "provider": CPU if track == 0 else SAMPLE,
        "track": track,
        "start": start,
        "duration": duration,
    }


def _timeline() -> TimelineData:
    """A partition of 100 microseconds that holds 60 and 30 of kernels, a device's copy, which the run waits for, and a partition of a
    device, whose kernel runs on a track of the device.
    """
    kernels = [_event("Abs_0", "Kernel", 0, 60) | {"node": "Abs_0"}, _event("Neg_1", "Kernel", 65, 30) | {"node": "Neg_1"}]
    return {
        "tracks": [{"id": 0, "name": "main"}, {"id": 1, "name": "sample:0"}],
        "events": [
            _event(f"{CPU}_0", "Step", 0, 100),
            *kernels,
            _event("copy x", "Step", 100, 10),
            _event("copy x", "Copy", 101, 8, track=1),
            _event(f"{SAMPLE}_0", "Step", 110, 8),
            _event("Exp_2", "Kernel", 111, 5, track=1) | {"node": "Exp_2"},
        ],
        "flows": [{"name": "x", "source": (0, 99.0), "target": (1, 102.0)}],
    }


def _kernel(taken: str, **rejected: str) -> KernelData:
    """Return a choice between two: the first takes 100 microseconds, the second half as long again and a change of layout."""
    return {
        "kernels": [f"{taken}<f32>"],
        "taken": taken,
        "runner_up": "second" if taken == "first" else "first",
        "costs": {"first": {"kernel": 100, "moves": 0}, "second": {"kernel": 150, "moves": 50}},
        "rejected": rejected,
    }


def _document(provider: str, costs: dict[str, float], why: str) -> Document:
    """Of a session in which `provider` has the chain's last node."""
    places = {name: _placement(CPU, "") for name in CHAIN[:-1]} | {CHAIN[-1]: _placement(provider, why)}
    names = [*CHAIN, GONE]
    return {
        "format": FORMAT,
        "title": "plotted",
        "facts": [],
        "providers": [{"name": name, "device": name[:3]} for name in (SAMPLE, CPU)],
        "operators": {},
        "values": {f"v{k}": FLOATS for k in range(len(names) + 1)} | {"v2": FLOATS | {"symbolic": "float32[N]"}},
        "nodes": {
            name: {
                "name": name,
                "operator": name.split("_")[0],
                "graph": "",
                "inputs": [f"v{k}"],
                "outputs": [f"v{k + 1}"],
                "attributes": {},
            }
            for k, name in enumerate(names)
        },
        "graphs": [{"path": "", "node": None, "inputs": ["v0"], "outputs": ["v3"]}],
        "stages": _stages(),
        "placements": places,
        "partitions": [
            {
                "name": f"{name}_0",
                "provider": name,
                "device": name[:3],
                "graph": "",
                "nodes": nodes,
                "inputs": [],
                "outputs": [],
                "facts": {},
                "fused": [],
            }
            for name, nodes in ((CPU, [*CHAIN[:-1]]), (SAMPLE, [CHAIN[-1]]))
        ],
        "copies": [],
        "notes": [],
        "memory": [_arena()],
        "timeline": _timeline(),
        "costs": {key: {"microseconds": time, "share": 0.5, "shared": 1} for key, time in costs.items()},
        "kernels": {"Abs_0": _kernel("first", third="its window is large"), "Neg_1": _kernel("second")},
    }


def plotted() -> Document:
    """Compared with a session in which the sample provider has declined Exp_2, and which takes 40 microseconds longer for Abs_0."""
    here = _document(SAMPLE, {"Abs_0": 60, "Neg_1": 30}, "it would be the only one")
    return here | {"other": _document(CPU, {"Abs_0": 100, "Neg_1": 25}, "no kernel of Exp")}
