"""From a name to a run: which board, which arch, built when it is not, sent, run, recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from core.errors import InvalidData, MissingLibrary, UsageError, WrongArch
from core.session import Session
from deploy.board.protocol import Board
from deploy.hdc.choose import choose_board
from deploy.hdc.paths import check_local_file
from deploy.launch.build_choice import choose_build, forget_arches
from deploy.launch.model_inputs import accompany_model, require_computable
from deploy.launch.request import LaunchRequest
from deploy.run.execute import execute
from deploy.run.preflight import Binary, binary_of_elf, binary_of_product
from deploy.run.request import RunRequest
from deploy.run.result import RunOutcome
from deploy.transfer.placement import FileToPlace
from native.recipe.flags import split_given

if TYPE_CHECKING:
    from native.artifact.artifact import Artifact, Product
    from native.build.ensure import BuildLook
    from native.models.models import Model, ModelPiece
    from native.recipe.recipe import Recipe

NETWORK_PROGRAM = "nnrt"
"""The program that takes the description of a network."""
LIBRARIES = "lib"
"""Folder, in the run's folder, of the shared libraries that travel with a program."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A run that is ready but for its build."""

    board: Board
    run: RunRequest
    """Complete, but for the files of the build."""
    build: BuildLook | None = None
    """None: all that is run is there."""


def run_model(session: Session, request: LaunchRequest, look: Callable[[Launch], None] | None = None) -> RunOutcome:
    """Runs a model on a board with the program that takes its kind of file. Raises what the steps raise.

    `look` sees what was made ready before anything is built or sent; what it raises ends the run.
    """
    from native.models.models import find_model

    board = choose_board(session, request.board)
    model = find_model(session, request.model)
    launch = ready_model(session, board, model, request, session.settings.cache)
    if look is not None:
        look(launch)
    return _perform(session, launch)


def run_program(session: Session, request: LaunchRequest) -> RunOutcome:
    """Runs a program on a board: a local file, or a product of a recipe. Its status is handed on, whatever it is."""
    return _perform(session, ready_program(session, request, session.settings.cache))


def ready_model(session: Session, board: Board, model: Model, request: LaunchRequest, made: Path) -> Launch:
    """Makes the run of a model ready; small files that go along are made below `made`. Raises what the steps raise."""
    from native.recipe.recipe import recipe_for_model

    recipe = recipe_for_model(model.kind)
    spec = recipe.run_for(model.kind)
    flags, roles = split_given(spec.flags, request.given, f"a .{model.kind} model")
    parameters = {**request.parameters, **flags}
    beside = accompany_model(model, roles, parameters, made)
    name = name_on_board(model.path)
    words = (*spec.command(name, beside.parameters), *beside.arguments, *request.arguments)
    build = choose_build(session, board, request, recipe.name, (spec.product,))
    require_computable(model, build)
    run = dataclasses.replace(
        _of_product(recipe.name, recipe.version, spec.product, words),
        program=recipe.name,
        files=(*files_of_model(model), *beside.files),
        model=model,
        spec=spec,
    )
    return Launch(board=board, run=_complete(session, request, run), build=build)


def ready_program(session: Session, request: LaunchRequest, made: Path) -> Launch:
    """As `ready_model`, for a program."""
    path = Path(request.program).expanduser()
    request = _with_network(request, made)
    if built := _find_artifact(path):
        board = choose_board(session, request.board)
        run = _of_product(built[0].program, built[0].version, built[1].name, request.arguments)
        return Launch(board=board, run=_complete(session, request, with_artifact(run, built[0])))
    looks_like_path = "." in path.name or request.program.startswith(("/", "~", "./", "../"))
    # A recipe's product has one stroke before it: build/NAME/KEY/out/PROGRAM is a file that is not there any more.
    if path.is_file() or looks_like_path or request.program.count("/") > 1:
        return _ready_file(session, request, path)
    return _ready_product(session, request)


