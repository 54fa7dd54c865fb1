"""Run each operator on large shapes with two threads, cancel the runs, and print how late they end.

    python -m tests.cancellation [OPERATOR...] [--write]

An OPERATOR is a type as in a model, com.microsoft.Gelu for other domains, or the name of a line as Gather:strings. Cases of the
conformance tests grow until a run takes a second or its inputs are 600 MB; workloads.py has worse ones. Each registration has a
process of its own, of at most 6 GB. All of them take an hour. A busy machine adds its own delays.

Exit status 1 if a run ends more than 250 ms late and lateness.KNOWN does not allow it, or if a registration cannot be measured.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.cancellation import lateness_table as table
from tests.cancellation.lateness import rows_in_child
from tests.cancellation.registrations import Registration, registrations


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.cancellation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="only these (default: all)")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="how long a run should take (default: 1)")
    parser.add_argument(
        "--cases", type=int, default=2, metavar="N", help="let cases grow until an operator has N lines (default: 2)"
    )
    parser.add_argument("--write", action="store_true", help=f"replace the lines of these operators in {table.FILE.name}")
    given = parser.parse_args(arguments)
    chosen = _chosen(given.operators)
    failed = 0
    for one in chosen:
        rows = rows_in_child(one, given.seconds, given.cases)
        for row in rows:
            failed += row.is_late or bool(row.problem)
            sys.stdout.write(f"{'LATE ' if row.is_late else '     '}{table.line(one, row)}\n")
            sys.stdout.flush()
        if given.write:
            table.write(one, rows)
    return 1 if failed else 0


def _chosen(names: Sequence[str]) -> list[Registration]:
    """Return the registrations that the names stand for. Raises SystemExit for a name of none."""
    every = registrations()
    unknown = [name for name in names if not any(name in _names(one) for one in every)]
    if unknown:
        raise SystemExit(f"no operator has the name {', '.join(unknown)}")
    return [one for one in every if not names or any(name in names for name in _names(one))]


def _names(one: Registration) -> tuple[str, str]:
    return str(one), str(one).partition(":")[0]


if __name__ == "__main__":
    sys.exit(main())
