"""The numbers of threads that sessions share which have none of their own.

They are the process's, as the team of threads is that computes: set here alone, with a lock.
"""

from operator import index

from ort_lite.errors import Fail, InvalidArgument
from ort_lite.memory import locks
from ort_lite.options.options import SessionOptions


class _Sizes:
    """(intra, inter), None before anybody said them; `used` once a session was made with them."""

    def __init__(self) -> None:
        self.lock = locks.lock()
        self.sizes: tuple[int, int] | None = None
        self.used = False


_SIZES = _Sizes()


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Threads of the sessions with `use_per_session_threads=False`, which share them; 0: as many as there are cores.

    Raises InvalidArgument for negative numbers, and Fail once a session was made with other ones.
    """
    wanted = index(intra_op_num_threads), index(inter_op_num_threads)
    if min(wanted) < 0:
        raise InvalidArgument(f"set_global_thread_pool_sizes: got {wanted}, expected two numbers from 0 on")
    with _SIZES.lock:
        if _SIZES.used and wanted != _SIZES.sizes:
            raise Fail(
                f"a session uses the global threads, {_SIZES.sizes} of them, already: "
                f"call set_global_thread_pool_sizes before the first session with use_per_session_threads=False"
            )
        _SIZES.sizes = wanted


def share_threads(options: SessionOptions) -> None:
    """Puts the shared numbers into the options of a session that has no threads of its own; where nobody set them its own hold."""
    if options.use_per_session_threads:
        return
    with _SIZES.lock:
        if _SIZES.sizes is not None:
            _SIZES.used = True
            options.intra_op_num_threads, options.inter_op_num_threads = _SIZES.sizes
