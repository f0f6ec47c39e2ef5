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
UNAUTHORISED = (
    b"[Fail][E000002]:The device unauthorized.\r\nThis server's public key is not set.\r\n"
    b"Please check for a confirmation dialog on your device.\r\nOtherwise try 'hdc kill' if that seems wrong.\r\n"
)
REFUSED = (
    b"[Fail][E000003]:The device unauthorized.\r\nThe user denied the access for the device.\r\n"
    b"Please execute 'hdc kill' and redo your command,\r\nthen check for a confirmation dialog on your device.\r\n"
)
OFFLINE = b"[Fail][E001005] Device not found or connected\r\n"
MakeSession = Callable[..., Session]
LIST = ["list", "targets", "-v"]
