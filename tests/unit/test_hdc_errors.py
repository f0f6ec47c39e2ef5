"""What hdc says, in the words of its versions, and what we make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidData, TransferError
from deploy import hdc_errors
from deploy.hdc_errors import find_fault, make_error, read_faults, without_log_lines

# (operation, what hdc prints, id of the entry, class, transient), texts as hdc 1.2.0a to 3.2.0f print them.
SAID = [
    ("shell", "Connect server failed\n", "server-unreachable", "HdcServerError", False),
    ("list", "OHOS_HDC_SERVER_PORT 99999 is not in (0, 65535] range\n", "server-port-invalid", "HdcServerError", False),
    ("list", "OHOS_HDC_SERVER_PORT abc is not digit\n", "server-port-invalid", "HdcServerError", False),
    ("shell", "[Fail]Not match target founded, check connect-key please\r\n", "unknown-key", "NoBoard", False),
    (
        "shell",
        "[Fail]Not match target founded, check connect-key please\r\n"
        "[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n",
        "unknown-key",
        "NoBoard",
        False,
    ),
    ("shell", "[Fail]ExecuteCommand need connect-key?\r\n", "no-key-given", "NoBoard", False),
    (
        "shell",
        "[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n",
        "no-key-given",
        "NoBoard",
        False,
    ),
    ("shell", "[Fail][E001005] Device not found or connected\r\n", "offline", "BoardOffline", True),
    ("send", "[Fail]Device not founded or connected\r\n", "offline", "BoardOffline", True),
    (
        "shell",
        "[Fail][E000004]:The communication channel is being established.\r\n"
        "Please wait for several seconds and try again.\r\n",
        "session-starting",
        "BoardOffline",
        True,
    ),
    (
        "shell",
        "[Fail][E000002]:The device unauthorized.\r\nThis server's public key is not set.\r\n"
        "Please check for a confirmation dialog on your device.\r\nOtherwise try 'hdc kill' if that seems wrong.\r\n",
        "not-authorised",
        "BoardUnauthorised",
        False,
    ),
    (
        "shell",
        "[Fail][E000003]:The device unauthorized.\r\nThe user denied the access for the device.\r\n"
        "Please execute 'hdc kill' and redo your command,\r\nthen check for a confirmation dialog on your device.\r\n",
        "access-refused",
        "BoardUnauthorised",
        False,
    ),
    (
        "shell",
        "[Fail][E000010]:Auth failed, cannt login the device.\r\n",
        "authorisation-failed",
        "BoardUnauthorised",
        False,
    ),
    ("send", "[Fail][E002106] Failed to communicate with daemon\r\n", "daemon-unreachable", "BoardOffline", True),
    ("shell", "[Fail]Failed to communicate with daemon\r\n", "daemon-unreachable", "BoardOffline", True),
    (
        "shell",
        "[Fail][E001003] USB communication abnormal, please check the USB communication link.\r\n",
        "usb-disturbed",
        "BoardOffline",
        True,
    ),
    ("shell", "[Fail]No target available\r\n", "no-target", "NoBoard", False),
    ("shell", "Sizeo of of parament '-t' 33 is too long\n", "key-too-long", "NoBoard", False),
    ("connect", "[Fail][E001104]:IP address incorrect\n", "address-incorrect", "NoBoard", False),
    ("connect", "[Fail]CreateConnect failed\r\n", "address-incorrect", "NoBoard", False),
    ("connect", "[Fail]Connect failed\r\n", "connect-failed", "BoardOffline", True),
    (
        "send",
        "[Fail]Transfer Stop at:837222/9000000(Bytes), Reason: no space left on device\r\n",
        "no-space",
        "NoSpaceOnBoard",
        False,
    ),
    (
        "send",
        "[Fail]Error opening file: read-only file system, path:/system/x\r\n",
        "read-only",
        "PermissionOnBoard",
        False,
    ),
    (
        "send",
        "[Fail]Error opening file: permission denied, path:/data/x\r\n",
        "permission-denied",
        "PermissionOnBoard",
        False,
    ),
    (
        "send",
        "[Fail][E005005] Error create directory: permission denied, path:/da******o/t(L:20)\r\n",
        "permission-denied",
        "PermissionOnBoard",
        False,
    ),
    ("send", "[Fail]Error create directory, path:/data/x/y\r\n", "folder-missing", "RemoteFolderMissing", False),
    ("send", "[Fail]Error opening file: text file is busy, path:/data/x\r\n", "file-busy", "Busy", False),
    (
        "send",
        "[Fail]Error opening file: no such file or directory, path:/data/no/x\r\n",
        "folder-missing",
        "RemoteFolderMissing",
        False,
    ),
    (
        "receive",
        "[Fail]Error opening file: no such file or directory, path:/data/no/x\r\n",
        "source-missing",
        "RemoteFileMissing",
        False,
    ),
    (
        "send",
        "[Fail]Transfer Stop at:0/4096(Bytes), Reason: illegal operation on a directory\n",
        "folder-link",
        "TransferError",
        False,
    ),
    ("send", "[Fail]Not a directory, path:/data/x\r\n", "not-a-folder", "TransferError", False),
    ("send", "[Fail]Operation failed, because the source folder is empty.\n", "empty-folder", "UsageError", False),
    ("send", "[Fail][E005008] Operation not allowed\r\n", "protected-folder", "PermissionOnBoard", False),
    ("send", "[Fail]Unknown file option: -q\n", "option-unknown", "HdcServerError", False),
    ("shell", "[Fail][E003003] Unsupport shell option: -c\n", "option-unknown", "HdcServerError", False),
    ("shell", "[Fail][E003001] Invalid bundle name: b\r\n", "bundle", "BoardError", False),
    ("shell", "[Fail]Unknown command...\n", "command-unknown", "HdcServerError", False),
    ("list", "Unknown operation command...\n", "command-unknown", "HdcServerError", False),
    ("shell", "start shell failed -1: Argument list too long\n", "argument-list-too-long", "UsageError", False),
    ("send", "[Fail][E00C001] blocked\r\n", "blocked-by-administrator", "PermissionOnBoard", False),
]


@pytest.mark.parametrize(("during", "text", "name", "error", "transient"), SAID)
def test_every_known_text_has_its_error(during: str, text: str, name: str, error: str, transient: bool) -> None:
    fault = find_fault(text, during)
    assert fault is not None
    assert (fault.id, fault.error.__name__, fault.transient) == (name, error, transient)


def test_every_entry_has_a_text_that_it_was_made_for() -> None:
    # Entries whose text is documented by its code only.
    by_code = {"server-start-failed", "hdc-too-old", "key-unreadable", "same-or-newer", "stopped", "path-missing"}
    assert {fault.id for fault in read_faults()} == {name for _, _, name, _, _ in SAID} | by_code


def test_an_error_says_what_board_what_it_means_and_what_hdc_said() -> None:
    text = "[Fail]Error opening file: read-only file system, path:/system/x\r\n"
    error = make_error(find_fault(text, "send"), text, subject="Board K, sending x")
    assert error.message.startswith("Board K, sending x: the file system is read-only.")
    assert "[Fail]Error opening file" in error.message
    assert "/data/local/tmp" in error.remedy


def test_a_text_that_is_not_in_the_table_is_shown_as_it_is() -> None:
    error = make_error(None, "[Fail]something new\r\n", subject="Board K", otherwise=TransferError)
    assert type(error) is TransferError
    assert "[Fail]something new" in error.message


def test_lines_that_hdc_logs_are_no_answer() -> None:
    text = "[W][2026-01-31 12:00:00] hot\nFileTransfer finish, Size:1, File count = 1\n[F][2026-01-31 12:00:01] x"
    assert without_log_lines(text) == "FileTransfer finish, Size:1, File count = 1\n"


def test_an_entry_of_another_form_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("- {id: odd, pattern: x, error: NoSuchError, meaning: m}\n")
    monkeypatch.setattr(hdc_errors, "TABLE", table)
    read_faults.cache_clear()
    with pytest.raises(InvalidData, match="odd"):
        read_faults()
    read_faults.cache_clear()
