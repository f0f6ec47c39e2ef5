"""Every way in which ohforge can fail, as one tree of classes.

A class carries a code (``OHF`` + exit status + number), a category with its own exit status, and
a remedy. The catalogue page ``docs/errors.md`` is generated from this module, so a class docstring
is what a user reads there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, ClassVar


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
    transient: ClassVar[bool] = False
    """True when the same call may succeed if it is made again."""

    def __init__(self, message: str, *, remedy: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = self.default_remedy if remedy is None else remedy
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
            **({"details": self.details} if self.details else {}),
        }


# usage ---------------------------------------------------------------------------------------


class UsageError(OhforgeError):
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


class NothingToBuild(UsageError):
    """The folder that `invoke build --source` was given has no project that ohforge can build."""

    code = "OHF6404"
    default_remedy = "Name the folder that has CMakeLists.txt, meson.build, configure or a Makefile in it."


class NotASourceTree(UsageError):
    """A folder was named as an OpenHarmony source tree that is none, or one that was not synced whole."""

    code = "OHF6405"
    default_remedy = (
        "Name the folder that has build.sh and .gn with --tree; `repo sync -c` makes links that are missing."
    )


# configuration -------------------------------------------------------------------------------


class ConfigurationError(OhforgeError):
    """A setting has an unknown key or a value of the wrong kind."""

    code = "OHF6501"
    category = Category.CONFIGURATION
    default_remedy = "Correct the key in the file that is named; docs/configuration.md lists all keys."


class InvalidData(ConfigurationError):
    """A data file (recipe, profile, catalogue, tuning) does not have the form that it must have."""

    code = "OHF6502"
    default_remedy = "Correct the file; the message says which entry is wrong and what is expected."


# network -------------------------------------------------------------------------------------


class NetworkError(OhforgeError):
    """A download failed for a reason that may pass: no route, time-out, server fault."""

    code = "OHF6601"
    category = Category.NETWORK
    default_remedy = "Check the network and the proxy settings, then run the command again: it resumes."
    transient = True


class NotFoundOnServer(NetworkError):
    """The server answered that the file does not exist or may not be had (HTTP 4xx)."""

    code = "OHF6602"
    default_remedy = "Check the name or choose another source with --mirror."
    transient = False


class NotTheFile(NetworkError):
    """The server sent something other than the file, such as an HTML login page."""

    code = "OHF6603"
    default_remedy = "A proxy or a login page stands between; open the address in a browser to see it."
    transient = False


class Offline(NetworkError):
    """Something would have to be downloaded, but --offline forbids it."""

    code = "OHF6604"
    default_remedy = "Run once without --offline, or put the file in place with --archive."
    transient = False


class NoSourceLeft(NetworkError):
    """Every configured source was tried and none could give the file."""

    code = "OHF6605"
    transient = False


# integrity -----------------------------------------------------------------------------------


class IntegrityError(OhforgeError):
    """A file is not what it should be: its hash or size differs from the pinned one."""

    code = "OHF6701"
    category = Category.INTEGRITY
    default_remedy = (
        "The file was set aside and not used. Run again to fetch it anew; if it differs again, the source has changed."
    )


class HostileArchive(IntegrityError):
    """An archive holds entries that would escape its folder or are not plain files."""

    code = "OHF6702"
    default_remedy = "Do not use this archive; get it from another source."


class DamagedArchive(IntegrityError):
    """An archive ends early or cannot be read."""

    code = "OHF6703"
    default_remedy = "Remove the file and fetch it again."


# toolchain -----------------------------------------------------------------------------------


class ToolchainError(OhforgeError):
    """No usable compiler, or an SDK that is incomplete."""

    code = "OHF6801"
    category = Category.TOOLCHAIN
    default_remedy = "Run `invoke doctor` to see what is missing."


class SdkNotFound(ToolchainError):
    """No ohos-sdk is where it was looked for."""

    code = "OHF6802"
    default_remedy = "Install one with `invoke sdk.fetch`, name one with --sdk PATH, or use --toolchain zig."


class SdkIncomplete(ToolchainError):
    """A folder looks like an ohos-sdk but lacks files that every release has."""

    code = "OHF6803"
    default_remedy = (
        "Install the SDK again with `invoke sdk.fetch`; unpacking with a tool that drops links causes this."
    )


class TuningNotForArch(ToolchainError):
    """A CPU tuning was asked for that does not exist for the arch."""

    code = "OHF6804"
    default_remedy = "Choose a tuning that the message lists, or leave --cpu away."


class SdkNotForHost(ToolchainError):
    """No ohos-sdk is published that runs on this kind of machine."""

    code = "OHF6805"
    default_remedy = "Use --toolchain zig, which compiles for the board on this machine too, or another machine."


# build ---------------------------------------------------------------------------------------


class BuildError(OhforgeError):
    """Configuring or compiling a program failed; the log is kept."""

    code = "OHF6901"
    category = Category.BUILD
    default_remedy = "Read the log that is named; the first error in it is the cause."


class SourceError(BuildError):
    """A source tree lacks files that the recipe needs."""

    code = "OHF6902"
    default_remedy = "Use the pinned version of the recipe, or correct the recipe's list of required files."


class ProductMissing(BuildError):
    """The build ended well but did not leave a product that the recipe names."""

    code = "OHF6903"
    default_remedy = "Correct the product's path in the recipe; the message lists what was built."


class UnfitProduct(BuildError):
    """The build left a file for another arch, or one that mixes float ABIs."""

    code = "OHF6904"
    default_remedy = "Look in the build log for flags that change the target; the toolchain file must set it alone."


class DamagedProgram(BuildError):
    """A program file is cut short or damaged."""

    code = "OHF6905"
    default_remedy = "Build or copy the file again."


class SourceBuildFailed(BuildError):
    """build.sh of an OpenHarmony source tree failed; the message says why when the failure is a known one."""

    code = "OHF6906"
    default_remedy = "Read the log that is named; `invoke source.explain LOG` says what is known of another log."


# board ---------------------------------------------------------------------------------------


class BoardError(OhforgeError):
    """A board cannot be used."""

    code = "OHF7001"
    category = Category.BOARD
    default_remedy = "Check the cable and `hdc list targets`."


class NoBoard(BoardError):
    """No board is connected, or not the one that was named."""

    code = "OHF7002"
    default_remedy = "Connect the board, or use the emulated one with --board dayu200."


class SeveralBoards(BoardError):
    """More than one board is connected and none was chosen."""

    code = "OHF7003"
    default_remedy = "Say which one with --board SERIAL."


class HdcNotFound(BoardError):
    """The hdc program is not there or cannot be executed."""

    code = "OHF7004"
    default_remedy = "Install the SDK's toolchains with `invoke sdk.fetch`, or set ohforge.hdc to the program's path."


class BoardUnauthorised(BoardError):
    """The board has not (or not yet) accepted this computer's key."""

    code = "OHF7005"
    default_remedy = "Confirm the dialog on the board's screen, then run again."


