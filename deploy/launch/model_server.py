"""What a server of a language model is to those who ask it, wherever it runs."""

from __future__ import annotations

import abc
import contextlib
import http.client
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from core.cancelling import CancellableRunner
from core.deadline import Deadline
from core.errors import Failure, LostConnection, OhforgeError, RunError, explain_exception
from core.last_will import done_if_killed
from core.session import Session
from deploy.board.protocol import MAY_RUN_ON
from deploy.launch.process_use import ProcessUse
from deploy.launch.server_settings import ServerSettings
from deploy.run.options import RunOptions
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from native.models.models import Model

LOOPBACK = "127.0.0.1"
LISTENS = re.compile(rb"listening on http://127\.0\.0\.1:(\d+)")
"""What llama-server prints when its model is loaded (``tools/server/server.cpp``)."""
HEALTH, OK = "/health", 200
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.1
USE_SECONDS = 3.0
"""Between two questions to the board how much of the model is in memory."""
DAY = 86400.0
DEATH_LOOKS, DEATH_PAUSE = 3, 1.0
"""A program whose connections have ended may still be dying: its core is written, its children are ended."""
VERDICT_SECONDS = 60.0
"""For finding out why a server has ended: the board's logs are asked."""
LINK_SECONDS = 20.0
"""How much later than a question to the board may be told that the link is cut."""
END_SECONDS = 30.0
CANCEL_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """How a model is to be served. Empty text and 0 mean "not said"."""

    choice: ToolchainChoice = field(default_factory=ToolchainChoice)
    """What the server is built with, where it is built."""
    threads: int = 0
    """0: llama-server's own choice."""
    context: int = 2048
    """Tokens of one answer with its question."""
    slots: int = 1
    """How many answers at once."""
    batch: int = 512
    """Tokens of a prompt that are evaluated at once, by one pass over the weights."""
    settings: ServerSettings = field(default_factory=ServerSettings)
    """What else is varied; its context and slots are those above."""
    draft: Model | None = None
    """The file of the draft model that the settings name."""
    arguments: tuple[str, ...] = ()
    """Further ones of llama-server."""
    load_seconds: float = 900.0
    """How long loading may take."""
    run: RunOptions = field(default_factory=RunOptions)
    """Its `timeout` is how long the server may live; 0: a day."""

    @property
    def life_seconds(self) -> float:
        return self.run.timeout or DAY


