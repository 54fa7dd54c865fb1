"""The parts of `ort-lite bench`: interleaved runs, rivals, comparisons, and profiles with the machine's peaks."""
