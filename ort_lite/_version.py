"""The version, in a file of its own so that the build reads it without importing anything."""

__version__ = "0.1.0"
