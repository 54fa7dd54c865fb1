"""The native half of the thread team: how parts of an instruction are published, taken and waited for.

The leader publishes one word, `sequence << 48 | mask of parts not yet taken`, and everybody takes parts by
compare-and-swap, first those of its own range, whose data are in its cache, then those of others. The leader waits only for
parts that somebody holds, so a worker that is late, asleep or descheduled delays nobody for longer than a part.
"""

from ort_lite.native.lang import idiv, imax, imin, load64, store64
from ort_lite_cpu.run.atomics import call, fetch_add, fetch_and, fetch_or, get, lowest_bit, pause, put, swap
from ort_lite_cpu.run.float_mode import float_mode, set_float_mode
from ort_lite_cpu.run.interrupt import begin, enter

MAX_PARTS = 48  # of one instruction: bits of the ticket's mask; also the largest team, its leader included

# The control block: byte offsets of its words. What is written by different threads has lines of its own.
# First line: the run that has the workers. Written by its leader, before the ticket that makes it visible.
TICKET, ROW, MEMORY, EACH, THREADS, FLOATS, FIRST, HALT = range(0, 64, 8)
PENDING = 64  # parts of the published instruction that are not finished
SLEEPING = 128  # bit k: worker k is asleep or about to be
TAKEN = 192  # 1 while a run has the workers
FAILED, STATUSES = 256, 264  # bit k: part k failed, with this status
QUIT, STARTED, PATIENCE = 704, 712, 720  # 1: workers leave; threads that exist, leader included; ns before sleep
SYSCALL, FUTEX, GETTID = 768, 776, 784  # address of syscall(), its numbers; FUTEX 0: sleep on the condition
YIELD, CLOCK, CLOCK_ID = 792, 800, 808  # address of sched_yield(), of clock_gettime(), its first argument
GETCPU, GETAFFINITY, SETAFFINITY = 816, 824, 832  # addresses; GETCPU 0: leave affinities alone
LOCK, WAIT, BROADCAST, UNLOCK = 840, 848, 856, 864  # addresses of pthread_mutex_lock(), ...
SETATTR = 872  # number of sched_setattr(); 0: workers are scheduled as others are
CPUS, CPUS_NBYTES = 896, 128  # scratch of the leader: a set of 1,024 CPUs
MUTEX, CONDITION = 1024, 1152
ATTRIBUTES = 1216  # a struct sched_attr, 48 bytes
# One slot a worker: address of the control block, its number, thread id, the core it avoids; a struct timespec; when it last
# offered its core, how many more offers it takes the core for crowded, and the address of its frame (`interrupt`). The leader has
# slot 0: its OFFERED is when a brief run last found workers asleep.
SLOTS, SLOT_NBYTES = 1280, 128
CONTROL, NUMBER, THREAD_ID, AVOIDS, TIME, OFFERED, CROWDED, FRAME = 0, 8, 16, 24, 32, 48, 56, 64
CONTROL_NBYTES = SLOTS + SLOT_NBYTES * MAX_PARTS

_SEQUENCE = 1 << MAX_PARTS
_MASK = _SEQUENCE - 1
_INT = 0xFFFFFFFF
_WAIT_BITSET, _WAKE_BITSET = 9 | 128, 10 | 128  # of futex(), private to the process
_LONG = 20  # patiences that a worker waits at most for the end of an instruction; waking is a tenth of that
_PAUSES = 64  # before a waiting thread gives way to others
_OFFER_NS = 300_000  # a worker offers its core between two parts this often; longer than a slice, which an offer may cost it
_SWITCH_NS = 250_000  # an offer that takes longer was accepted by another thread
_MEMORY = 8  # offers that nobody accepts before a core is not crowded any more


# --- Native: parts of the published instruction
def _run(control: int, row: int, part: int, frame: int) -> None:
    number, memory, halt = load64(control + FIRST) + part, load64(control + MEMORY), load64(control + HALT)
    if halt == 0:
        frame = 0
    elif frame != 0:
        begin(frame, halt)
    status = enter(frame, load64(row), load64(row + 8), memory, number, load64(row + 16))
    if status != 0:
        store64(control + STATUSES + 8 * part, status)
        fetch_or(control + FAILED, 1 << part)


