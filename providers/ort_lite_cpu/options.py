"""Settings of the CPU provider that lowering and running depend on."""

from ort_lite.record import Record


class Options(Record):
    """threads: of one run, the caller's included. fusion: elementwise expressions become one loop.

    winograd: 3x3 convolutions may use F(4x4, 3x3), whose error is about 1e-5 of the largest magnitude.
    """

    threads: int = 1
    fusion: bool = True
    winograd: bool = True
