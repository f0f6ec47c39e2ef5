"""``python -m deploy.lab.release ADDRESS PLACE NAME``: releases a place that a process which was killed has left."""

from __future__ import annotations

import sys

from deploy.lab.coordinator import connect

if __name__ == "__main__":
    address, place, name = sys.argv[1:]
    with connect(address) as coordinator:
        coordinator.release(place, name)
