"""Hashes of things that nobody publishes a hash for: recorded when first seen, compared ever after."""

from __future__ import annotations

import json
from pathlib import Path

from core.deadline import Deadline
from core.errors import IntegrityError
from core.files import write_json
from core.locks import hold
from core.session import Session


def check_first_seen(session: Session, name: str, sha256: str, *, published: bool = False) -> None:
    """Compares `sha256` with what was recorded for `name`, or records it and tells the user so.

    `published`: the server itself gave the hash, so recording it only guards against a later change.

    Raises IntegrityError, with both hashes, when the content is another one than at first.
    """
    file = first_seen_file(session)
    deadline = Deadline.after(session.settings.timeouts.lock, "the list of hashes seen before")
    with hold(file.with_name(f".{file.name}.lock"), deadline):
        known: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
        before = known.get(name)
        if before == sha256:
            return
        if before is not None:
            raise IntegrityError(
                f"{name} has sha256 {sha256}, but had {before} when it was first seen: it has been replaced.",
                remedy=f"If you trust the new content, remove the entry from {file} and run again.",
                expected=before,
                found=sha256,
            )
        write_json(file, {**known, name: sha256})
    if published:
        session.console.detail(f"sha256 of {name} is recorded and compared from now on: {sha256}")
        return
    session.console.warn(
        f"nobody publishes a hash of {name}; its sha256 {sha256} is recorded now and compared from now on."
    )


def recall_first_seen(session: Session, name: str) -> str:
    """The hash that was recorded for `name`; empty when there is none."""
    file = first_seen_file(session)
    known: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
    return known.get(name, "")


def first_seen_file(session: Session) -> Path:
    return session.settings.data / "first-seen.json"
