"""Parameter files, what reads and writes them, and tensors of a model in one buffer."""
