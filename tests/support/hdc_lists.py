"""What hdc lists, for tests that choose a board."""

from __future__ import annotations

from collections.abc import Callable

from core.process import Result
from core.session import Session

KEY = "7001005458323933328a01bce16d3800"
OTHER = "192.168.1.9:8710"
ONE = f"{KEY}\t\tUSB\tConnected\tlocalhost\thdc\n".encode()
TWO = ONE + f"{OTHER}\t\tTCP\tConnected\trk3568\thdc\n".encode()
NONE = b"[Empty]\r\thdc\n"
SILENT = Result(argv=(), exit_code=0, stdout=b"", stderr=b"Connect server failed\n", seconds=12.3)
MakeSession = Callable[..., Session]
LIST = ["list", "targets", "-v"]
