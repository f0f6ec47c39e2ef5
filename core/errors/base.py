"""The root of all errors, and the categories with their exit statuses."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from core.addresses import plain_without_secrets, without_secrets


class Category(Enum):
    """Kinds of failure; the value is the exit status (64 to 99 are ours, all else is a program's)."""

    USAGE = 64
    CONFIGURATION = 65
    NETWORK = 66
    INTEGRITY = 67
    TOOLCHAIN = 68
    BUILD = 69
    BOARD = 70
    TRANSFER = 71
    RUN = 72
    TIMEOUT = 73
    LOST_CONNECTION = 74
    SPACE = 75
    MODEL = 76
    HOST = 77
    BUSY = 78
    INTERRUPTED = 79
    ALL_BOARDS_LOST = 80
    INTERNAL = 99

    @property
    def label(self) -> str:
        """The category as it stands in JSON and documentation, for example ``lost connection``."""
        return self.name.lower().replace("_", " ")


class OhforgeError(Exception):
    """Base of all errors that ohforge raises on purpose."""

    code: ClassVar[str] = ""
    category: ClassVar[Category] = Category.INTERNAL
    default_remedy: ClassVar[str] = ""

    def __init__(self, message: str, *, remedy: str | None = None, **details: Any) -> None:
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.remedy = without_secrets(self.default_remedy if remedy is None else remedy)
        self.details = details

    @property
    def exit_status(self) -> int:
        return self.category.value

    def as_json(self) -> dict[str, Any]:
        """The ``error`` object of every ``--json`` answer."""
        return {
            "code": self.code,
            "category": self.category.label,
            "message": self.message,
            "remedy": self.remedy,
            **({"details": plain_without_secrets(self.details)} if self.details else {}),
        }


class Failure(OhforgeError):
    """Something went wrong. What may fail is caught by this: the user's Ctrl-C is no failure, and never passed over."""
