"""A run: feeds checked, partitions called in order, results guarded, profiled."""
