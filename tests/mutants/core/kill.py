"""Notices a break of the core, or does not: ends with 1 when some check fails, else with 0.

The cheapest checks come first, since this runs once for each of some thousand mutants: small rooms
of the tour, the unit tests of the manager, the other rooms, random histories.
"""

from __future__ import annotations

import logging
import resource
import sys

CPU_SECONDS = 90
"""A mutant that loops for ever is noticed too; the slowest check of the unbroken core takes 30."""
UNIT_TESTS = (
    *("tests/impl", "tests/consumer/test_two_phases.py"),
    *("--ignore=tests/impl/test_arena.py", "--ignore=tests/impl/test_manager_growth.py"),
)
QUICK = (
    *("answers", "probes", "room", "jobs", "deadlines of loads", "resets of loads", "mistakes"),
    *("claims", "berths", "stores between steps", "first to go", "hold of a reset"),
    *("clearing twice", "copies across a reset", "operations across a reset", "parked copies"),
)
"""Rooms of a tenth of a second each that see most of what can go wrong."""
HISTORIES = 150


def main() -> int:
    """Run the checks in turn."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)
    from tierproof.properties.managers import shipped
    from tierproof.properties.rooms import ROOMS
    from tierproof.properties.tour import walk

    quick = [room for room in ROOMS if room.name in QUICK]
    assert len(quick) == len(QUICK), "a room has another name now"
    for room in quick:
        if walk(shipped, room, enough=1).divergences:
            print(f"killed by the tour, in the room {room.name!r}")
            return 1

    import pytest

    logging.getLogger("tierproof").setLevel(logging.NOTSET)
    options = ("-x", "-q", "-p", "no:cacheprovider", "--no-header", "-W", "ignore")
    if pytest.main([*options, *UNIT_TESTS]) != 0:
        print("killed by the unit tests")
        return 1

    logging.getLogger("tierproof").setLevel(logging.CRITICAL + 1)
    for room in [room for room in ROOMS if room not in quick]:
        if walk(shipped, room, enough=1).divergences:
            print(f"killed by the tour, in the room {room.name!r}")
            return 1

    from tierproof.properties.histories import first_found

    if first_found(shipped, range(HISTORIES)) is not None:
        print("killed by random histories")
        return 1
    print("survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