def _take(control: int, member: int, slot: int, frame: int) -> None:
    """Runs parts until none is left to take, or another run begins that did not ask for this many threads.

    The leader is member 0 and has no slot.
    """
    while True:
        ticket = get(control + TICKET)
        mask = ticket & _MASK
        if mask == 0 or member >= load64(control + THREADS):
            return
        each = load64(control + EACH)
        own = (1 << each) - 1 << (each * member & 63)  # only a preference: EACH may be another ticket's
        part = lowest_bit(mask & own or mask)
        if swap(control + TICKET, ticket, ticket ^ (1 << part)):
            # What we read is this ticket's: the leader cannot pass the instruction while our part is pending.
            if load64(control + FLOATS) != float_mode():
                set_float_mode(load64(control + FLOATS))
            _run(control, load64(control + ROW), part, frame)
            fetch_add(control + PENDING, -1)
            if member != 0:
                _offer(control, slot)


# --- Native: the leader
def are_near(control: int, threads: int) -> int:
    """Return 1 if the workers of a run are awake, or if the last call found them asleep a short time ago: then such runs follow
    one another, and workers that are woken now are awake in the next ones.
    """
    if get(control + SLEEPING) & (1 << threads) - 2 == 0:
        return 1
    leader = control + SLOTS
    before, now = load64(leader + OFFERED), _now(control, leader)
    store64(leader + OFFERED, now)
    return 1 if now - before < 2 * load64(control + PATIENCE) else 0  # a run itself may take a patience


def hire(control: int, threads: int, memory: int, halt: int) -> int:
    """Takes the workers for a run of at most `threads` threads, which leave their kernels when `halt`, if not 0, is set. Returns
    `control`, or 0 if the run is to go alone.
    """
    if control == 0 or threads < 2:
        return 0
    threads = imin(threads, load64(control + STARTED))
    if threads < 2 or not swap(control + TAKEN, 0, 1):
        return 0
    store64(control + MEMORY, memory)
    store64(control + HALT, halt)
    store64(control + THREADS, threads)
    store64(control + FLOATS, float_mode())
    if load64(control + GETCPU) != 0:
        _keep_off(control, threads, call(load64(control + GETCPU)) & _INT)
    return control


def release(control: int) -> None:
    """Ends what `hire` began. Nobody holds a part."""
    put(control + TAKEN, 0)


def share(control: int, row: int, parts: int, first: int, frame: int) -> int:
    """Runs a round of the instruction at `row`, 2 to MAX_PARTS parts, whose numbers begin with `first`. Returns the status of
    the lowest part that failed, or 0.
    """
    store64(control + ROW, row)
    store64(control + FIRST, first)
    store64(control + EACH, imax(idiv(parts, load64(control + THREADS)), 1))
    store64(control + PENDING, parts)
    _publish(control, (1 << parts) - 2)
    _run(control, row, 0, frame)
    fetch_add(control + PENDING, -1)
    _take(control, 0, 0, frame)
    pauses = 0
    while get(control + PENDING) != 0:
        pause()
        pauses += 1
        if pauses > 4 * _PAUSES:
            call(load64(control + YIELD))
    failed = get(control + FAILED)
    if failed == 0:
        return 0
    put(control + FAILED, 0)
    return load64(control + STATUSES + 8 * lowest_bit(failed))


def _publish(control: int, mask: int) -> None:
    members = (1 << load64(control + THREADS)) - 2
    sleeping = get(control + SLEEPING) & members
    if sleeping != 0:
        # Cleared here, so that the next instruction does not wake them again while they are on their way; and before
        # the ticket, since the bit of a worker that saw this ticket and sleeps again must stay.
        sleeping = fetch_and(control + SLEEPING, ~members) & members
    while True:
        ticket = get(control + TICKET)
        sequence = (ticket >> MAX_PARTS) + 1 & 0x7FFF  # stays positive
        if swap(control + TICKET, ticket, sequence << MAX_PARTS | mask):
            break  # dismiss() can be faster, once
    sleeping |= get(control + SLEEPING) & members  # who fell asleep in between, with the old ticket
    if sleeping != 0:
        _wake(control, (sleeping | sleeping >> 32) & _INT)


def _wake(control: int, members: int) -> None:
    if load64(control + FUTEX) != 0:
        word = control + TICKET + 4
        call(load64(control + SYSCALL), load64(control + FUTEX), word, _WAKE_BITSET, 0x7FFFFFFF, 0, 0, members)
    else:
        call(load64(control + LOCK), control + MUTEX)
        call(load64(control + BROADCAST), control + CONDITION)
        call(load64(control + UNLOCK), control + MUTEX)


