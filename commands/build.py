"""``ohforge build``: programs from recipes, or the user's own project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import TOOLCHAIN
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.session import Session
    from native.build.ensure import BuildRequest


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
        "on": "Build on another computer, an ssh://[USER@]HOST[:PORT], and fetch what it has built.",
        "stop": "With --on: end the build that goes on there.",
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
    on: str = "",
    stop: bool = False,
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
    if on or stop:
        return _build_on(session, on, request, stop)
    if session.dry:
        return Answer(tell(session.console, would_build(session, look_at_build(session, request))))
    outcome = ensure_built(session, request)
    return Answer(show_built(session.console, outcome, request.products))


def _build_on(session: Session, host: str, request: BuildRequest, stop: bool) -> Answer:
    """The same on another computer."""
    from commands.show import show_built
    from core.dry import tell
    from core.errors import UsageError
    from deploy.build_host.build import build_on, stop_on, would_build_on

    if not host:
        raise UsageError("--stop ends a build on another computer.", remedy="Name it with --on.")
    if session.dry:
        return Answer(tell(session.console, would_build_on(session, host, request, stop=stop)))
    if stop:
        said = stop_on(session, host, request)
        session.console.info(said)
        return Answer({"stopped": said})
    return Answer(show_built(session.console, build_on(session, host, request), request.products))


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
