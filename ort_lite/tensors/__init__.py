"""Tensors outside of a model: NDArray over a reference-counted container, DLPack, device tensors. See docs/memory.md."""
