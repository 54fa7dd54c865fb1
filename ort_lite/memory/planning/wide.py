"""First fit for very many blocks. Placed blocks are also listed by time, so that a short-lived block visits few of them.

Time is split into 1, 8 and 64 ranges of equal length. Each range lists, by offset, the placed blocks in use during it, and a block
searches the smallest range that contains its lifetime. Inserting into the list of all blocks would cost the most, so new blocks
wait outside it and are merged together: before the list is read, or once there are BATCH of them.
"""

from ort_lite.memory.planning.packing import enlist, lifetime_word, lowest_walking, query_word
from ort_lite.native.lang import pointer_i64

WIDE = 2048
"""The number of blocks from which this is faster."""
RANGES = 1 + 8 + 64
BATCH = 64


def range_of(time: int, times: int, level: int) -> int:
    """Return the index, among all RANGES, of the range of `level` (0, 1, 2) that contains a time from 0 to `times` - 1."""
    first = 0 if level == 0 else 1 if level == 1 else 9
    count = 1 if level == 0 else 8 if level == 1 else 64
    return first + time * count // times


def count_per_range(n: int, start: int, end: int, times: int, room: int) -> int:
    """Write to room[r] how many blocks are in use during range r, for all RANGES, and return the sum."""
    starts, ends, rooms = pointer_i64(start), pointer_i64(end), pointer_i64(room)
    total = 0
    for r in range(RANGES):
        rooms[r] = 0
    for t in range(n):
        for level in range(3):
            for r in range(range_of(starts[t], times, level), range_of(ends[t] - 1, times, level) + 1):
                rooms[r] += 1
                total += 1
    return total


def first_fit_wide_words(total: int) -> int:
    """Return how many int64 words of scratch `first_fit_wide` needs if `count_per_range` returned `total`."""
    return 3 * total + 2 * RANGES + 3 * BATCH


def first_fit_wide(
    order: int,
    n: int,
    size: int,
    start: int,
    end: int,
    align: int,
    times: int,
    room: int,
    total: int,
    capacity: int,
    offset: int,
    scratch: int,
) -> int:
    """Pack like `packing.first_fit`, with the same result. `room` and `total` are those of `count_per_range`."""
    orders, sizes, offsets, rooms = pointer_i64(order), pointer_i64(size), pointer_i64(offset), pointer_i64(room)
    starts, ends = pointer_i64(start), pointer_i64(end)
    first, counts = pointer_i64(scratch), pointer_i64(scratch + 8 * RANGES)
    waiting, columns = scratch + 16 * RANGES, scratch + 16 * RANGES + 24 * BATCH
    before = 0
    for r in range(RANGES):
        first[r], counts[r] = before, 0
        before += rooms[r]
    peak, misfits, late = 0, 0, 0
    for q in range(n):
        t = orders[q]
        needed, mask, at = sizes[t], 0, 0
        if align != 0:
            mask = pointer_i64(align)[t] - 1
        if needed > 0:
            r = smallest_range(starts[t], ends[t], times)
            if r == 0 or late == BATCH:
                counts[0] = let_in(late, waiting, counts[0], total, columns)
                late = 0
            at = lowest_walking(needed, mask, query_word(starts[t], ends[t]), counts[r], total, columns + 8 * first[r])
        if needed < 0 or needed > capacity - at:
            offsets[t] = -1
            misfits += 1
            continue
        offsets[t] = at
        peak = max(peak, at + needed)
        if needed > 0:
            life = lifetime_word(starts[t], ends[t])
            enlist(life, at, at + needed, late, BATCH, waiting)
            late += 1
            for level in range(1, 3):
                for r in range(range_of(starts[t], times, level), range_of(ends[t] - 1, times, level) + 1):
                    enlist(life, at, at + needed, counts[r], total, columns + 8 * first[r])
                    counts[r] += 1
    return -misfits if misfits > 0 else peak


def smallest_range(start: int, end: int, times: int) -> int:
    """Return the index of the smallest range that contains a lifetime."""
    found = 0
    for level in range(1, 3):
        r = range_of(start, times, level)
        if r == range_of(end - 1, times, level):
            found = r
    return found


def let_in(late: int, waiting: int, count: int, total: int, columns: int) -> int:
    """Merge the waiting list into the list of all blocks, from the back, and return the new length. Both are sorted by offset."""
    low, high, lives = pointer_i64(columns), pointer_i64(columns + 8 * total), pointer_i64(columns + 16 * total)
    new_low, new_high, new_lives = (
        pointer_i64(waiting),
        pointer_i64(waiting + 8 * BATCH),
        pointer_i64(waiting + 16 * BATCH),
    )
    left, to = count - 1, count + late - 1
    for k in range(late):
        taken = late - 1 - k
        while left >= 0 and low[left] > new_low[taken]:
            low[to], high[to], lives[to] = low[left], high[left], lives[left]
            left -= 1
            to -= 1
        low[to], high[to], lives[to] = new_low[taken], new_high[taken], new_lives[taken]
        to -= 1
    return count + late
