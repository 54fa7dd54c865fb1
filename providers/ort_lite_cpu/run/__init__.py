"""Execution: the program loop, the team of threads, and what runs share and lease."""