class BoardOffline(BoardError):
    """The board is known to hdc but does not answer."""

    code = "OHF7006"
    default_remedy = "Reconnect the board; for a TCP board run `hdc tconn ADDRESS`."
    transient = True


class HdcServerError(BoardError):
    """The hdc server cannot be started or reached."""

    code = "OHF7007"
    default_remedy = "See whether another program uses the port; set OHOS_HDC_SERVER_PORT to a free one."


class WrongArch(BoardError):
    """A program is built for something that the board cannot run."""

    code = "OHF7008"
    default_remedy = "Build for an arch that the board runs: `invoke board.info` lists them."


class MissingLibrary(BoardError):
    """A program needs a shared library or loader that neither the artifact nor the board has."""

    code = "OHF7009"
    default_remedy = "Build with --static, or push the library beside the program."


class PermissionOnBoard(BoardError):
    """The board refuses to write or to execute there."""

    code = "OHF7010"
    default_remedy = "Use a folder below /data/local/tmp; other places are read-only or not executable."


class RemoteFolderMissing(BoardError):
    """A folder that a command or a file needs is not on the board and could not be made."""

    code = "OHF7011"
    default_remedy = "Make the folder first with `invoke board.shell -- mkdir -p FOLDER`."


class AgentUnavailable(BoardError):
    """What was asked for needs the agent on the board, and it cannot be built or does not run there."""

    code = "OHF7012"
    default_remedy = (
        "Leave away what needs the agent (`--sample`, `--run-engine agent`), or remove the cause that is named."
    )


# transfer ------------------------------------------------------------------------------------


class TransferError(OhforgeError):
    """A file did not reach the other side whole."""

    code = "OHF7101"
    category = Category.TRANSFER
    default_remedy = "Run again: files that already arrived are not sent twice."
    transient = True


class RemoteFileMissing(TransferError):
    """The file to be pulled is not on the board."""

    code = "OHF7102"
    default_remedy = "List the folder with `invoke board.shell -- ls -l FOLDER`."
    transient = False


class ContentDiffers(TransferError):
    """A file arrived, but with another content than was sent, twice in a row."""

    code = "OHF7103"
    default_remedy = "The link or the storage corrupts data: try another cable, port or folder."
    transient = False


