"""Tensors outside of a model: NDArray over a counted container, parameter files, DLPack, what a device holds: docs/memory.md."""
