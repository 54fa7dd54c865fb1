"""Compiles for an emulated process, and is not emulated: `python compiler.py VERSION`, VERSION being the other's `sys.version`.

Object code is named after the Python that asks for it. Builds of one minor version have the same bytecode, which is what the
names are made of otherwise; where they should not, their keys differ, and `serve` says so.
"""

import sys

if __name__ == "__main__":
    sys.version = sys.argv[1]
    from ort_lite.native.serve import serve

    serve()
