"""Hostile models and feeds: mutants of the operators' cases run between inaccessible pages, in processes that may die.

`mutants` makes them, `guarded` fences the memory that native code sees, `trial` judges one, `runner` runs a range of them:
`python -m tests.fuzz FIRST COUNT`.
"""
