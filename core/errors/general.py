"""What any command can meet: wrong words, wrong settings, time, space, this machine, other processes, Ctrl-C."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from core.addresses import quoted
from core.errors.base import Category, Failure, OhforgeError


class UsageError(Failure):
    """The command was called with something that it does not know."""

    code = "OHF6401"
    category = Category.USAGE
    default_remedy = "Run the command with --help to see what it takes."


class UnknownName(UsageError):
    """A target, arch, board, model or version was named that does not exist; the nearest is shown."""

    code = "OHF6402"


class UnsafePath(UsageError):
    """A path cannot be passed through hdc unharmed (a quote, a newline or the like in it)."""

    code = "OHF6403"
    default_remedy = "Rename the file so that it has no quotes, newlines or control characters."


class UnlikeRecords(UsageError):
    """Two measurements cannot be compared: they were taken under unlike conditions, or one of them is not whole."""

    code = "OHF6406"
    default_remedy = "Measure again under the same conditions, or compare all the same with --anyway, which says so."


class UnlikeBoards(UsageError):
    """Boards among which work was to be spread are not of one kind: their answers and times cannot be one number."""

    code = "OHF6407"
    default_remedy = "Name boards of one kind with --boards, or give each kind a record of its own."


class ConfigurationError(Failure):
    """A setting has an unknown key or a value of the wrong kind."""

    code = "OHF6501"
    category = Category.CONFIGURATION
    default_remedy = "Correct the key in the file that is named; docs/configuration.md lists all keys."


class InvalidData(ConfigurationError):
    """A data file (recipe, profile, catalogue, tuning) does not have the form that it must have."""

    code = "OHF6502"
    default_remedy = "Correct the file; the message says which entry is wrong and what is expected."


class DeadlineExpired(Failure):
    """Something took longer than it was given; what it was is named."""

    code = "OHF7301"
    category = Category.TIMEOUT
    default_remedy = (
        "Give it more time with --timeout SECONDS, where the command has that, or by ohforge.timeouts. "
        "A board that answers nothing at all has to be restarted."
    )


class TakesTooLong(DeadlineExpired):
    """What was asked for would take longer than it may; it was not begun, or not gone on with."""

    code = "OHF7303"
    default_remedy = "Allow more with --at-most, or ask for less."


class NotEnoughSpace(Failure):
    """The disk (of the host or the board) has too little room."""

    code = "OHF7501"
    category = Category.SPACE
    default_remedy = "Free some space, or move the cache with OHFORGE_CACHE_DIR."


class HostToolMissing(Failure):
    """A program that ohforge needs is not on this machine; the message says how to install it."""

    code = "OHF7701"
    category = Category.HOST
    default_remedy = "Run `ohforge doctor` to see all that is missing."


class HostUnsupported(Failure):
    """This machine's kernel or policy forbids what the emulated board needs."""

    code = "OHF7702"
    category = Category.HOST
    default_remedy = "See docs/emulated-board.md for what to allow."


class CannotWrite(Failure):
    """A folder or file that must be written is read-only or belongs to someone else."""

    code = "OHF7703"
    category = Category.HOST
    default_remedy = (
        "Give yourself the right to write there, or choose other folders with OHFORGE_DATA_DIR and OHFORGE_CACHE_DIR."
    )


class Busy(Failure):
    """Another process holds what this one needs, and did not give it back in time."""

    code = "OHF7801"
    category = Category.BUSY
    default_remedy = "Wait for the other process, or end it."


class Interrupted(OhforgeError):
    """The user pressed Ctrl-C; what was running on the board was stopped."""

    code = "OHF7901"
    category = Category.INTERRUPTED
    default_remedy = "Run the command again; finished steps are not repeated."


class InternalError(Failure):
    """A defect in ohforge itself."""

    code = "OHF9901"
    category = Category.INTERNAL
    default_remedy = "Please report it with the traceback that --verbose shows."


DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def explain_exception(error: BaseException) -> OhforgeError:
    """Our error for an exception that nobody expected.

    A full disk can be met wherever something is written, and a name that is too long wherever one comes from outside.
    """
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        place = f"for {error.filename}" if error.filename else "on the disk, or where the output goes"
        return NotEnoughSpace(
            f"There is no room {place}: {error.strerror}.",
            remedy="Free some space, or move what is written: ohforge.runs_dir, ohforge.build_dir, OHFORGE_CACHE_DIR.",
        )
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return CannotWrite(
            f"No file or folder here can have the name {str(error.filename)[:300]!r}: it is too long.",
            remedy="Choose a shorter name, or another folder.",
        )
    # Python tells of full disks no other way where it looks for the folder of temporary files.
    if isinstance(error, FileNotFoundError) and "No usable temporary directory" in str(error):
        return NotEnoughSpace(
            f"Temporary files cannot be written: {error.strerror}.",
            remedy="Free some space, or name another folder with TMPDIR.",
        )
    return InternalError(f"{type(error).__name__}: {error}")


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence part such as ``did you mean 'llama'?``, or the list of what is known."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}? Known: {', '.join(names)}"
    return f"known: {', '.join(names) or 'none'}"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not among `known`, with the nearest one."""
    return UnknownName(f"There is no {kind} {quoted(name)}; {nearest(name, known)}.")
