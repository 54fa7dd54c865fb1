"""Models that people deploy today, with random weights: built from the libraries' own code, and compared with other runtimes."""
