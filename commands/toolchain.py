"""``ohforge toolchain.*``: toolchain files, for us and for other tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import TOOLCHAIN
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.session import Session


@command(changes=True, dry=True, groups={"choice": TOOLCHAIN}, defaults={"arch": "arm64"}, help={})
def render(session: Session, choice: ToolchainChoice) -> Answer:
    """Render the CMake toolchain file and say where it is."""
    from core.dry import tell
    from toolchains.toolchain import choose_toolchain, would_render

    chosen = choose_toolchain(session, choice)
    if session.dry:
        return Answer(tell(session.console, [would_render(chosen)]))
    session.console.info(f"cmake -DCMAKE_TOOLCHAIN_FILE={chosen.file}")
    return Answer({"file": str(chosen.file), "id": chosen.id, "title": chosen.title, "arch": chosen.arch.name})


@command(
    changes=True,
    dry=True,
    groups={"choice": TOOLCHAIN},
    defaults={"arch": "arm64"},
    help={
        "shell": "sh, fish, powershell or json; or meson (cross file) or cargo (configuration).",
        "bare": "Set CC, CXX and the like too: every build of that shell is then a cross build.",
    },
)
def env(session: Session, choice: ToolchainChoice, shell: str = "sh", bare: bool = False) -> Answer:
    """Print the variables that lead other builds to the toolchain: eval "$(ohforge toolchain.env --shell sh)"."""
    from commands.show import print_text
    from core.dry import tell
    from toolchains.export import export_cargo, export_environment, export_meson, list_variables
    from toolchains.toolchain import choose_toolchain, would_render

    aside = session.on_stderr()
    chosen = choose_toolchain(aside, choice)
    special = {"meson": export_meson, "cargo": export_cargo}
    text = special[shell](chosen) if shell in special else export_environment(chosen, shell, bare=bare)
    if session.dry:
        return Answer(tell(aside.console, [would_render(chosen)]))
    print_text(session.console, text)
    return Answer({"variables": list_variables(chosen, bare=bare), "text": text})


@command(
    optional_positional="folder",
    changes=True,
    dry=True,
    repeatable=("arch",),
    groups={"choice": TOOLCHAIN},
    help={
        "folder": "The project's folder; default: this one.",
        "arch": "arm32, arm64 or x86_64; may be given again. Default: arm64 and arm32.",
    },
)
def presets(session: Session, choice: ToolchainChoice, folder: str = "", arch: list[str] | None = None) -> Answer:
    """Write presets into a project's CMakeUserPresets.json, beside the user's own."""
    from core.dry import tell
    from toolchains.export import would_write_presets, write_presets
    from toolchains.toolchain import choose_toolchain, would_render

    project = Path(folder or ".").expanduser()
    chosen = [choose_toolchain(session, replace(choice, arch=name)) for name in arch or ("arm64", "arm32")]
    if session.dry:
        return Answer(tell(session.console, [*map(would_render, chosen), would_write_presets(project, chosen)]))
    path = write_presets(project, chosen)
    session.console.info(f"{path}: cmake --list-presets shows them")
    return Answer({"file": str(path)})
