"""`ort-lite audit MODEL.onnx`: show what a model reads and what it can cost, before anything of it runs."""

from argparse import Namespace

from ort_lite.tools.audit import Audit, audit
from ort_lite.tools.cli.exit_status import ExitStatus
from ort_lite.tools.cli.feed_arguments import dims_of
from ort_lite.tools.cli.printing import print_json, print_table, print_text


def main(arguments: Namespace) -> ExitStatus:
    """Run `ort-lite audit`. Returns FINDINGS if a file is refused, a loop has no bound, or the model cannot be analyzed."""
    found = audit(arguments.model, dims_of(arguments), arguments.timeout)
    if arguments.json:
        print_json("audit", found.as_dict())
    else:
        _show(found)
    return ExitStatus.FINDINGS if found.findings else ExitStatus.DONE


def _show(found: Audit) -> None:
    domains = ", ".join(f"{domain} {version}" for domain, version in found.domains.items())
    print_text(f"{found.path}: {found.nbytes:,} bytes, opsets {domains or 'none'}, {found.functions} functions")
    print_text(f"operators: {', '.join(f'{name} {count}' for name, count in found.operators.items()) or 'none'}")
    print_text(f"\nfiles that it reads besides itself: {len(found.files) or 'none'}")
    if found.files:
        rows = [(f.location, f"{f.nbytes:,}", str(f.readers), f.refused or f.path) for f in found.files]
        print_table(("location", "bytes", "readers", "file, or why it is refused"), rows, ("bytes", "readers"))
    print_text(f"\nregular expressions: {len(found.patterns) or 'none'}")
    if found.patterns:
        print_table(("node", "operator", "pattern"), [(p.node, p.operator, p.pattern) for p in found.patterns])
    print_text(f"\nloops: {len(found.loops) or 'none'}")
    if found.loops:
        loops = [
            (p.node, p.operator, str(p.depth), "none" if p.bound is None else f"{p.bound:,}", p.reason) for p in found.loops
        ]
        print_table(("node", "operator", "depth", "bound", "reason"), loops, ("depth", "bound"))
    _show_memory(found)
    for line in found.findings:
        print_text(f"finding: {line}")


def _show_memory(found: Audit) -> None:
    if found.memory is None:
        return
    need = found.memory
    sizes = ", ".join(f"{name} = {size}" for name, size in found.dims.items())
    worst = f" (at {need.worst_node})" if need.worst_node else ""
    print_text(
        f"\nmemory of a run{f' with {sizes}' if sizes else ''}: about {need.total:,} bytes: weights {need.weights:,}, inputs "
        f"{need.inputs:,}, results {need.results:,}{worst}"
    )
    if need.unknown:
        print_text(f"the sizes of {need.unknown} values are known only in a run, and are not counted")
