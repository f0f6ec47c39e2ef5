"""``ohforge build``: programs from recipes, or the user's own project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import TOOLCHAIN
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.session import Session


@command(
    default=True,
    changes=True,
    dry=True,
    repeatable=("option", "prefix", "product"),
    groups={"choice": TOOLCHAIN},
    defaults={"arch": "arm64"},
    help={
        "target": "Recipe to build, by name (`ohforge build.list` shows them) or path of a recipe.yaml; default: llama.",
        "source": "Instead of a recipe: folder of a project of yours, built with CMake, Meson, cargo, configure or make.",
        "system": "What builds the project, when it has files for several: cmake, meson, cargo or make.",
        "option": "NAME=VALUE for the project's build system (cmake -D, meson -D, cargo --, configure, make); may be given again.",
        "prefix": "Folder with libraries for the board, or name or folder of a built project, to build with; may be given again.",
        "product": "Only this program or library; may be given again.",
        "build-type": "Release, RelWithDebInfo, MinSizeRel or Debug; default: Release.",
        "jobs": "Compile jobs at once; default: all cores.",
    },
)
def build(
    session: Session,
    choice: ToolchainChoice,
    target: str = "",
    source: str = "",
    system: str = "",
    option: list[str] | None = None,
    prefix: list[str] | None = None,
    product: list[str] | None = None,
    build_type: str = "",
    jobs: int = 0,
) -> Answer:
    """Cross-compile a program; a second call with nothing changed does nothing."""
    from commands.show import show_built
    from core.dry import tell
    from native.build.ensure import BuildRequest, ensure_built, look_at_build, would_build
    from native.recipe.project import read_options

    request = BuildRequest(
        target=target if target or source else "llama",
        source=source,
        system=system,
        options=read_options(option or ()),
        prefixes=tuple(prefix or ()),
        products=tuple(product or ()),
        build_type=build_type,
        choice=choice,
        jobs=jobs,
    )
    if session.dry:
        return Answer(tell(session.console, would_build(session, look_at_build(session, request))))
    outcome = ensure_built(session, request)
    return Answer(show_built(session.console, outcome, request.products))


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List what can be built, and what is built."""
    from commands.show import show_builds
    from native.artifact.artifact import list_artifacts
    from native.recipe.recipe import list_recipes, load_recipe

    recipes = [load_recipe(name) for name in list_recipes()]
    artifacts = list_artifacts(session.settings.builds)
    show_builds(session.console, recipes, artifacts)
    rows = [
        {
            "program": a.program,
            "arch": a.arch,
            "cpu": a.cpu,
            "toolchain": a.toolchain,
            "key": a.key,
            "path": str(a.folder),
        }
        for a in artifacts
    ]
    return Answer({"recipes": [{"name": r.name, "description": r.description} for r in recipes], "artifacts": rows})


@command(
    changes=True,
    dry=True,
    help={
        "target": "Only this program's builds.",
        "arch": "Only this arch's builds.",
        "keep-newest": "Spare the newest build of each program and arch.",
        "trees": "Remove the build trees only: every program stays usable.",
    },
)
def clean(session: Session, target: str = "", arch: str = "", keep_newest: bool = False, trees: bool = False) -> Answer:
    """Remove builds; sources, downloads and the compiler cache stay."""
    from core.dry import tell
    from core.files import human_bytes
    from native.build.clean import find_builds, remove_builds, would_remove

    found = find_builds(session, program=target, arch=arch, keep_newest=keep_newest, trees_only=trees)
    if session.dry:
        return Answer(tell(session.console, would_remove(found)))
    removed = remove_builds(found)
    session.console.info(f"{len(removed.folders)} folders removed, {human_bytes(removed.size)} are free again")
    return Answer({"folders": [str(folder) for folder in removed.folders], "size": removed.size})
