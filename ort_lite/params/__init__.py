"""Parameter files, and what reads and writes them."""
