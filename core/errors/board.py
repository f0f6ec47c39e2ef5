"""Boards: reaching one, files on their way, runs."""

from __future__ import annotations

from core.errors.base import Category, Failure
from core.errors.general import Busy, DeadlineExpired, NotEnoughSpace


class BoardError(Failure):
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
    default_remedy = "Install the SDK's toolchains with `ohforge sdk.fetch`, or set ohforge.hdc to the program's path."


class BoardUnauthorised(BoardError):
    """The board has not (or not yet) accepted this computer's key."""

    code = "OHF7005"
    default_remedy = "Confirm the dialog on the board's screen, then run again."


class BoardOffline(BoardError):
    """The board is known to hdc but does not answer."""

    code = "OHF7006"
    default_remedy = "Reconnect the board; for a TCP board run `hdc tconn ADDRESS`."


class HdcServerError(BoardError):
    """The hdc server cannot be started or reached."""

    code = "OHF7007"
    default_remedy = "See whether another program uses the port; set OHOS_HDC_SERVER_PORT to a free one."


class WrongArch(BoardError):
    """A program is built for something that the board cannot run."""

    code = "OHF7008"
    default_remedy = "Build for an arch that the board runs: `ohforge board.info` lists them."


class MissingLibrary(BoardError):
    """A program needs a shared library or loader that neither the artifact nor the board has."""

    code = "OHF7009"
    default_remedy = "Build with --static, or push the library beside the program."


class PermissionOnBoard(BoardError):
    """The board refuses to write or to execute there."""

    code = "OHF7010"
    default_remedy = (
        "Use a folder below /data/local/tmp; when that refuses too, `ohforge board.shell mount` shows whether its storage is "
        "read-only, which a restart of the board may end."
    )


class RemoteFolderMissing(BoardError):
    """A folder that a command or a file needs is not on the board and could not be made."""

    code = "OHF7011"
    default_remedy = "Make the folder first with `ohforge board.shell -- mkdir -p FOLDER`."


class AgentUnavailable(BoardError):
    """What was asked for needs the agent on the board, and it cannot be built or does not run there."""

    code = "OHF7012"
    default_remedy = (
        "Leave away what needs the agent (`--sample`, `--run-engine agent`), or remove the cause that is named."
    )


class HostKeyNotTrusted(BoardError):
    """The host that answers for an SSH board shows a key that is not known, or not the one that is known."""

    code = "OHF7013"
    default_remedy = "Compare the key that is shown with that of the board, then accept it once: `ohforge board.info --board BOARD --accept-new`."


class LabUnreached(Failure):
    """The coordinator of a lab does not answer, or what answers is no labgrid coordinator."""

    code = "OHF6630"
    category = Category.NETWORK
    default_remedy = "Check ohforge.lab (HOST:PORT), and that `labgrid-client -x HOST:PORT places` answers; labgrid must be 25.0 or newer there."


class TransferError(Failure):
    """A file did not reach the other side whole."""

    code = "OHF7101"
    category = Category.TRANSFER
    default_remedy = "Run again: files that already arrived are not sent twice."


class RemoteFileMissing(TransferError):
    """The file to be pulled is not on the board."""

    code = "OHF7102"
    default_remedy = "List the folder with `ohforge board.shell -- ls -l FOLDER`."


class ContentDiffers(TransferError):
    """A file arrived, but with another content than was sent, twice in a row."""

    code = "OHF7103"
    default_remedy = "The link or the storage corrupts data: try another cable, port or folder."


class RunError(Failure):
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
    """A program was not started, because the board refuses limits, CPUs, a niceness or clocks that were asked for, or shows no temperature."""

    code = "OHF7204"
    default_remedy = "Ask for less: a limit cannot be above the board's own, and a niceness below 0 is for root."


class LostConnection(Failure):
    """The link to the board ended in the middle; whether the command finished is not known."""

    code = "OHF7401"
    category = Category.LOST_CONNECTION
    default_remedy = "Reconnect the board and run again; what still runs there is named in the message."


class ForwardLost(LostConnection):
    """A port of the board is no longer forwarded to this computer, while a program was using it."""

    code = "OHF7402"
    default_remedy = "See whether another program has ended the hdc server (`hdc kill`), and whether the board is still connected; then run again."


class AllBoardsLost(LostConnection):
    """Every board among which work was spread has failed again and again and was given up; what was done is kept."""

    code = "OHF8001"
    category = Category.ALL_BOARDS_LOST
    default_remedy = "Make the boards ready again, and go on with --resume, naming others with --boards if need be."


class TransferStalled(DeadlineExpired):
    """Nothing more of a file arrives: the board is frozen, or the link is dead without a word."""

    code = "OHF7302"
    default_remedy = "Unplug the board and connect it again, or restart it when it is frozen; then push again: it goes on from what is there."


class NoSpaceOnBoard(NotEnoughSpace):
    """The board's storage has too little room for the files that must be pushed."""

    code = "OHF7502"
    default_remedy = "Free space on the board; `ohforge board.clean` removes what ohforge put there."


class NotEnoughMemory(NotEnoughSpace):
    """The model's file alone is larger than the board's memory."""

    code = "OHF7503"
    default_remedy = "Take a smaller model or quantisation (`ohforge model.inspect` tells what one needs), or set ohforge.require_memory to false to try it all the same."


class BoardBusy(Busy):
    """Someone else uses the board; who, for what and since when is named."""

    code = "OHF7802"
    default_remedy = (
        "Wait longer with --wait SECONDS, ask the holder, or take the board with `ohforge board.unlock --force`."
    )
