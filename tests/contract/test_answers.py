"""What each command prints, byte for byte, on which stream, and with which line ends."""

from __future__ import annotations

import re
import time

import pytest

from tests.support.emulated import Hdc

NO_TERMINAL = rb"\[W\]\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Not support stdio TTY mode\n"
AFTER_7_0 = {
    b"The port must be digit buf:abc\n": b"The port must be digit str:abc\n",
    b"The port-string's length must < 5\n": b"The port-string's length must be in [1, 5]\n",
    b"127.0.0.1:": b"The port-string's length must be in [1, 5]\n",
    b"127.0.0.1:99999": b"Port range incorrect\n",
    b"[Fail]Error tmode command\n": b"[Fail]Error input parameter\n",
}
"""What hdc's main branch says after 7.0 in place of a text, or to an argument; the version is still that of 7.0."""
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
        ("::1:5555", b"[Fail][E001104]:IP address incorrect\n"),
        (":5555", b"[Fail][E001104]:IP address incorrect\n"),
        ("127.0.0.1:", b"[Fail]Port incorrect\n"),
        ("127.0.0.1:http", b"[Fail]Port incorrect\n"),
        ("127.0.0.1:99999", b"[Fail]IP:Port incorrect\n"),
        ("127.0.0.1:0", b"[Fail]IP:Port incorrect\n"),
        ("127.0.0.1:1", b"[Fail]Connect failed\r\n"),
        ("localhost:1", b"[Fail]Connect failed\r\n"),
        ("k" * 51, b"[Fail]Error connect key's size\n"),
    ],
)
def test_tconn_says_what_is_wrong_with_an_address(hdc: Hdc, key: str, answer: bytes) -> None:
    assert hdc("tconn", key).stdout == answer


def test_tconn_of_an_unknown_key_cannot_be_undone(hdc: Hdc) -> None:
    assert hdc("tconn", "127.0.0.1:2", "-remove").stdout == b"[Fail]No target available\r\n"
    assert hdc("tconn", "999.0.0.1:2", "-remove").stdout == b"[Fail][E001104]:IP address incorrect\n"


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
    for words in (("nothing:x", "tcp:19816"), ("19815", "tcp:19816")):
        assert hdc.board("fport", *words) == b"[Fail]Incorrect forward command\n"
    for words in (("tcp:19815",), ("tcp:0", "tcp:19816"), ("tcp:99999", "tcp:19816"), ("tcp:19815", "19816")):
        assert hdc.board("fport", *words) == b"[Fail]Forward parament failed\r\n"
    assert hdc.board("fport") == b"[Fail]Unknown command...\n"


def test_run_modes_are_answered_by_the_board(hdc: Hdc) -> None:
    assert hdc.board("tmode", "usb") == (
        b"[Fail][E001000]For USB debugging, please set it on the device's Settings UI\r\n"
    )
    assert hdc.board("tmode", "port", "5555") == b"Set device run mode successful.\r\n"
    assert hdc.board("tmode", "port", "close") == b""
    assert hdc.board("tmode", "port", "55x") == b"[Fail][E001100]Invalid port\r\n"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ((), b"[Fail]Error tmode command\n"),
        (("uart",), b"[Fail]Error tmode command\n"),
        (("usb", "now"), b"[Fail]Error tmode command\n"),
        (("port", "0"), b"[Fail]Incorrect port range\n"),
        (("port", "65536"), b"[Fail]Incorrect port range\n"),
        (("port", "none"), b"[Fail]Incorrect port range\n"),
    ],
)
def test_wrong_run_modes_are_found_by_the_server(hdc: Hdc, words: tuple[str, ...], answer: bytes) -> None:
    assert hdc.board("tmode", *words) in (answer, *after_7_0(hdc, answer))


def test_commands_that_print_nothing(hdc: Hdc) -> None:
    assert hdc("start").stdout == b""
    assert hdc("wait").stdout == b""
    assert hdc("-t", hdc.key, "wait").stdout == b""
    assert hdc("waiting").stdout == b""


def test_wait_for_a_key_that_never_comes_never_ends(hdc: Hdc) -> None:
    other = Hdc(argv=hdc.argv, environment=hdc.environment, key="nobody", real=hdc.real)
    process = other.start("wait")
    time.sleep(2.5)
    assert process.poll() is None
    process.kill()
    assert process.communicate() == (b"", b"")


def test_the_log_is_streamed_whatever_stands_behind_the_word(hdc: Hdc) -> None:
    process = hdc.start("hilog", "-x")
    time.sleep(2.0)
    assert process.poll() is None
    process.kill()
    process.communicate()
    assert hdc.board("hilog", "-h") != b""


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
    ("words", "answer"),
    [
        (("-b",), b"[E003005] The parameter is missing, correct your input by referring below:\n"),
        (("-b", "no/name", "ls"), b"[E003001] Invalid bundle name: no/name\n"),
        (("-b", "com.example.none"), b"[E003001] Invalid bundle name: com.example.none\r\n"),
    ],
)
def test_what_stands_behind_the_bundle_option_is_looked_at_by_the_server(
    hdc: Hdc, words: tuple[str, ...], answer: bytes
) -> None:
    lines = hdc.board("shell", *words).splitlines(keepends=True)
    if "ls" not in words:
        assert re.fullmatch(NO_TERMINAL, lines.pop(0))
    assert lines[0] == b"[Fail]" + answer
    assert lines[1:] == ([b"Usage: hdc shell [-b bundlename] [COMMAND...]\n"] if words == ("-b",) else [])


def test_that_there_is_no_terminal_is_told_before_the_board_is_looked_for(hdc: Hdc) -> None:
    lines = hdc("-t", "nobody", "shell").stdout.splitlines(keepends=True)
    assert re.fullmatch(NO_TERMINAL, lines[0])
    assert lines[1:] == [b"[Fail]Not match target founded, check connect-key please\r\n"]


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


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("abc", b"The port must be digit buf:abc\n"),
        ("0", b"Port range incorrect\n"),
        ("123456", b"The port-string's length must < 5\n"),
        ("127.0.0.1:abc", b"The port must be digit str:abc\n"),
        ("127.0.0.1:", b"-s content port incorrect.\n"),
        ("127.0.0.1:99999", b"-s content port incorrect.\n"),
        ("nowhere:8710", b"-s content IP incorrect.\n"),
        ("1" * 46, b"Unknown content of parament '-s'\n"),
    ],
)
def test_a_bad_server_option_is_told_on_standard_output(hdc: Hdc, server: str, words: bytes) -> None:
    answer = hdc("-s", server, "list", "targets")
    assert answer.stdout in (words, *after_7_0(hdc, words, server.encode()))
    assert (answer.stderr, answer.status) == (b"", 0)


def after_7_0(hdc: Hdc, *keys: bytes) -> list[bytes]:
    """What a real hdc may say as well; the stand-in is that of 7.0."""
    return [AFTER_7_0[key] for key in keys if hdc.real and key in AFTER_7_0]
