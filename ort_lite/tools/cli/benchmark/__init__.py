"""What `ort-lite bench` is made of: blocks of runs, rivals, comparisons, and a profile beside what the machine can do."""
