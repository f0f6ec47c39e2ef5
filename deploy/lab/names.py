"""By what name the coordinator knows who has a place: ``HOST/USER``, as labgrid itself writes it.

A process of ohforge takes places by a name of its own, in which HOST goes on with its number. So another one sees
whether the holder still lives, and nobody gives back what somebody else has taken. labgrid's own client looks at USER only.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from dataclasses import dataclass

from deploy.lease.owner import current_owner, start_time

PROCESS = re.compile(r"(?P<host>.+)\.ohforge-(?P<namespace>\d+)-(?P<pid>\d+)-(?P<started>\d+)/(?P<user>[^/]+)")


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who has a place. `pid` is 0 for one that is no process of ohforge."""

    user: str
    host: str
    pid: int = 0
    started: int = 0
    namespace: int = 0

    @classmethod
    def read(cls, name: str) -> Holder:
        """Understands the name that the coordinator has noted."""
        if found := PROCESS.fullmatch(name):
            numbers = {each: int(found[each]) for each in ("pid", "started", "namespace")}
            return cls(user=found["user"], host=found["host"], **numbers)
        host, _, user = name.rpartition("/")
        return cls(user=user, host=host)

    def describe(self) -> str:
        """The holder in a sentence."""
        return f"{self.user} (process {self.pid} on {self.host})" if self.pid else f"{self.user} (on {self.host})"

    def is_dead(self) -> bool:
        """True when it is a process of this computer that has ended; False when it lives or cannot be seen from here."""
        mine = own_process()
        seen = self.pid != 0 and (self.host, self.namespace) == (mine.host, mine.namespace)
        return seen and start_time(self.pid) != self.started


def own_process() -> Holder:
    """This process."""
    owner = current_owner()
    namespace = int("".join(filter(str.isdigit, owner.namespace)) or 0)
    return Holder(user=_user(), host=socket.gethostname(), pid=owner.pid, started=owner.started, namespace=namespace)


def process_name() -> str:
    """The name of this process."""
    mine = own_process()
    return f"{mine.host}.ohforge-{mine.namespace}-{mine.pid}-{mine.started}/{mine.user}"


def user_name() -> str:
    """The name by which labgrid's own client knows this user on this computer."""
    return f"{os.environ.get('LG_HOSTNAME') or socket.gethostname()}/{_user()}"


def _user() -> str:
    return os.environ.get("LG_USERNAME") or getpass.getuser()
