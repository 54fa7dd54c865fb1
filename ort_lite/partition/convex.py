"""Groups of nodes on a DAG: contracting them, finding cycles, and joining groups until no two can be joined any more.

A Quotient is a DAG in which disjoint groups of nodes count as one vertex each. It knows nodes by number, 0 to n - 1, in a
topological order; a group is known by its smallest member.
"""

from collections.abc import Collection, Iterable, Sequence

from ort_lite.native.checkpoint import checkpoint


class Quotient:
    """`after[i]` lists the nodes that read what node i computes. Every node begins as a group of its own."""

    def __init__(self, after: Sequence[Sequence[int]]) -> None:
        self.after = after
        self.group = list(range(len(after)))
        self.members: dict[int, list[int]] = {i: [i] for i in range(len(after))}

    def contract(self, groups: Iterable[int]) -> int:
        """Makes one group of several; returns its number. The caller sees to it that no cycle results."""
        joined = sorted(member for group in groups for member in self.members.pop(group))
        for member in joined:
            self.group[member] = joined[0]
        self.members[joined[0]] = joined
        return joined[0]

    def dissolve(self, group: int) -> None:
        """The members are groups of their own again."""
        for member in self.members.pop(group):
            self.group[member] = member
            self.members[member] = [member]

    def order(self) -> list[int]:
        """The groups in topological order, ties by number; those on a cycle, and what follows them, are missing.

        O(nodes + edges), times log(nodes) for the ties.
        """
        group, members, after = self.group, self.members, self.after
        if len(members) in (
            1,
            len(after),
        ):  # one provider has it all, or nothing was contracted: nodes are numbered in that order
            return sorted(members)
        from heapq import heapify, heappop, heappush

        waits = dict.fromkeys(members, 0)
        for node, readers in enumerate(after):
            own = group[node]
            for reader in readers:
                if group[reader] != own:
                    waits[group[reader]] += 1
        ready = [g for g, count in waits.items() if not count]
        heapify(ready)
        done = []
        while ready:
            own = heappop(ready)
            done.append(own)
            for node in members[own]:
                for reader in after[node]:
                    other = group[reader]
                    if other != own:
                        waits[other] -= 1
                        if not waits[other]:
                            heappush(ready, other)
        return done

    def admit(self, units: Sequence[Sequence[int]]) -> tuple[list[int], list[tuple[int, int]]]:
        """Contracts the units (disjoint; their nodes are single groups) one after the other as far as no cycle results.

        Returns the groups, and (index of the unit, node on its cycle) for those that stay apart. O(nodes + edges) when all
        can stay; otherwise each unit near a cycle costs a search of the cyclic part.
        """
        groups = [self.contract(unit) if len(unit) > 1 else unit[0] for unit in units]
        if not any(len(unit) > 1 for unit in units):
            return groups, []
        cyclic = self._cyclic_part()
        suspects = [k for k, group in enumerate(groups) if group in cyclic and len(units[k]) > 1]
        region = {member for group in cyclic for member in self.members[group]}
        for k in suspects:
            self.dissolve(groups[k])
        lost = []
        for k in suspects:
            checkpoint()
            through = self._way_back(units[k], region)
            if through is None:
                self.contract(units[k])
            else:
                lost.append((k, through))
        gone = {k for k, _ in lost}
        return [group for k, group in enumerate(groups) if k not in gone], lost

    def _cyclic_part(self) -> set[int]:
        """The groups that are on a cycle, or on a path between two."""
        rest = set(self.members) - set(self.order())
        feeds = dict.fromkeys(rest, 0)
        before: dict[int, list[int]] = {g: [] for g in rest}
        for own in rest:
            for node in self.members[own]:
                for reader in self.after[node]:
                    other = self.group[reader]
                    if other != own and other in rest:
                        feeds[own] += 1
                        before[other].append(own)
        ends = [g for g, count in feeds.items() if not count]
        while ends:
            end = ends.pop()
            rest.discard(end)
            for g in before[end]:
                feeds[g] -= 1
                if not feeds[g]:
                    ends.append(g)
        return rest

    def _way_back(self, unit: Sequence[int], region: Collection[int]) -> int | None:
        """The first node of a path that leaves the unit and enters it again, inside the region; None: there is none."""
        inside, seen = set(unit), set[int]()
        for first in (reader for node in unit for reader in self.after[node]):
            stack = [] if first in inside or first not in region else [self.group[first]]
            while stack:
                own = stack.pop()
                if own in seen:
                    continue
                seen.add(own)
                for reader in (reader for member in self.members[own] for reader in self.after[member]):
                    if reader in inside:
                        return first
                    if reader in region:
                        stack.append(self.group[reader])
        return None


def join(quotient: Quotient, units: Collection[int]) -> list[tuple[list[int], int | None]]:
    """Joins units (groups of an acyclic quotient) to the fewest groups that leave it acyclic; does not contract them.

    Returns, in topological order, the units of each result and, but for the first, a node that is computed after
    something of the result before and needed by this one: joining the two would make a cycle.

    A unit's depth is the greatest number of times that a path to it leaves the units. Units of one depth are joined: within
    a depth nothing that leaves them leads back. Each result holds a unit that such a path reaches from every result
    before, so no two could be joined, and there are as many as that path makes necessary. O(nodes + edges).
    """
    depth: dict[int, int] = {}
    left: dict[int, int | None] = {}  # where the longest path left the units last
    found: dict[int, list[int]] = {}
    for own in quotient.order():
        here, mine = depth.setdefault(own, 0), own in units
        if mine:
            found.setdefault(here, []).append(own)
        for node in quotient.members[own]:
            for reader in quotient.after[node]:
                other = quotient.group[reader]
                if other == own:
                    continue
                leaves = mine and other not in units
                if here + leaves > depth.get(other, 0):
                    depth[other] = here + leaves
                    left[other] = reader if leaves else left.get(own)
    return [(found[k], left.get(found[k][0])) for k in sorted(found)]
