"""The hdc stand-in: ``python -m deploy.emulator.stand_in.cli ARGS`` answers as ``hdc ARGS`` does, for emulated boards.

Its exit status is 0 whatever happens, as hdc's is. It imports little, because it is started for every command.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from core.errors import OhforgeError
from deploy.emulator.stand_in.arguments import BadArgument, Call, read_call
from deploy.emulator.stand_in.state import NoServer, find_server, temporary_folder


def main(argv: list[str]) -> int:
    """Answers one command line; returns 0, or the status of an error that keeps boards from being emulated at all."""
    try:
        call = read_call(argv, str(Path.cwd()))
        _answer(call)
    except BadArgument as error:
        os.write(error.stream, error.text.encode())
    except NoServer as error:
        if error.wait:
            _look_in_vain()
        os.write(2, str(error).encode())
    except BrokenPipeError:
        pass
    except PermissionError as error:
        if error.filename is None or not str(error.filename).startswith(str(temporary_folder())):
            raise
        # The server's files belong to another user, whose server this user cannot have.
        _look_in_vain()
        os.write(2, b"Connect server failed\n")
    except OhforgeError as error:
        # Not an answer that hdc could give: the emulated board cannot exist on this machine.
        os.write(2, f"emulated board: {error.message} {error.remedy}\n".encode())
        return error.exit_status
    return 0


def _answer(call: Call) -> None:
    from deploy.emulator.stand_in.answer import answer

    answer(call, find_server(call.server))


def _look_in_vain() -> None:
    from deploy.emulator.protocol.releases import find_release

    time.sleep(find_release().server_seconds)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)
