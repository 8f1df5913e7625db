"""What the programs of this folder share: how they check, and how they wait for a condition instead of a time."""

import sys
import time

checks = 0


def expect(found, wanted):
    global checks
    checks += 1
    if found != wanted:
        raise AssertionError(f"check {checks}: {found!r} instead of {wanted!r}")


def eventually(look, wanted, seconds=30):
    """Looks until what is wanted is there; only a broken server takes as long as the limit."""
    deadline = time.monotonic() + seconds
    found = look()
    while found != wanted and time.monotonic() < deadline:
        time.sleep(0.005)
        found = look()
    expect(found, wanted)


def server():
    """Host and port, from the command line."""
    return sys.argv[1], int(sys.argv[2])


def done(name, version):
    print(f"{name} {version}: {checks} checks")
