"""The parts of `ort-lite bench`: blocks of runs, rivals, comparisons, and a profile with the machine's peaks."""
