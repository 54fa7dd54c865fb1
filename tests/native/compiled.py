"""What the compiler makes of a spec for whatever CPU, kept beside the kernels that run here under the same keys.

Thousands of lines of assembly are read in a millisecond; compiling them takes half a second. A key covers the code of the
kernel, its statics, the target and the compiler (`ort_lite.native.spec`): what has been patched meanwhile is none of it.
"""

import os
import zlib
from functools import cache

from ort_lite.native import Spec
from ort_lite.native import cache as store
from ort_lite.native.cpu import Target
from ort_lite.native.spec import key_of, symbol_of


@cache
def assembly(spec: Spec, target: Target) -> str:
    """Raises KernelCompileError."""
    folder, key = os.path.join(store.directory(), "assembly"), key_of(spec, target)
    kept = store.read(folder, key)
    if kept is not None:
        return zlib.decompress(kept).decode()
    text = compiled_assembly(spec, target)
    store.write(folder, key, zlib.compress(text.encode(), 1))
    return text


def compiled_assembly(spec: Spec, target: Target) -> str:
    """Made now, for code that is patched: asking for its key would remember the patch in keys to come."""
    from ort_lite.native.compiler import write  # a second and numba, which a warm run does without

    with write(spec, target, "symbol").module() as module:
        return module.emit_assembly()


def object_code(spec: Spec, target: Target) -> bytes:
    """As the loader keeps it. Raises KernelCompileError."""
    folder, key = store.directory(), key_of(spec, target)
    kept = store.read(folder, key)
    if kept is not None:
        return kept
    from ort_lite.native.compiler import compile_object

    made = compile_object(spec, target, symbol_of(key))
    store.write(folder, key, made)
    return made
