"""How long boards take for work, by the same hand that gives it out."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from bench.spread.dispatch import Dispatcher


def makespan(seconds: Sequence[float], boards: int, *, opening: float = 0.0, overhead: float = 0.0) -> float:
    """Seconds from the begin to the end, when so many like boards take the pieces of work in this order.

    Each board takes `opening` seconds before its first piece, and each piece `overhead` seconds more than it lasts.
    """
    names = [str(number) for number in range(boards)]
    dispatcher = Dispatcher(names, range(len(seconds)))
    ends = [(0.0, place, name) for place, name in enumerate(names)]
    now = last = 0.0
    fresh = set(names)
    while ends:
        now, place, name = heapq.heappop(ends)
        if dispatcher.boards[name].working_on is not None:
            dispatcher.done(name)
            last = now
        if dispatcher.wants(name):
            begin = now + (opening if name in fresh else 0.0)
            fresh.discard(name)
            heapq.heappush(ends, (begin + overhead + seconds[dispatcher.take(name)], place, name))
    return last