def _with_network(request: LaunchRequest, made: Path) -> LaunchRequest:
    """The request with the network as a file beside the program, and the words that name it there."""
    if not request.given:
        return request
    from native.models.networks import prepare_network
    from native.recipe.recipe import read_flags

    whose = f"--program {Path(request.program).name}"
    _, roles = split_given(read_flags().get(whose, ()), request.given, whose)
    network = prepare_network(Path(*roles["network"]).expanduser(), made / "networks")
    arguments = ("--net", network.name, *request.arguments)
    return dataclasses.replace(request, files=(*request.files, str(network)), arguments=arguments, given={})


def _ready_file(session: Session, request: LaunchRequest, path: Path) -> Launch:
    """A file of the user's: an ELF program, or a script with a ``#!`` line."""
    from native.artifact.closure import find_libraries
    from native.artifact.elf import inspect_elf

    check_local_file(path)
    elf = inspect_elf(path)
    if elf is None and not _is_script(path):
        raise UsageError(
            f"{path} is neither an ELF program nor a script that begins with #!.",
            remedy="Name a program for the board; a model file is run with `ohforge board.run MODEL`.",
        )
    board = choose_board(session, request.board)
    name = name_on_board(path)
    given = [file for file in _further_files(request) if ".so" in file.name]
    beside: list[FileToPlace] = []
    if elf is not None:
        for library in find_libraries(session, path, elf, [file.local for file in given]):
            session.console.chosen("library", str(library), "the program needs it, so it is sent along")
            beside.append(FileToPlace(local=library, name=library.name))
    libraries = [*given, *beside]
    run = RunRequest(
        program=path.stem or path.name,
        engine=path.name,
        executable=name,
        arguments=request.arguments,
        files=(FileToPlace(local=path, name=name, executable=True), *beside),
        binaries=(binary_of_elf(path.name, elf), *_binaries_of_files(libraries)) if elf is not None else (),
        library_folder="" if libraries else None,
    )
    return Launch(board=board, run=_complete(session, request, run))


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _ready_product(session: Session, request: LaunchRequest) -> Launch:
    return ready_product(session, choose_board(session, request.board), request)


def ready_product(session: Session, board: Board, request: LaunchRequest) -> Launch:
    """As `ready_model`, for a product of a recipe on a board that is chosen already."""
    recipe, name = find_product(request.program)
    build = choose_build(session, board, request, recipe.name, (name,))
    run = _of_product(recipe.name, recipe.version, name, request.arguments)
    return Launch(board=board, run=_complete(session, request, run), build=build)


def _find_artifact(path: Path) -> tuple[Artifact, Product] | None:
    """The artifact, and the product in it, that a path names: shared libraries then travel along as they must.

    A file that is no longer what the manifest says is the user's own, as any other.
    """
    from native.artifact.artifact import MANIFEST, find_damage, read_artifact

    folder = path.absolute().parent.parent
    if not (path.is_file() and (folder / MANIFEST).is_file()):
        return None
    with contextlib.suppress(InvalidData):
        artifact = read_artifact(folder)
        for product in artifact.products:
            here = product.kind == "program" and artifact.path_of(product) == path.absolute()
            if here and not find_damage(artifact, product):
                return artifact, product
    return None


def find_product(text: str) -> tuple[Recipe, str]:
    """The recipe and product that ``recipe/product``, ``product`` or ``recipe`` (its only program) means.

    Raises UnknownName with the nearest.
    """
    from core.errors import unknown_name
    from native.recipe.recipe import list_recipes, load_recipe

    first, _, second = text.partition("/")
    if second:
        recipe = load_recipe(first)
        return recipe, recipe.product(second).name
    programs: dict[str, Recipe] = {}
    for recipe in map(load_recipe, list_recipes()):
        own = [product.name for product in recipe.products if product.kind == "program"]
        programs |= dict.fromkeys(own, recipe)
        if recipe.name == text and len(own) == 1:
            return recipe, own[0]
    if text not in programs:
        raise unknown_name("file or program", text, programs)
    return programs[text], text


# what is run ---------------------------------------------------------------------------------------


