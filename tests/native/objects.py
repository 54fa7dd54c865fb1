"""Object files from LLVM assembly, for machines that may not be this one."""

from functools import cache

import llvmlite.binding as llvm

LINUX = "{}-unknown-linux-gnu"


@cache
def assembled(text: str, architecture: str) -> bytes:
    """As `ort_lite.native.compiler` makes it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = LINUX.format(architecture)
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=3, reloc="static", codemodel="jitdefault", jit=True)
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{text}')
    module.data_layout = str(machine.target_data)
    module.verify()
    data: bytes = machine.emit_object(module)
    return data
