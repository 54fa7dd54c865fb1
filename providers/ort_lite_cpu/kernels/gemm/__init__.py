"""The matrix product and what is built on it: one register tile, packing, blocked drivers, Winograd."""
