"""Native packing kernels: offsets for blocks of memory that live for a while. Lifetimes are half-open here: [start, end).

Functions over int64 scalars and addresses of int64 arrays, which native code calls as helpers and `ort_lite.native`
compiles alone. They allocate nothing: scratch is passed in, and its size is stated. A null address (0) is allowed
where a docstring says so. Times are from 0 to TIMES, sizes and offsets up to LIMIT.

First fit puts each block, in a given order, at the lowest offset where it overlaps nothing that is placed and lives at
the same time. Its cost is meeting the placed neighbours by rising offset, which is done in one of two ways:

- A block with at most NEAR neighbours in time (nearly all of an inference graph) takes them from a table that depends
  on lifetimes alone: built once, it serves every shape. They are sorted by insertion: O(NEAR^2) a block.
- Any other block walks all placed blocks, kept sorted by offset, without a branch but the loop's: O(n) a block. Blocks
  enter that list when somebody is about to walk it, so that graphs without such blocks never pay for it.
"""

from ort_lite.native.lang import pointer_i64

# The longest list of neighbours that a table notes. At 64, sorting a list is still cheaper than walking 1,000 blocks.
NEAR = 64

# Sums of two never overflow.
LIMIT = 1 << 62

# A lifetime is packed into one word, two fields of 30 bits and a guard bit above each, see `lifetime_word`.
TIMES = (1 << 30) - 1
GUARDS = (1 << 61) | (1 << 30)


def first_fit_words(n: int) -> int:
    """int64 words of scratch that `first_fit` needs for n blocks."""
    return 4 * n + 2 * NEAR


def first_fit(
    order: int,
    n: int,
    size: int,
    start: int,
    end: int,
    align: int,
    near: int,
    capacity: int,
    allowed: int,
    offset: int,
    scratch: int,
) -> int:
    """Places n blocks in `order`, writes their `offset`, returns the peak: the largest offset + size.

    `align` (powers of two) may be null: then sizes alone decide. `near` comes from `neighbours.table`, or is null. A block
    that does not fit below `capacity` (at most LIMIT), or whose size is negative, gets offset -1, and the result is
    minus the number of such blocks. With more than `allowed` of them it stops, and later offsets are not written. Blocks
    of no bytes get offset 0. Worst case O(n^2), see the module's docstring.
    """
    orders, sizes, offsets, table = pointer_i64(order), pointer_i64(size), pointer_i64(offset), pointer_i64(near)
    starts, ends, tops = pointer_i64(start), pointer_i64(end), pointer_i64(scratch)
    placed, workspace = scratch + 8 * n, scratch + 32 * n
    for i in range(n):
        tops[i] = 0
    peak, misfits, listed, count = 0, 0, 0, 0
    for q in range(n):
        t = orders[q]
        room, mask = sizes[t], 0
        if align != 0:
            mask = pointer_i64(align)[t] - 1
        if room == 0:
            at = 0
        elif near != 0 and table[2 * t] != 0:
            at = lowest_near(room, mask, near, table[2 * t], table[2 * t + 1], offset, scratch, workspace)
        else:
            while listed < q:
                u = orders[listed]
                if tops[u] > 0:
                    enlist(lifetime_word(starts[u], ends[u]), offsets[u], tops[u], count, n, placed)
                    count += 1
                listed += 1
            at = lowest_walking(room, mask, query_word(starts[t], ends[t]), count, n, placed)
        if room < 0 or room > capacity - at:
            offsets[t] = -1
            misfits += 1
            if misfits > allowed:
                break
        else:
            offsets[t] = at
            tops[t] = at + room
            peak = max(peak, at + room)
    return -misfits if misfits > 0 else peak


def lowest_near(room: int, mask: int, near: int, first: int, last: int, offset: int, top: int, workspace: int) -> int:
    """The lowest offset for `room` bytes among the neighbours near[first:last]. `workspace`: 2 * NEAR words."""
    table, offsets, tops = pointer_i64(near), pointer_i64(offset), pointer_i64(top)
    low, high = pointer_i64(workspace), pointer_i64(workspace + 8 * NEAR)
    count = 0
    for k in range(first, last):
        u = table[k]
        if tops[u] > 0:  # is placed
            j = count
            while j > 0 and low[j - 1] > offsets[u]:
                low[j] = low[j - 1]
                high[j] = high[j - 1]
                j -= 1
            low[j] = offsets[u]
            high[j] = tops[u]
            count += 1
    at = 0
    for k in range(count):
        if low[k] - at >= room:
            break
        above = (high[k] + mask) & ~mask
        at = max(at, above)
    return at


def lifetime_word(start: int, end: int) -> int:
    """A lifetime as two fields, start and TIMES - end; each field is small where the block lives early, or long."""
    return (start << 31) | (TIMES - end)


def query_word(start: int, end: int) -> int:
    """Return what to subtract lifetime words from: both guards survive where start < other's end and other's start < end."""
    return ((end - 1) << 31) | (TIMES - 1 - start) | GUARDS


def lowest_walking(room: int, mask: int, query: int, count: int, n: int, placed: int) -> int:
    """The lowest offset for `room` bytes among the listed blocks that live together with `query`."""
    low, high, lives = pointer_i64(placed), pointer_i64(placed + 8 * n), pointer_i64(placed + 16 * n)
    at = 0
    for k in range(count):
        # All bits if both guards survive, none otherwise. By shifts: the compiler makes a branch of a comparison, and
        # nothing predicts who lives together with whom.
        guards = query - lives[k]
        together = ((guards & (guards << 31)) << 2) >> 63
        if (low[k] & together) - at >= room:
            break
        above = (high[k] + mask) & ~mask & together
        at = max(at, above)
    return at


def enlist(life: int, offset: int, top: int, count: int, n: int, placed: int) -> None:
    """Inserts a block into the list, which is sorted by offset: three columns, so that walking reads no indices."""
    low, high, lives = pointer_i64(placed), pointer_i64(placed + 8 * n), pointer_i64(placed + 16 * n)
    first, last = 0, count
    while first < last:
        middle = (first + last) >> 1
        if low[middle] > offset:
            last = middle
        else:
            first = middle + 1
    for k in range(count - first):
        low[count - k] = low[count - k - 1]
    for k in range(count - first):
        high[count - k] = high[count - k - 1]
    for k in range(count - first):
        lives[count - k] = lives[count - k - 1]
    low[first], high[first], lives[first] = offset, top, life
