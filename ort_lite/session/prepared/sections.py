"""The sections of an entry that hold a program: what a run needs, and what is read later."""

import gc
import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ort_lite.dtypes import Array
from ort_lite.memory.recipes import Recipes, Replay, replaying
from ort_lite.record import Record
from ort_lite.session.prepared.graphs import VALUE, Tables, restore
from ort_lite.session.prepared.later import Later, Partial, set_fields
from ort_lite.session.prepared.loading import Arrays, Loader, pack_arrays
from ort_lite.session.prepared.origins import Origins
from ort_lite.session.prepared.pickling import NEW_PARTIAL, READ_AGAIN, Reader, RecipeWriter, Writer, new_partial


class Sections(Record):
    """A program, pickled: each field is bytes to be written, or a `store.Section` to read."""

    uses: Any
    """Numbers: of arrays that the later part refers to, of those that the session keeps, of tensors that it can read again."""
    arrays: Any
    later_arrays: Any
    tables: Any
    program: Any
    """The program, the values that are known early, then for later: missing fields, and constants."""


COUNT = len(Sections.__match_args__)


def write(program: Any, found: Recipes, objects: Mapping[str, Any]) -> Sections:
    """Pickle a program."""
    origins = Origins(found, {**objects, NEW_PARTIAL: new_partial})
    loaded, file = len(origins.arrays), io.BytesIO()
    writer = Writer(file, origins, [])
    writer.dump(program)
    writer.dump([(k, value.name, value.type, value.is_read()) for k, value in enumerate(list(origins.numbers.values))])
    held = set(origins.referred)
    early = _Recipes(origins, loaded)
    rows, done = Tables([], [], []), 0
    origins.referred.clear()
    missing, writer.left = writer.left, None
    writer.dump(missing)
    while True:  # what restores a constant may refer to nodes that nothing else refers to
        origins.numbers.extend(rows)
        values = list(enumerate(origins.numbers.values))[done:]
        done += len(values)
        constants = {k: value.constant for k, value in values if value.constant is not None}
        writer.dump(constants)
        if not constants:
            break
    tables = io.BytesIO()
    Writer(tables, origins).dump(rows)
    later = _Recipes(origins, early.end)
    kept = {number for number in origins.referred if number < early.end}
    held |= kept
    uses = pickle.dumps((sorted(kept), sorted(held), sorted(origins.read_again)), protocol=5)
    arrays = early.pickle(held), later.pickle(set(range(later.end)))
    return Sections(uses, *arrays, tables.getvalue(), file.getvalue())


class _Recipes:
    """The recipes of the arrays from a number on, and of all that they are made of."""

    def __init__(self, origins: Origins, begin: int) -> None:
        self._origins, self._found = origins, dict[int, tuple[Callable[..., Array], tuple[Any, ...]]]()
        self._uses: dict[int, set[int]] = {}
        self._stored: dict[int, Array] = {}
        self._shared: dict[int, Any] = {}
        """Objects without arrays that several recipes refer to, by id."""
        before, number = set(origins.referred), begin
        while number < len(origins.arrays):
            recipe = origins.recipe(origins.arrays[number])
            if recipe is None:
                self._stored[number] = origins.arrays[number]
            else:
                self._found[number] = recipe
                origins.referred.clear()
                RecipeWriter(io.BytesIO(), origins, self._shared).dump(recipe)  # may add arrays
                self._uses[number] = set(origins.referred)
                before |= origins.referred
            number += 1
        origins.referred |= before
        self.end = number

    def pickle(self, held: set[int]) -> bytes:
        """Pickle the stored arrays, and then recipes, each after what it needs, with the arrays that nothing needs after it.

        Those that are `held` are not among them.
        """
        needs = {number: {other for other in used if other in self._uses} for number, used in self._uses.items()}
        order = list(_in_order(needs))
        last: dict[int, int] = {}
        for number in order:
            last.update(dict.fromkeys(self._uses[number] - held, number))
        file = io.BytesIO()
        writer = RecipeWriter(file, self._origins)
        writer.dump((len(order), *pack_arrays(self._stored), list(self._shared.values())))
        writer.fast = True  # from here on the memo, which would keep arrays alive in the reader, does not grow
        for number in order:
            over = [other for other in sorted(self._uses[number]) if last.get(other) == number]
            writer.dump((number, *self._found[number], over))
        return file.getvalue()


def _in_order(needs: Mapping[int, set[int]]) -> Iterator[int]:
    """Yield all numbers, each after those that it needs. Raises PicklingError for a cycle."""
    done, waiting = set[int](), list(needs)[::-1]
    while waiting:
        number = waiting[-1]
        missing = needs[number] - done
        if number in done or not missing:
            waiting.pop()
            if number not in done:
                done.add(number)
                yield number
        elif len(waiting) > 2 * len(needs) ** 2:
            raise pickle.PicklingError("arrays need each other")
        else:
            waiting.extend(missing)


def read(sections: Sections, objects: Mapping[str, Any], loader: Loader, replay: Replay) -> tuple[tuple[Any, Later], int]:
    """Return a program without its later part, what reads that, and the nanoseconds that creating arrays took.

    Raises whatever malformed bytes lead to.
    """
    later = Later()
    with _without_collector(), replaying(replay):
        kept, lasting, again = Reader(sections.uses.open(), {}).load()
        arrays, names = Arrays(loader, lasting, again), {**objects, NEW_PARTIAL: later.partial.new}
        _read_arrays(sections.arrays.open(), names, arrays)
        file = sections.program.open()
        reader = Reader(file, names, arrays, later.partial.objects)
        made = reader.load()
        later.partial.know_values(reader.load())
        names.update((f"{READ_AGAIN}{k}", again) for k, again in arrays.finish(kept).items())
    sections.program.leave_rest(file)
    left = bytes(sections.later_arrays), bytes(sections.tables)  # copies, so that the rest of the entry is freed
    later.read_by(partial(_read_later, *left, reader, names, arrays, later.partial, replay))
    return (made, later), arrays.nanoseconds


def _read_arrays(file: io.BytesIO, names: Mapping[str, Any], arrays: Arrays) -> None:
    """Create arrays, and put them into `arrays`."""
    reader = Reader(file, names, arrays)
    count, rows, elements, _ = reader.load()  # the last part is in the memo from now on
    arrays.unpack(rows, elements)
    for _ in range(count):
        number, function, arguments, over = reader.load()
        arrays.make(number, function, arguments)
        del function, arguments
        arrays.forget(over)


def _read_later(
    later_arrays: bytes,
    tables: bytes,
    reader: Reader,
    names: Mapping[str, Any],
    arrays: Arrays,
    waiting: Partial,
    replay: Replay,
) -> None:
    """Set all missing fields."""
    with _without_collector(), replaying(replay):
        _read_arrays(io.BytesIO(later_arrays), names, arrays)
        rows = Reader(tables, names, arrays, waiting.objects).load()
        if not isinstance(rows, Tables):
            raise pickle.UnpicklingError("it has no tables")
        restore(rows, waiting.objects)
        for made, fields in reader.load():
            set_fields(made, fields)
        constants: dict[int, Any] = {}
        while found := reader.load():
            constants.update(found)
        for number, value in enumerate(waiting.objects.all(VALUE, len(rows.values))):
            value.constant = constants.get(number)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Create many objects, none of which is garbage, without the collector, which would look at each several times."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
