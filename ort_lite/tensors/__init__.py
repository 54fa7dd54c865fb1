"""Tensors outside of a model: NDArray over a counted container, parameter files, DLPack, OrtValue, IOBinding: docs/memory.md."""
