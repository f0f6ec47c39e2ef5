"""What each command prints, byte for byte, on which stream, and with which line ends."""

from __future__ import annotations

import re

import pytest

from tests.support.emulated import Hdc

VERSION = rb"Ver: \d\.\d\.\d[a-z]"


def test_the_version_is_one_line(hdc: Hdc) -> None:
    assert re.fullmatch(VERSION + rb"\n", hdc("-v").stdout)
    assert hdc("version").stdout == hdc("-v").stdout


def test_checkserver_names_both_versions(hdc: Hdc) -> None:
    assert re.fullmatch(
        rb"Client version:" + VERSION + rb", server version:" + VERSION + rb"\n", hdc("checkserver").stdout
    )


def test_targets_are_listed_one_a_line(hdc: Hdc) -> None:
    assert hdc.key.encode() in hdc("list", "targets").stdout.split(b"\n")
    assert b"\r" not in hdc("list", "targets").stdout


def test_a_key_makes_no_difference_to_the_list(hdc: Hdc) -> None:
    assert hdc("-t", "nobody", "list", "targets").stdout == hdc("list", "targets").stdout


def test_the_long_list_has_six_columns(hdc: Hdc) -> None:
    line = next(line for line in hdc("list", "targets", "-v").stdout.split(b"\n") if line.startswith(hdc.key.encode()))
    key, empty, kind, state, name, program = line.split(b"\t")
    assert (key, empty, state, program) == (hdc.key.encode(), b"", b"Connected", b"hdc")
    assert kind in (b"USB", b"TCP", b"UART", b"BT")
    assert name


def test_a_wrong_key_is_answered_on_standard_output_with_status_0(hdc: Hdc) -> None:
    answer = hdc("-t", "nobody", "shell", "echo hi ")
    assert answer.stdout.startswith(b"[Fail]Not match target founded, check connect-key please\r\n")
    assert (answer.stderr, answer.status) == (b"", 0)


def test_a_key_of_33_bytes_is_too_long(hdc: Hdc) -> None:
    answer = hdc("-t", "k" * 33, "shell", "id")
    assert (answer.stdout, answer.status) == (b"Sizeo of of parament '-t' 33 is too long\n", 0)


def test_any_is_no_key_but_a_command(hdc: Hdc) -> None:
    assert hdc("-t", "any", "shell", "id").stdout == b"[Fail]Unknown command...\n"


def test_an_unknown_word_gives_usage_on_the_other_stream(hdc: Hdc) -> None:
    answer = hdc("frobnicate")
    assert (answer.stdout, answer.status) == (b"Unknown operation command...\n", 0)
    assert answer.stderr


def test_usage_goes_to_standard_error_or_output_depending_on_the_word(hdc: Hdc) -> None:
    option, command = hdc("-h"), hdc("help")
    assert (option.stdout, bool(option.stderr)) == (b"", True)
    assert (bool(command.stdout), command.stderr) == (True, b"")


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("abc", b"[Fail]CreateConnect failed\r\n"),
        ("1.2.3:5555", b"[Fail][E001104]:IP address incorrect\n"),
        ("999.0.0.1:5555", b"[Fail][E001104]:IP address incorrect\n"),
        ("127.0.0.1:99999", b"[Fail]Port incorrect\n"),
        ("127.0.0.1:1", b"[Fail]Connect failed\r\n"),
    ],
)
def test_tconn_says_what_is_wrong_with_an_address(hdc: Hdc, key: str, answer: bytes) -> None:
    assert hdc("tconn", key).stdout == answer


def test_tconn_of_an_unknown_key_cannot_be_undone(hdc: Hdc) -> None:
    assert hdc("tconn", "127.0.0.1:2", "-remove").stdout == b"[Fail]No target available\r\n"


def test_forwards_are_added_listed_and_removed(hdc: Hdc) -> None:
    rule = ("tcp:19811", "tcp:19812")
    assert hdc("fport", "ls").stdout == b"[Empty]\r\n"
    assert hdc.board("fport", *rule) == b"Forwardport result:OK\r\n"
    try:
        assert hdc.board("fport", *rule) == b"[Fail]TCP Port listen failed at 19811\r\n"
        assert hdc("fport", "ls").stdout == hdc.key.encode() + b"    tcp:19811 tcp:19812    [Forward]\n"
    finally:
        removed = hdc("fport", "rm", *rule).stdout
    assert removed == b"Remove forward ruler success, ruler:tcp:19811 tcp:19812\r\n"
    again = hdc("fport", "rm", *rule).stdout
    assert again == b"[Fail]Remove forward ruler failed, ruler is not exist tcp:19811 tcp:19812\r\n"


def test_a_reverse_forward_is_listed_as_such(hdc: Hdc) -> None:
    assert hdc.board("rport", "tcp:19813", "tcp:19814") == b"Forwardport result:OK\r\n"
    assert b"tcp:19813 tcp:19814    [Reverse]\n" in hdc("fport", "ls").stdout
    hdc("fport", "rm", "tcp:19813", "tcp:19814")


def test_wrong_forwards_are_told_apart(hdc: Hdc) -> None:
    assert hdc.board("fport", "tcp:19815") == b"[Fail]Incorrect forward command\n"
    assert hdc.board("fport", "nothing:x", "tcp:19816") == b"[Fail]Forward parament failed\r\n"


def test_run_modes_are_answered_by_the_board(hdc: Hdc) -> None:
    assert hdc.board("tmode", "usb") == (
        b"[Fail][E001000]For USB debugging, please set it on the device's Settings UI\r\n"
    )
    assert hdc.board("tmode", "port", "5555") == b"Set device run mode successful.\r\n"
    assert hdc.board("tmode", "port", "close") == b""


def test_commands_that_print_nothing(hdc: Hdc) -> None:
    assert hdc("start").stdout == b""
    assert hdc("wait").stdout == b""
    assert hdc("-t", hdc.key, "wait").stdout == b""


def test_without_debuggable_programs_there_is_nothing_to_list(hdc: Hdc) -> None:
    assert hdc.board("jpid") == b"[Empty]\r\n"


def test_remounting_is_refused_or_done(hdc: Hdc) -> None:
    assert hdc.board("target", "mount") in (
        b"[Fail]Mount failed\r\n",
        b"[Fail]Operate need running as root\r\n",
        b"Mount finish\r\n",
        b"[Fail][E007100] Operate need running under debug mode\r\n",
    )


def test_an_unknown_shell_option_is_refused_by_the_server(hdc: Hdc) -> None:
    assert hdc.board("shell", "-c", "ls") == b"[Fail][E003003] Unsupport shell option: -c\n"


def test_an_unknown_bundle_is_refused(hdc: Hdc) -> None:
    assert hdc.board("shell", "-b", "com.example.none", "ls") == (
        b"[Fail][E003001] Invalid bundle name: com.example.none\r\n"
    )


@pytest.mark.parametrize(
    ("port", "words"),
    [
        ("99999", b"OHOS_HDC_SERVER_PORT 99999 is not in (0, 65535] range\n"),
        ("abc", b"OHOS_HDC_SERVER_PORT abc is not digit\n"),
    ],
)
def test_a_bad_server_port_is_told_on_standard_error(hdc: Hdc, port: str, words: bytes) -> None:
    changed = Hdc(argv=hdc.argv, environment={**hdc.environment, "OHOS_HDC_SERVER_PORT": port}, real=hdc.real)
    answer = changed("list", "targets")
    assert (answer.stdout, answer.stderr, answer.status) == (b"", words, 0)