# run -----------------------------------------------------------------------------------------


class RunError(OhforgeError):
    """A program could not be started on the board, or its output could not be understood."""

    code = "OHF7201"
    category = Category.RUN
    default_remedy = "Read the output in the run record."


class ProgramFailed(RunError):
    """The model's program ended with a status other than 0."""

    code = "OHF7202"


class ProgramCrashed(RunError):
    """The model's program was ended by a signal."""

    code = "OHF7203"
    default_remedy = "SIGILL means a CPU tuning that the board lacks (build with --cpu generic); SIGKILL often means too little memory."


class ConditionsNotMet(RunError):
    """A program was not started, because the board refuses a limit, CPUs or a niceness that were asked for."""

    code = "OHF7204"
    default_remedy = "Ask for less: a limit cannot be above the board's own, and a niceness below 0 is for root."


# timeout, lost connection, space, model, host, busy, interrupted, internal ------------------------


class DeadlineExpired(OhforgeError):
    """Something took longer than it was given; what it was is named."""

    code = "OHF7301"
    category = Category.TIMEOUT
    default_remedy = "Give it more time with --timeout SECONDS."


class LostConnection(OhforgeError):
    """The link to the board ended in the middle; whether the command finished is not known."""

    code = "OHF7401"
    category = Category.LOST_CONNECTION
    default_remedy = "Reconnect the board and run again; what still runs there is named in the message."


class NotEnoughSpace(OhforgeError):
    """The disk (of the host or the board) has too little room."""

    code = "OHF7501"
    category = Category.SPACE
    default_remedy = "Free some space, or move the cache with OHFORGE_CACHE_DIR."


class NoSpaceOnBoard(NotEnoughSpace):
    """The board's storage has too little room for the files that must be pushed."""

    code = "OHF7502"
    default_remedy = "Free space on the board; `invoke board.clean` removes what ohforge put there."


class ModelError(OhforgeError):
    """A model file is missing, empty, cut short or of a kind that is not known."""

    code = "OHF7601"
    category = Category.MODEL
    default_remedy = "Fetch the model again; `invoke model.list` shows those that can be had by name."


class HostToolMissing(OhforgeError):
    """A program that ohforge needs is not on this machine; the message says how to install it."""

    code = "OHF7701"
    category = Category.HOST
    default_remedy = "Run `invoke doctor` to see all that is missing."


class HostUnsupported(OhforgeError):
    """This machine's kernel or policy forbids what the emulated board needs."""

    code = "OHF7702"
    category = Category.HOST
    default_remedy = "See docs/emulated-board.md for what to allow."


class CannotWrite(OhforgeError):
    """A folder or file that must be written is read-only or belongs to someone else."""

    code = "OHF7703"
    category = Category.HOST
    default_remedy = (
        "Give yourself the right to write there, or choose other folders with OHFORGE_DATA_DIR and OHFORGE_CACHE_DIR."
    )


class TreeNotReady(OhforgeError):
    """This machine or the OpenHarmony source tree lacks something without which a build can only fail."""

    code = "OHF7704"
    category = Category.HOST
    default_remedy = "Run `invoke source.check` to see all that was looked at."


class Busy(OhforgeError):
    """Another process holds what this one needs, and did not give it back in time."""

    code = "OHF7801"
    category = Category.BUSY
    default_remedy = "Wait for the other process, or end it."
    transient = True


class BoardBusy(Busy):
    """Someone else uses the board; who, for what and since when is named."""

    code = "OHF7802"
    default_remedy = (
        "Wait longer with --wait SECONDS, ask the holder, or take the board with `invoke board.unlock --force`."
    )


class Interrupted(OhforgeError):
    """The user pressed Ctrl-C; what was running on the board was stopped."""

    code = "OHF7901"
    category = Category.INTERRUPTED
    default_remedy = "Run the command again; finished steps are not repeated."


class InternalError(OhforgeError):
    """A defect in ohforge itself."""

    code = "OHF9901"
    category = Category.INTERNAL
    default_remedy = "Please report it with the traceback that --verbose shows."


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
    return UnknownName(f"There is no {kind} {name!r}; {nearest(name, known)}.")


def all_errors() -> Iterator[type[OhforgeError]]:
    """Every error class that has a code, by code."""

    def below(cls: type[OhforgeError]) -> Iterator[type[OhforgeError]]:
        yield cls
        for sub in cls.__subclasses__():
            yield from below(sub)

    return iter(sorted((c for c in below(OhforgeError) if c.code), key=lambda c: c.code))
