"""Several sources of one thing: when one fails the next is tried, and in the end it is said what each of them said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from core.errors import IntegrityError, NetworkError, NoSourceLeft, Offline, OhforgeError, ServerUnreached
from core.session import Session


class Fallback:
    """The sources of `wanted` (such as ``ohos-sdk 5.0.0``) that were tried in vain.

        tries = Fallback(session, "demo 1.0")
        for source in sources:
            with tries.passing_over(source.title):
                return fetch(source)
        raise tries.error()

    Errors of the classes `passes` lead to the next source. `tell` says so to the user.
    """

    def __init__(
        self,
        session: Session,
        wanted: str,
        *,
        passes: tuple[type[OhforgeError], ...] = (NetworkError, IntegrityError),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.errors: list[OhforgeError] = []
        self._wanted = wanted
        self._passes = passes
        self._tell = tell or session.console.info

    @contextlib.contextmanager
    def passing_over(self, title: str) -> Iterator[None]:
        """Ends the block with its error noted, when it is one after which the next source may be tried."""
        try:
            yield
        except self._passes as error:
            self.errors.append(error)
            self._tell(f"    source {title} is passed over: {error.message}")

    def why(self, first: str) -> str:
        """Why the source that is taken is taken: `first` for the first one."""
        return f"{len(self.errors)} passed over" if self.errors else first

    @property
    def listed(self) -> str:
        """What each source said, a line each."""
        return "".join("\n  - " + error.message.replace("\n", "\n  ") for error in self.errors)

    def error(self, remedy: str | None = None) -> OhforgeError:
        """What to raise when no source is left. The only source's error is given as it is."""
        if len(self.errors) == 1 and not isinstance(self.errors[0], Offline):
            return self.errors[0]
        if self.errors and all(isinstance(error, Offline) for error in self.errors):
            return Offline(
                f"{self._wanted} would have to be downloaded, but ohforge.offline (or --offline) forbids all network traffic."
            )
        if self.errors and all(isinstance(error, ServerUnreached) for error in self.errors):
            return ServerUnreached(f"No source of {self._wanted} could be reached:{self.listed}")
        message = f"No source of {self._wanted} could be had:{self.listed}"
        for error in self.errors:
            if isinstance(error, IntegrityError):
                # A file that was refused for its hash weighs more than a server that was not there.
                return IntegrityError(message, remedy=error.remedy, **error.details)
        return NoSourceLeft(message, remedy=remedy)
