"""Where ``ohforge`` begins."""

from __future__ import annotations

import gc


def main() -> None:
    """Does what the command line says, and ends the process."""
    # To look for garbage among all that is being imported, and once more at the end, takes a fifth of a short call.
    gc.disable()
    from commands.program import OhforgeProgram

    gc.freeze()
    gc.enable()
    try:
        OhforgeProgram().run()
    finally:
        gc.freeze()
