"""Partitions become callables: the providers' `compile`, who takes over where it fails, and a session's hooks."""
