"""How the stand-in reads its command line: hdc's own rules, as they were seen."""

from __future__ import annotations

import pytest

from deploy.emulator.stand_in.arguments import BadArgument, read_call


def line(*argv: str) -> bytes:
    return read_call(argv, "/w").line


def test_one_word_with_blanks_is_wrapped_in_quotes_without_escaping() -> None:
    assert line("shell", 'echo "a b"; x') == b'shell "echo "a b"; x"'


def test_several_words_lose_their_quoting() -> None:
    assert line("shell", "printf", "%s|", "one", "two three") == b'shell printf %s| one "two three"'


def test_the_key_stands_before_the_command() -> None:
    call = read_call(["-t", "KEY", "shell", "id"], "/w")
    assert (call.key, call.command, call.rest) == ("KEY", "shell", b" id")
    assert read_call(["-tKEY", "list", "targets", "-v"], "/w").key == "KEY"


def test_options_behind_the_command_belong_to_it() -> None:
    call = read_call(["shell", "-t", "KEY"], "/w")
    assert (call.key, call.rest) == ("", b" -t KEY")


def test_any_is_a_command_even_as_a_key() -> None:
    assert line("-t", "any", "shell", "id") == b"any shell id"


def test_a_word_that_starts_with_wait_is_a_command() -> None:
    assert read_call(["-t", "waiting-room", "shell", "id"], "/w").command == "waiting-room"


def test_file_commands_carry_the_current_folder() -> None:
    assert line("file", "send", "a", "/data/x y") == b'file send remote -cwd "/w/" a "/data/x y"'
    assert read_call(["file", "recv", "a"], "/").rest == b' remote -cwd "/" a'


def test_a_script_of_61437_bytes_arrives_and_one_more_arrives_empty() -> None:
    script = "x " + "y" * (61_437 - 2)
    assert line("shell", script) == b'shell "' + script.encode() + b'"'
    assert line("shell", script + "y") == b"shell "


def test_a_long_word_without_blanks_arrives() -> None:
    assert line("shell", "y" * 70_000) == b"shell " + b"y" * 70_000


@pytest.mark.parametrize("words", [("-o", "x"), ("-p", "-o", "x", "-v"), ("-o", "1.2.3.4:x")])
def test_the_port_of_another_server_must_be_a_number(words: tuple[str, ...]) -> None:
    with pytest.raises(BadArgument, match="The port must be digit buf:"):
        read_call(words, "/w")


def test_an_option_without_its_value_is_no_option() -> None:
    for option in ("-t", "-s", "-d", "-l", "-o", "-e"):
        assert read_call([option], "/w") == read_call([], "/w")


def test_a_key_of_33_bytes_is_refused_with_the_usual_words() -> None:
    with pytest.raises(BadArgument) as caught:
        read_call(["-t", "k" * 33, "shell", "id"], "/w")
    assert (caught.value.text, caught.value.stream) == ("Sizeo of of parament '-t' 33 is too long\n", 1)
    assert read_call(["-t", "k" * 32, "shell", "id"], "/w").key == "k" * 32


def test_without_a_command_there_are_only_options() -> None:
    call = read_call(["-v"], "/w")
    assert (call.command, call.flags) == ("", frozenset("v"))
