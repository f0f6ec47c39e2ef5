"""Where ``ohforge`` begins."""

from __future__ import annotations

import gc
import sys
from types import ModuleType


def main() -> None:
    """Does what the command line says, and ends the process."""
    # To look for garbage among all that is being imported, and once more at the end, takes a fifth of a short call.
    gc.disable()
    import_invoke()
    from commands.program import OhforgeProgram

    gc.freeze()
    gc.enable()
    try:
        OhforgeProgram().run()
    finally:
        gc.freeze()


def import_invoke() -> None:
    """Imports Invoke without what only its `MockContext` and its own version need, which is a quarter of a short call."""
    placeholders: dict[str, dict[str, type]] = {
        "unittest.mock": {"Mock": object},
        "importlib.metadata": {"version": str},
    }
    unneeded = {name: members for name, members in placeholders.items() if name not in sys.modules}
    for name, members in unneeded.items():
        module = sys.modules[name] = ModuleType(name)
        for member, value in members.items():
            setattr(module, member, value)
    try:
        import invoke
    finally:
        for name in unneeded:
            del sys.modules[name]
    if "importlib.metadata" in unneeded:
        del invoke.__version__
