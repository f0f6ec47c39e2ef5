"""The words behind ``file send`` and ``file recv``: hdc's own rules, as they were seen."""

from __future__ import annotations

import pytest

from deploy.emulator.protocol.file_arguments import TaskFailed, parse_arguments, split_arguments


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a  b\tc", [b"a", b"b", b"c"]),
        (b'"a b" c', [b"a b", b"c"]),
        (b'a" "b', [b"a b"]),
        (b'"" x', [b"", b"x"]),
        (b"it's", [b"it's"]),
        (b'un"closed end', [b"unclosed end"]),
        ("süß".encode(), ["süß".encode()]),
    ],
)
def test_a_double_quote_switches_quoting_and_cannot_be_escaped(text: bytes, words: list[bytes]) -> None:
    assert split_arguments(text) == words


def test_options_of_file_commands_are_told_from_paths() -> None:
    options, paths = parse_arguments(b'remote -cwd "/w/" -a -m one two three')
    assert (options.cwd, options.keep_times, options.modes, options.compress) == ("/w/", True, True, False)
    assert paths == ["one", "two", "three"]


def test_a_local_file_called_remote_is_taken_for_the_word() -> None:
    assert parse_arguments(b'remote -cwd "/w/" remote /data/x')[1] == ["/data/x"]


def test_an_unknown_file_option_is_refused() -> None:
    with pytest.raises(TaskFailed, match=r"^Unknown file option: -q$"):
        parse_arguments(b"-q a b")
