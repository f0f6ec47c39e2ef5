"""llama-server on this computer, built natively by the same recipe: answers without a board, never a board's times."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import RunError
from core.interrupts import termination_as_interrupt
from core.session import Session
from deploy.board.render import render_script
from deploy.launch.model_server import ModelServer, ServeOptions
from deploy.launch.process_use import ProcessUse, parse_use
from deploy.launch.serve import PRODUCT, check_model, server_words
from deploy.run.record import LOG
from toolchains.arch import find_arch

if TYPE_CHECKING:
    from native.models.models import Model

MARK = "OHFORGE_SERVER"
ARCHES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
"""From the machine's name to ours."""
STATIC_TOOLCHAIN = "zig"
"""Its programs carry their C library along, so they run here as well as on a board."""
GRACE_LOOKS = 25
ANSWER_SECONDS = 30.0


class HostServer(ModelServer):
    """A server on this computer; its log lies in `folder`."""

    emulated = False

    def __init__(
        self, session: Session, program: Path, words: tuple[str, ...], folder: Path, options: ServeOptions
    ) -> None:
        mark = f"{MARK}={secrets.token_hex(8)}"
        self._stop_words = ("/bin/sh", "-c", render_script("stop_marked", mark=mark, looks=GRACE_LOOKS))
        super().__init__(session, f"{program.name} on this computer", (self._stop_words, {}))
        self._session = session
        self._words = (str(program), *words)
        self._environment = {**options.run.environment, MARK: mark.partition("=")[2]}
        self._life_seconds = options.life_seconds
        self._folder = folder
        self._use_words = ("/bin/sh", "-c", render_script("marked", mark=mark))

    @property
    def log(self) -> Path:
        return self._folder / LOG

    def use(self) -> ProcessUse | None:
        waiting = Deadline.after(ANSWER_SECONDS, f"what {self._title} has used")
        return parse_use(self._session.runner.run(self._use_words, deadline=waiting).text)

    def _run(self) -> None:
        with self.log.open("wb", buffering=0) as log:

            def keep(chunk: bytes) -> None:
                log.write(chunk)

            life = Deadline.after(self._life_seconds, self._title)
            ended = self._runner.run(self._words, deadline=life, env=self._environment, on_stdout=keep, on_stderr=keep)
        if not ended.ok:
            raise RunError(
                f"{self._title} ended with status {ended.exit_code}.\n{ended.last_lines()}", log=str(self.log)
            )

    def _end(self) -> None:
        waiting = Deadline.after(ANSWER_SECONDS, f"the end of {self._title}")
        if self._session.runner.run(self._stop_words, deadline=waiting).text.split()[-1:] != ["gone"]:
            raise RunError("it ignores being killed")


@contextlib.contextmanager
def serve_on_host(session: Session, model: Model, options: ServeOptions, folder: Path) -> Iterator[HostServer]:
    """Serves a model on this computer while the block runs, as `serve_on_board` does on a board; the log goes to `folder`.

    Raises HostUnsupported, and what `serve_on_board` raises.
    """
    from native.build.ensure import BuildRequest, ensure_built

    check_model(model)
    words = server_words(str(model.path), options, str(options.draft.path) if options.draft else "")
    recipe, _, product = PRODUCT.partition("/")
    choice = dataclasses.replace(options.choice, arch=host_arch(), toolchain=STATIC_TOOLCHAIN)
    artifact = ensure_built(session, BuildRequest(target=recipe, choice=choice, products=(product,))).artifact
    program = artifact.path_of(artifact.product(product))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOG).unlink(missing_ok=True)  # The port is read from it.
    with termination_as_interrupt(), HostServer(session, program, words, folder, options) as server:
        port, began = server.wait_until_listening(options, model.size)
        server.wait_until_ready(port, began, options)
        yield server


def host_arch() -> str:
    """Our name for this computer's arch. Raises UnknownName for one that nothing is built for."""
    machine = platform.machine().lower()
    return find_arch(ARCHES.get(machine, machine)).name