def _keep_off(control: int, threads: int, cpu: int) -> None:
    """Takes the leader's core out of the affinity of its workers, if they may run elsewhere."""
    elsewhere = -1
    for number in range(1, threads):
        slot = control + SLOTS + SLOT_NBYTES * number
        thread = get(slot + THREAD_ID)
        if load64(slot + AVOIDS) == cpu or thread == 0:
            continue
        if elsewhere < 0:
            elsewhere = _others(control, cpu)
        store64(slot + AVOIDS, cpu)
        if elsewhere:
            call(load64(control + SETAFFINITY), thread, CPUS_NBYTES, control + CPUS)


def _others(control: int, cpu: int) -> int:
    """Writes the leader's affinity without `cpu` to CPUS. 0 if that leaves nothing, or cannot be known, else 1."""
    unknown = call(load64(control + GETAFFINITY), 0, CPUS_NBYTES, control + CPUS) & _INT
    if unknown != 0 or cpu >= 8 * CPUS_NBYTES:
        return 0
    home = control + CPUS + (cpu >> 6) * 8
    store64(home, load64(home) & ~(1 << (cpu & 63)))
    for word in range(CPUS_NBYTES >> 3):
        if load64(control + CPUS + 8 * word) != 0:
            return 1
    return 0


def dismiss(control: int) -> int:
    """Asks all workers to leave, also during a run: its leader goes on alone."""
    put(control + STARTED, 1)
    put(control + QUIT, 1)
    fetch_add(control + TICKET, _SEQUENCE)  # what is left to take stays so
    _wake(control, _INT)
    return 0


# --- Native: a worker
def serve(slot: int) -> int:
    """Serve as a worker, from pthread_create to dismiss()."""
    control = load64(slot + CONTROL)
    number, frame = load64(slot + NUMBER), load64(slot + FRAME)
    if load64(control + FUTEX) != 0:
        put(slot + THREAD_ID, call(load64(control + SYSCALL), load64(control + GETTID)))
    if load64(control + SETATTR) != 0:
        call(load64(control + SYSCALL), load64(control + SETATTR), 0, control + ATTRIBUTES, 0)  # or it stays as it was
    pauses = 0
    since = worked = _now(control, slot)
    while True:
        ticket = get(control + TICKET)
        if get(control + QUIT) != 0:
            return 0
        if ticket & _MASK != 0 and number < load64(control + THREADS):
            _take(control, number, slot, frame)
            pauses = 0
            since = worked = _now(control, slot)
            continue
        pause()
        pauses += 1
        if pauses < _PAUSES:
            continue
        now, patience = _now(control, slot), load64(control + PATIENCE)
        if number < load64(control + THREADS) and get(control + PENDING) != 0 and now - worked < _LONG * patience:
            since = now  # others compute parts of an instruction: the next one is near
        if load64(slot + CROWDED) == 0 and now - since < patience:
            _yield(control, slot)
        else:
            fetch_or(control + SLEEPING, 1 << number)
            _sleep(control, number, ticket)
            fetch_and(control + SLEEPING, ~(1 << number))
            pauses = 0
            since = _now(control, slot)


def _offer(control: int, slot: int) -> None:
    """Between two parts, now and then: whoever else wants this core has it now, and not in the middle of a part that the leader
    would wait for.
    """
    if _now(control, slot) - load64(slot + OFFERED) > _OFFER_NS:
        store64(slot + CROWDED, imax(load64(slot + CROWDED) - 1, 0))
        _yield(control, slot)


def _yield(control: int, slot: int) -> None:
    """Gives way to others, and notes whether there were any."""
    before = _now(control, slot)
    call(load64(control + YIELD))
    after = _now(control, slot)
    store64(slot + OFFERED, after)
    if after - before > _SWITCH_NS:
        store64(slot + CROWDED, _MEMORY)


def _sleep(control: int, number: int, ticket: int) -> None:
    """Until _wake, if the sequence is still the ticket's."""
    if load64(control + FUTEX) != 0:
        word, me = control + TICKET + 4, 1 << (number & 31)
        call(load64(control + SYSCALL), load64(control + FUTEX), word, _WAIT_BITSET, ticket >> 32, 0, 0, me)
    else:
        call(load64(control + LOCK), control + MUTEX)
        if (get(control + TICKET) ^ ticket) & ~_MASK == 0:
            call(load64(control + WAIT), control + CONDITION, control + MUTEX)
        call(load64(control + UNLOCK), control + MUTEX)


def _now(control: int, slot: int) -> int:
    """Nanoseconds, monotonic."""
    call(load64(control + CLOCK), load64(control + CLOCK_ID), slot + TIME)
    return load64(slot + TIME) * 1000000000 + load64(slot + TIME + 8)
