"""Native packing kernels, which assign offsets to blocks of memory. Lifetimes are half-open here: [start, end).

The functions take int64 scalars and addresses of int64 arrays. Native code calls them as helpers, and `ort_lite.native` can compile
them alone. They allocate nothing: the caller passes scratch of a stated size. A null address (0) is allowed where a docstring says
so. Times are from 0 to TIMES, sizes and offsets up to LIMIT.

First fit visits blocks in a given order and puts each at the lowest offset at which it overlaps no placed block that is in use at
the same time. Its main cost is visiting those blocks by rising offset, in one of two ways:

- A block with at most NEAR neighbours in time (nearly all in an inference graph) gets them from a table that depends only on
  lifetimes and is computed once for all shapes. It sorts them by insertion: O(NEAR^2) per block.
- Any other block walks all placed blocks, sorted by offset, without branches except the loop's: O(n) per block. Blocks enter that
  list just before it is walked, so graphs without such blocks never pay for it.
"""

from ort_lite.native.lang import pointer_i64

# The longest list of neighbours in a table. At 64, sorting a list is still cheaper than walking 1,000 blocks.
NEAR = 64

# Sums of two never overflow.
LIMIT = 1 << 62

# A lifetime is packed into one word, two fields of 30 bits and a guard bit above each, see `lifetime_word`.
TIMES = (1 << 30) - 1
GUARDS = (1 << 61) | (1 << 30)


def first_fit_words(n: int) -> int:
    """Return how many int64 words of scratch `first_fit` needs for n blocks."""
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
    """Place n blocks in `order`, write their `offset`, and return the peak: the largest offset + size.

    `align` (powers of two) may be null; then sizes alone decide. `near` comes from `neighbours.table` or is null. A block that does
    not fit below `capacity` (at most LIMIT), or has a negative size, gets offset -1; the result is then minus the number of such
    blocks. With more than `allowed` of them it stops, and later offsets are not written. Empty blocks get offset 0. Worst case
    O(n^2), see the module's docstring.
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
    """Return the lowest offset for `room` bytes among the neighbours near[first:last]. `workspace` has 2 * NEAR words."""
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
    """Pack a lifetime into one word, as the fields start and TIMES - end.

    A block that is in use early has a small first field; one that is in use until late has a small second field.
    """
    return (start << 31) | (TIMES - end)


def query_word(start: int, end: int) -> int:
    """Return a word to subtract lifetime words from: both guard bits survive if the two lifetimes overlap."""
    return ((end - 1) << 31) | (TIMES - 1 - start) | GUARDS


def lowest_walking(room: int, mask: int, query: int, count: int, n: int, placed: int) -> int:
    """Return the lowest offset for `room` bytes among the listed blocks whose lifetimes overlap `query`."""
    low, high, lives = pointer_i64(placed), pointer_i64(placed + 8 * n), pointer_i64(placed + 16 * n)
    at = 0
    for k in range(count):
        # All bits if both guards survive, none otherwise. Uses shifts, because the compiler turns a comparison into a
        # branch, which would be unpredictable.
        guards = query - lives[k]
        together = ((guards & (guards << 31)) << 2) >> 63
        if (low[k] & together) - at >= room:
            break
        above = (high[k] + mask) & ~mask & together
        at = max(at, above)
    return at


def enlist(life: int, offset: int, top: int, count: int, n: int, placed: int) -> None:
    """Insert a block into the list, sorted by offset, of three columns: walking then needs no indices."""
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
