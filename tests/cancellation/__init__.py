"""How late cancelled runs end: each registered operator on its worst shapes, with two threads.

python -m tests.cancellation [OPERATOR...]        run, cancel and print; --write updates lateness.txt
"""
