"""Parameter files: readers, writers, and a single buffer for all tensors of a model."""