def _of_product(recipe: str, version: str, product: str, arguments: tuple[str, ...]) -> RunRequest:
    """A product of a recipe that is run by itself, without its files."""
    return RunRequest(program=product, engine=f"{recipe} {version}", executable=product, arguments=arguments, files=())


def with_artifact(run: RunRequest, artifact: Artifact) -> RunRequest:
    """The run with the product that it executes, and with all that travels with that."""
    product = artifact.product(run.executable)
    return dataclasses.replace(
        run,
        files=(*files_of(artifact, product), *run.files),
        binaries=binaries_of(artifact, product),
        library_folder=LIBRARIES if artifact.runtime_libraries else None,
        artifact=artifact,
    )


def files_of(artifact: Artifact, product: Product) -> tuple[FileToPlace, ...]:
    """A product and the files and libraries that must travel with it, as they lie in a run's folder."""
    libraries = [artifact.folder / path for path in artifact.runtime_libraries]
    return (
        FileToPlace(local=artifact.path_of(product), name=product.name, executable=True, sha256=product.sha256),
        *(
            FileToPlace(local=artifact.path_of(file), name=Path(file.path).name, sha256=file.sha256)
            for file in map(artifact.product, product.with_files)
        ),
        *(FileToPlace(local=path, name=f"{LIBRARIES}/{path.name}") for path in libraries),
    )


def files_of_model(model: Model) -> tuple[FileToPlace, ...]:
    """A model's file, and the pieces of one that is split, as they lie in a run's folder."""
    parts: tuple[Model | ModelPiece, ...] = (model, *model.pieces)
    return tuple(FileToPlace(local=part.path, name=name_on_board(part.path), sha256=part.sha256) for part in parts)


def binaries_of(artifact: Artifact, product: Product) -> tuple[Binary, ...]:
    """What must fit the board: the product and the libraries that travel with it."""
    libraries = [FileToPlace(local=artifact.folder / path, name=path) for path in artifact.runtime_libraries]
    return (binary_of_product(product), *_binaries_of_files(libraries))


def _binaries_of_files(files: list[FileToPlace]) -> list[Binary]:
    from native.artifact.elf import inspect_elf

    found = [(PurePosixPath(file.name).name, inspect_elf(file.local)) for file in files]
    return [binary_of_elf(name, elf) for name, elf in found if elf is not None]


def _further_files(request: LaunchRequest) -> tuple[FileToPlace, ...]:
    paths = [Path(name).expanduser() for name in request.files]
    return tuple(FileToPlace(local=path, name=path.name, executable=os.access(path, os.X_OK)) for path in paths)


def name_on_board(path: Path) -> str:
    """The file's own name; a leading dash would make it an option."""
    return path.name.lstrip("-") or "file"


def _complete(session: Session, request: LaunchRequest, run: RunRequest) -> RunRequest:
    """`run` with what was asked of it; a program's own status is the user's to judge."""
    options = request.options
    environment = {**(run.spec.environment if run.spec is not None else {}), **options.environment}
    timeout = options.timeout or session.settings.timeouts.run
    return dataclasses.replace(
        run,
        files=(*run.files, *_further_files(request)),
        pass_status=run.model is None,
        options=dataclasses.replace(options, environment=environment, timeout=timeout),
    )


def _perform(session: Session, launch: Launch) -> RunOutcome:
    """Builds what lacks, and runs what was made ready."""
    return execute_built(session, launch.board, build_run(session, launch))


def build_run(session: Session, launch: Launch) -> RunRequest:
    """The run with the files of its build, which is made when it is not there. Raises what a build raises."""
    if launch.build is None:
        return launch.run
    from native.build.ensure import build_what_lacks

    return with_artifact(launch.run, build_what_lacks(session, launch.build).artifact)


def execute_built(session: Session, board: Board, run: RunRequest) -> RunOutcome:
    """Runs what `build_run` has completed. Raises what `execute` raises."""
    try:
        return execute(session, board, run)
    except (WrongArch, MissingLibrary):
        forget_arches(session, board)
        raise
