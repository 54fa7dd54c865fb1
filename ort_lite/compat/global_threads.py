"""The thread counts shared by sessions without threads of their own.

They are process-wide, like the thread team that computes; they are set only here, under a lock.
"""

from operator import index

from ort_lite.errors import Fail, InvalidArgument
from ort_lite.memory import locks
from ort_lite.options.options import SessionOptions


class _ThreadCounts:
    """The counts (intra, inter), None until they are set; `used` becomes True with the first session that uses them."""

    def __init__(self) -> None:
        self.lock = locks.lock()
        self.sizes: tuple[int, int] | None = None
        self.used = False


_SIZES = _ThreadCounts()


def set_global_thread_pool_sizes(intra_op_num_threads: int, inter_op_num_threads: int) -> None:
    """Set the threads of sessions with `use_per_session_threads=False`; 0 means one per core.

    Raises InvalidArgument for negative numbers, and Fail if a session already uses other counts.
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
    """Store the shared counts in the options of a session without threads of its own. Without shared counts nothing changes.

    Raises Fail for a session with threads of its own once there are shared ones, as in onnxruntime.
    """
    with _SIZES.lock:
        if _SIZES.sizes is None:
            return
        if options.use_per_session_threads:
            raise Fail(
                "use_per_session_threads is True, but set_global_thread_pool_sizes has set the threads of all sessions: set "
                "SessionOptions.use_per_session_threads to False"
            )
        _SIZES.used = True
        options.intra_op_num_threads, options.inter_op_num_threads = _SIZES.sizes
