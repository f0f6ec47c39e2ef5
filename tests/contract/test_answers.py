"""What each command prints, byte for byte, on which stream, and with which line ends."""

from __future__ import annotations

import re
import time
from pathlib import Path

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


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("-e", "123", "-m"), b"[E001106]-e content IP incorrect.\n"),
        # -n, -a, -m, and an -e whose address is the word behind it.
        (("find", "/system", "-name", "nosuchfile"), b"[E001106]-e content IP incorrect.\n"),
        (("-d", "u", "1"), b"Not support command...\n"),
        (("-l", "7", "list", "targets"), b"Loglevel error!\n"),
        (("-lx",), b"Loglevel error: invalid number string!\n"),
        (("-N",), b"Error: -N is reserved for internal use\n"),
        (("-t", "k" * 33, "-v"), b"Sizeo of of parament '-t' 33 is too long\n"),
    ],
)
def test_the_first_option_that_is_wrong_ends_the_call(hdc: Hdc, words: tuple[str, ...], answer: bytes) -> None:
    assert hdc(*words).stdout == answer


def test_what_stands_behind_the_version_or_the_usage_is_not_looked_at(hdc: Hdc) -> None:
    assert re.fullmatch(VERSION + rb"\n", hdc("-v", "-t", "k" * 33).stdout)
    assert re.fullmatch(VERSION + rb"\n", hdc("-v", "-s", "x").stdout)
    assert hdc("-h", "-v").stdout == b""


def test_usage_tells_more_when_it_is_asked_to(hdc: Hdc) -> None:
    assert b"OHOS_HDC_HEARTBEAT" not in hdc("help").stdout
    assert b"OHOS_HDC_HEARTBEAT" in hdc("help", "verbose").stdout
    assert b"OHOS_HDC_HEARTBEAT" in hdc("-h", "verbose").stderr


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
        # Numbers that are left out are missed later than those that are wrong.
        ("10..0.10:5555", b"[Fail]IP:Port incorrect\n"),
        ("1...2:5", b"[Fail]IP:Port incorrect\n"),
        ("01.2.3.4:99999", b"[Fail][E001104]:IP address incorrect\n"),
        ("127.0.0.1:1", b"[Fail]Connect failed\r\n"),
        ("localhost:1", b"[Fail]Connect failed\r\n"),
        ("k" * 51, b"[Fail]Error connect key's size\n"),
    ],
)
def test_tconn_says_what_is_wrong_with_an_address(hdc: Hdc, key: str, answer: bytes) -> None:
    assert hdc("tconn", key).stdout == answer


def test_an_address_where_nobody_answers_stays_known_as_offline(hdc: Hdc) -> None:
    assert hdc("tconn", "127.0.0.1:1").stdout == b"[Fail]Connect failed\r\n"
    assert b"127.0.0.1:1\t\tTCP\tOffline\t" in hdc("list", "targets", "-v").stdout
    assert b"127.0.0.1:1" not in hdc("list", "targets").stdout.split()
    assert hdc("-t", "127.0.0.1:1", "shell", "id").stdout == b"[Fail][E001005] Device not found or connected\r\n"


def test_only_a_usb_board_that_is_connected_can_be_taken_up_again(hdc: Hdc) -> None:
    assert hdc("reconnect").stdout == b"[Fail]Usage: reconnect <target-key>\r\n"
    assert hdc("reconnect", "nobody").stdout == b"[Fail]Target device nobody not available\r\n"


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


def test_debuggable_programs_are_followed_without_end(hdc: Hdc) -> None:
    process = hdc.start("track-jpid", "-a")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0000\n"
    assert process.poll() is None
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("packages", "told"),
    [
        (("a.hap",), ("a.hap",)),
        (("a.hap", "b.hsp", "a.hap", "small"), ("b.hsp", "a.hap")),
        # Once there is a folder, it is told in every line.
        (("b.hsp", "folder", "a.hap"), ("folder", "folder", "folder")),
    ],
)
def test_packages_are_handed_to_the_bundle_manager_the_last_name_first(
    hdc: Hdc, tmp_path: Path, packages: tuple[str, ...], told: tuple[str, ...]
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("a.hap", "b.hsp", "folder/c.hap", "small"):
        (tmp_path / name).write_text("no package\n")
    answer = hdc("-t", hdc.key, "install", *packages, cwd=tmp_path).stdout.decode()
    lines = "".join(rf"\[Info\]App install path:{tmp_path}/{name} msg:.+\n" for name in told)
    assert re.fullmatch(lines + r"AppMod finish\n", answer)


def test_what_is_no_package_is_not_installed(hdc: Hdc, tmp_path: Path) -> None:
    (tmp_path / "small").write_text("no package\n")
    nothing = b"[Fail][E006001] Not any installation package was found\n"
    for words in ((), ("small",), ("nowhere",), ("-h",)):
        assert hdc("-t", hdc.key, "install", *words, cwd=tmp_path).stdout == nothing
    missing = hdc("-t", hdc.key, "install", "none.hap", cwd=tmp_path).stdout
    assert missing.startswith(
        f"[Fail]Error opening file: no such file or directory, path:{tmp_path}/none.hap\n[F][".encode()
    )


def test_a_bundle_is_removed_by_the_bundle_manager(hdc: Hdc) -> None:
    answer = hdc.board("uninstall", "com.example.none")
    assert re.fullmatch(rb"\[Info\]App uninstall path: msg:.+\r\nAppMod finish\r\n", answer)


def test_no_command_can_be_hidden_among_packages(hdc: Hdc, tmp_path: Path) -> None:
    (tmp_path / "a.hap").write_text("no package\n")
    answer = hdc("-t", hdc.key, "install", "-r; touch /data/local/tmp/x", "a.hap", cwd=tmp_path).stdout
    assert (
        answer
        == f"[Info]App install path:{tmp_path}/a.hap msg:Incorrect package name or option\nAppMod finish\n".encode()
    )
    answer = hdc.board("uninstall", "x; touch /data/local/tmp/x")
    assert answer == b"[Info]App uninstall path: msg:Incorrect package name or option\r\nAppMod finish\r\n"


def test_remounting_is_refused_or_done(hdc: Hdc) -> None:
    assert hdc.board("target", "mount") in (
        b"[Fail]Mount failed\r\n",
        b"[Fail]Operate need running as root\r\n",
        b"Mount finish\r\n",
        b"[Fail][E007100] Operate need running under debug mode\r\n",
    )
    assert hdc.board("target", "mount", "x") == b"[Fail]Unknown command...\n"


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