class ModelServer(abc.ABC):
    """A server that runs in a thread of this process's own from the begin of the block to its end.

    `will` is the command line that ends it when this process cannot, with what it adds to the environment.
    """

    def __init__(self, session: Session, title: str, will: tuple[tuple[str, ...], dict[str, str]]) -> None:
        self._console = session.console
        self._runner = CancellableRunner(session.runner)
        self._title = title
        self._will = will
        self._ended = threading.Event()
        self._failure: OhforgeError | None = None
        self._endings = contextlib.ExitStack()
        self._port = 0
        self.load_seconds: float | None = None
        """From its start until it was ready, by this computer's clock; None before that."""

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``"""
        return f"http://{LOOPBACK}:{self._port}"

    @property
    @abc.abstractmethod
    def log(self) -> Path | None:
        """File of all that it has printed so far; None before it is started."""

    @property
    @abc.abstractmethod
    def emulated(self) -> bool: ...

    @abc.abstractmethod
    def use(self) -> ProcessUse | None:
        """What it has used so far; None when it does not run. Raises what asking the board raises."""

    @abc.abstractmethod
    def _run(self) -> None:
        """Runs the server to its end. Raises what that came to."""

    @abc.abstractmethod
    def _end(self) -> None:
        """Asks it to end. Raises what asking the board raises."""

    def _check_way(self) -> None:
        """Raises what keeps it from being reached."""

    # for those who use it ----------------------------------------------------------------------------

    def alive(self) -> bool:
        """Whether it runs, as far as is known here; costs nothing."""
        return not self._ended.is_set()

    def check(self) -> None:
        """Raises what has ended the server, or the way to it; nothing when both are there.

        To be called when a connection has ended too early.
        """
        lost = self._find_loss() if self.alive() else None
        gone = False
        for _ in range(DEATH_LOOKS):
            gone = not self.alive() or not self._is_there()
            if gone:
                self._ended.wait(VERDICT_SECONDS)
                break
            if lost is not None:
                raise lost
            self._ended.wait(DEATH_PAUSE)
        if not gone and self.alive():
            return
        raise self._failure or RunError(f"{self._title} has ended.", log=str(self.log))

    def _find_loss(self) -> OhforgeError | None:
        try:
            self._check_way()
        except Failure as lost:
            return lost
        return None

    def _is_there(self) -> bool:
        try:
            return self.use() is not None
        except LostConnection:
            # What runs the server learns of it as well, and knows whether that goes on on the board.
            if not self._ended.wait(LINK_SECONDS):
                raise
            return False

    # its life ----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        argv, environment = self._will
        self._endings.enter_context(done_if_killed(argv, environment))
        threading.Thread(target=self._live, name=self._title, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._endings:
            self.stop()

    def _live(self) -> None:
        try:
            self._run()
            self._failure = RunError(f"{self._title} has ended by itself.", log=str(self.log))
        except OhforgeError as error:
            self._failure = error
        except Exception as error:  # A thread's error would be printed and forgotten.
            self._failure = explain_exception(error)
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Ends it, if it still runs; may be called by any thread, and again."""
        if self.alive():
            try:
                self._end()
                self._ended.wait(END_SECONDS)
            except Failure as error:
                # What runs the server learns of a cut link as well, and looks whether that goes on on the board.
                if not self._ended.wait(LINK_SECONDS) or MAY_RUN_ON in str(self._failure):
                    self._console.warn(f"{self._title} may still run: {error.message}")
        self._runner.cancel()
        if not self._ended.wait(CANCEL_SECONDS):
            self._console.warn(f"what runs {self._title} does not end; its record stays open")

    def wait_until_listening(self, options: ServeOptions, size: int) -> tuple[int, float]:
        """Waits until the model, of `size` bytes, is loaded; returns the server's own port, and when it was started.

        Raises what has ended the server, and DeadlineExpired. Sending the files has deadlines of its own.
        """
        while self.log is None or not self.log.exists():
            self._look()
        began = time.monotonic()
        waiting = Deadline.after(options.load_seconds, f"the loading of the model by {self._title}")
        with self._console.progress("loading", size) as progress:
            asked = began
            while not (found := LISTENS.search(self.log.read_bytes())):
                if waiting.expired:
                    raise waiting.error()
                self._look()
                if time.monotonic() - asked > USE_SECONDS:
                    with contextlib.suppress(Failure):  # The thread will know more.
                        progress.reach(min(size, getattr(self.use(), "resident_bytes", 0) or 0))
                    asked = time.monotonic()
        return int(found[1]), began

    def wait_until_ready(self, port: int, began: float, options: ServeOptions) -> None:
        """Waits until the server answers at that port of this computer that it is ready.

        Raises what has ended the server, and DeadlineExpired.
        """
        self._port = port
        waiting = Deadline.after(options.load_seconds, f"an answer of {self._title}")
        while not _is_ready(port):
            if waiting.expired:
                self.check()
                raise waiting.error()
            self._look()
        self.load_seconds = time.monotonic() - began
        self._console.detail(f"{self._title} is ready at {self.url} after {self.load_seconds:.1f} s")

    def _look(self) -> None:
        """Waits a moment. Raises what has ended the server meanwhile."""
        if self._ended.wait(LOOK_SECONDS) and self._failure is not None:
            raise self._failure


def _is_ready(port: int) -> bool:
    """Whether the server at that port of this computer says that its model is loaded."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", HEALTH)
        return connection.getresponse().status == OK
    return False
