"""Where the source of a program comes from, and what pins it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from core.files import sha256_json
from native.source.tree import hash_sources


@dataclass(frozen=True, kw_only=True)
class PypiSdist:
    """A source distribution on the Python package index, or below one of its folders."""

    kind: ClassVar[str] = "pypi-sdist"
    project: str
    version: str
    file: str
    sha256: str
    size: int = 0
    """Bytes; 0 when not known."""
    subfolder: str = ""
    """The tree within the archive's top folder."""
    exclude: tuple[str, ...] = ()
    """Glob patterns of files, relative to the tree, that are not needed."""

    @property
    def pin(self) -> str:
        return f"{self.kind}:{self.file}:{self.sha256}"


@dataclass(frozen=True, kw_only=True)
class GithubArchive:
    """A repository's tree at a commit or tag, as the archive service packs it."""

    kind: ClassVar[str] = "github-archive"
    repository: str
    ref: str
    sha256: str = ""
    """Empty: recorded when the archive is first seen, and compared ever after."""
    subfolder: str = ""
    exclude: tuple[str, ...] = ()

    @property
    def pin(self) -> str:
        return f"{self.kind}:{self.repository}@{self.ref}"


@dataclass(frozen=True, kw_only=True)
class FolderSource:
    """Sources that lie beside the recipe, or a project of the user's."""

    kind: ClassVar[str] = "folder"
    path: Path
    leave_out: tuple[Path, ...] = ()
    """Folders below it that are no source, such as the one for builds."""

    @property
    def pin(self) -> str:
        return f"{self.kind}:{hash_sources(self.path, self.leave_out)}"


Source = PypiSdist | GithubArchive | FolderSource


class Sourced(Protocol):
    """What is fetched: the sources that have it, and what its tree must contain."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def sources(self) -> tuple[Source, ...]: ...

    @property
    def requires(self) -> tuple[str, ...]:
        """Files and folders that the tree has when it is whole."""


def source_pin(wanted: Sourced) -> str:
    """What identifies the source, without fetching it. For a folder: the hash of its content."""
    return sha256_json([source.pin for source in wanted.sources])
