"""Execution of compiled graphs: feed checks, partitions called in order, result checks and profiles."""
