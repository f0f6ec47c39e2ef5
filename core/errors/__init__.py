"""Every way in which ohforge can fail, as one tree of classes.

A class carries a code (``OHF`` + exit status + number), a category with its own exit status, and
a remedy. The catalogue page ``docs/errors.md`` is generated from these classes, so a class docstring
is what a user reads there.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.errors.base import Category, OhforgeError
from core.errors.board import (
    AgentUnavailable,
    BoardBusy,
    BoardError,
    BoardOffline,
    BoardUnauthorised,
    ConditionsNotMet,
    ContentDiffers,
    HdcNotFound,
    HdcServerError,
    LostConnection,
    MissingLibrary,
    NoBoard,
    NoSpaceOnBoard,
    NotEnoughMemory,
    PermissionOnBoard,
    ProgramCrashed,
    ProgramFailed,
    RemoteFileMissing,
    RemoteFolderMissing,
    RunError,
    SeveralBoards,
    TransferError,
    WrongArch,
)
from core.errors.general import (
    DISK_FULL,
    Busy,
    CannotWrite,
    ConfigurationError,
    DeadlineExpired,
    HostToolMissing,
    HostUnsupported,
    InternalError,
    Interrupted,
    InvalidData,
    NotEnoughSpace,
    UnknownName,
    UnsafePath,
    UsageError,
    explain_exception,
    nearest,
    unknown_name,
)
from core.errors.making import (
    BuildError,
    DamagedArchive,
    DamagedProgram,
    HostileArchive,
    IntegrityError,
    ModelError,
    NetworkError,
    NoSourceLeft,
    NotASourceTree,
    NotFoundOnServer,
    NothingToBuild,
    NotTheFile,
    Offline,
    ProductMissing,
    SdkIncomplete,
    SdkNotForHost,
    SdkNotFound,
    ServerUnreached,
    SourceBuildFailed,
    SourceError,
    ToolchainError,
    TreeNotReady,
    TuningNotForArch,
    UnfitProduct,
)

__all__ = [
    "DISK_FULL",
    "AgentUnavailable",
    "BoardBusy",
    "BoardError",
    "BoardOffline",
    "BoardUnauthorised",
    "BuildError",
    "Busy",
    "CannotWrite",
    "Category",
    "ConditionsNotMet",
    "ConfigurationError",
    "ContentDiffers",
    "DamagedArchive",
    "DamagedProgram",
    "DeadlineExpired",
    "HdcNotFound",
    "HdcServerError",
    "HostToolMissing",
    "HostUnsupported",
    "HostileArchive",
    "IntegrityError",
    "InternalError",
    "Interrupted",
    "InvalidData",
    "LostConnection",
    "MissingLibrary",
    "ModelError",
    "NetworkError",
    "NoBoard",
    "NoSourceLeft",
    "NoSpaceOnBoard",
    "NotASourceTree",
    "NotEnoughMemory",
    "NotEnoughSpace",
    "NotFoundOnServer",
    "NotTheFile",
    "NothingToBuild",
    "Offline",
    "OhforgeError",
    "PermissionOnBoard",
    "ProductMissing",
    "ProgramCrashed",
    "ProgramFailed",
    "RemoteFileMissing",
    "RemoteFolderMissing",
    "RunError",
    "SdkIncomplete",
    "SdkNotForHost",
    "SdkNotFound",
    "ServerUnreached",
    "SeveralBoards",
    "SourceBuildFailed",
    "SourceError",
    "ToolchainError",
    "TransferError",
    "TreeNotReady",
    "TuningNotForArch",
    "UnfitProduct",
    "UnknownName",
    "UnsafePath",
    "UsageError",
    "WrongArch",
    "all_errors",
    "explain_exception",
    "nearest",
    "unknown_name",
]


def all_errors() -> Iterator[type[OhforgeError]]:
    """Every error class that has a code, by code."""

    def below(cls: type[OhforgeError]) -> Iterator[type[OhforgeError]]:
        yield cls
        for sub in cls.__subclasses__():
            yield from below(sub)

    return iter(sorted((c for c in below(OhforgeError) if c.code), key=lambda c: c.code))
