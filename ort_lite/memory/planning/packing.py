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
from ort_lite.native.marks import Ptr

# What `order_by` sorts by.
BY_START, BY_SIZE, BY_AREA = 0, 1, 2

# The longest list of neighbours that `find_near` notes. At 64, sorting a list is still cheaper than walking 1,000 blocks.
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

    `align` (powers of two) may be null: then sizes alone decide. `near` comes from `find_near`, or is null. A block
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
    """What to subtract lifetime words from: both guards survive where start < other's end and other's start < end."""
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


def near_words(n: int) -> int:
    """int64 words that the table of `find_near` takes at most for n blocks."""
    return (2 + NEAR) * n


def find_near(n: int, start: int, end: int, by_start: int, near: int, scratch: int) -> int:
    """Notes who lives together with each block that has at most NEAR such neighbours; returns the words written.

    near[2t] and near[2t + 1] are the positions in `near` of the first neighbour of block t and behind its last; both
    are 0 for a block with more neighbours. `by_start` is the order BY_START, `scratch` n words. O(n * live blocks).
    """
    starts, ends, orders = pointer_i64(start), pointer_i64(end), pointer_i64(by_start)
    table, alive = pointer_i64(near), pointer_i64(scratch)
    used, count = 2 * n, 0
    for q in range(n):
        t = orders[q]
        still = 0
        for k in range(count):
            if ends[alive[k]] > starts[t]:
                alive[still] = alive[k]
                still += 1
        count = still
        found, r = count, q + 1
        while found <= NEAR and r < n and starts[orders[r]] < ends[t]:
            found += 1
            r += 1
        table[2 * t], table[2 * t + 1] = 0, 0
        if found <= NEAR:
            for k in range(count):
                table[used + k] = alive[k]
            for k in range(found - count):
                table[used + count + k] = orders[q + 1 + k]
            table[2 * t], table[2 * t + 1] = used, used + found
            used += found
        alive[count] = t
        count += 1
    return used


def order_words(n: int) -> int:
    """int64 words of scratch that `order_by` needs for n blocks."""
    return 2 * n + 256


def order_by(rule: int, n: int, size: int, start: int, end: int, order: int, scratch: int) -> int:
    """Writes the order of n blocks by `rule`: BY_START ascending, BY_SIZE and BY_AREA (size times lifetime) descending.

    Equal ones stay in the order of their numbers. Returns 0. O(n): a radix sort, one pass for each byte that varies.
    """
    sizes, starts, ends = pointer_i64(size), pointer_i64(start), pointer_i64(end)
    keys, counts = pointer_i64(scratch), pointer_i64(scratch + 16 * n)
    varying = 0
    for i in range(n):
        keys[i] = order_key(rule, sizes[i], starts[i], ends[i])
        varying |= keys[i] ^ keys[0]
    source, target = scratch + 8 * n, order
    for i in range(n):
        pointer_i64(target)[i] = i
    for digit in range(8):
        if (varying >> (8 * digit)) & 255 != 0:
            source, target = target, source
            radix_pass(8 * digit, n, keys, counts, pointer_i64(source), pointer_i64(target))
    if target != order:
        for i in range(n):
            pointer_i64(order)[i] = pointer_i64(target)[i]
    return 0


def order_key(rule: int, size: int, start: int, end: int) -> int:
    """What `order_by` sorts by, ascending, from 0 to LIMIT. Negative sizes count as 0."""
    if rule == BY_START:
        return start
    weight = max(0, size)
    if rule == BY_AREA:
        # Saturates: 31 bits are left for the lifetime.
        weight = min(1 << 31, weight)
        weight = weight * (end - start)
    return LIMIT - weight


def radix_pass(shift: int, n: int, keys: Ptr, counts: Ptr, source: Ptr, target: Ptr) -> None:
    """One stable counting pass from `source` to `target` by the byte of `keys` at `shift`."""
    for digit in range(256):
        counts[digit] = 0
    for i in range(n):
        counts[(keys[i] >> shift) & 255] += 1
    position = 0
    for digit in range(256):
        position, counts[digit] = position + counts[digit], position
    for i in range(n):
        t = source[i]
        digit = (keys[t] >> shift) & 255
        target[counts[digit]] = t
        counts[digit] += 1


def lower_bound(n: int, size: int, start: int, end: int, times: int, scratch: int) -> int:
    """The most bytes that are alive at once: no plan's peak is lower. Times are below `times`, ends up to it.

    `scratch`: times + 1 words. The sum of all sizes is below 2^63, none is negative. O(n + times).
    """
    sizes, starts, ends, change = pointer_i64(size), pointer_i64(start), pointer_i64(end), pointer_i64(scratch)
    for i in range(times + 1):
        change[i] = 0
    for i in range(n):
        change[starts[i]] += sizes[i]
        change[ends[i]] -= sizes[i]
    live, most = 0, 0
    for i in range(times + 1):
        live += change[i]
        most = max(most, live)
    return most
