"""What the stand-in's server remembers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.stand_in.state import NoServer, Server, State, find_server


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_the_port_comes_from_the_option_then_the_variable_then_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OHOS_HDC_SERVER_PORT")
    assert find_server("").port == 8710
    monkeypatch.setenv("OHOS_HDC_SERVER_PORT", "9000")
    assert find_server("").port == 9000
    assert find_server("127.0.0.1:9001").port == 9001


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("99999", "OHOS_HDC_SERVER_PORT 99999 is not in (0, 65535] range\n"),
        ("0", "OHOS_HDC_SERVER_PORT 0 is not in (0, 65535] range\n"),
        ("abc", "OHOS_HDC_SERVER_PORT abc is not digit\n"),
    ],
)
def test_a_bad_port_is_told_in_the_usual_words(value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHOS_HDC_SERVER_PORT", value)
    with pytest.raises(NoServer) as caught:
        find_server("")
    assert (str(caught.value), caught.value.wait) == (words, False)


def test_a_second_port_of_one_temporary_folder_has_no_server(tmp_path: Path) -> None:
    Server(port=8710, folder=tmp_path).start()
    with pytest.raises(NoServer) as caught:
        Server(port=8711, folder=tmp_path).start()
    assert caught.value.wait


def test_kill_ends_the_server_of_the_folder_whatever_its_port(tmp_path: Path) -> None:
    Server(port=8710, folder=tmp_path).start()
    Server(port=8711, folder=tmp_path).kill()
    assert not Server(port=8710, folder=tmp_path).runs
    Server(port=8711, folder=tmp_path).start()


def test_what_is_known_of_keys_lasts_until_the_server_is_killed(tmp_path: Path) -> None:
    server = Server(port=8710, folder=tmp_path)
    server.start()
    with server.change() as state:
        state.keys["127.0.0.1:5555"] = {"status": "Offline"}
    assert server.read().keys == {"127.0.0.1:5555": {"status": "Offline"}}
    assert Server(port=8711, folder=tmp_path).read().keys == {}
    server.kill()
    assert server.read().keys == {}


def test_a_server_can_be_killed_as_soon_as_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, change = Server(port=8710, folder=tmp_path), Server.change

    @contextlib.contextmanager
    def change_and_be_killed(self: Server) -> Iterator[State]:
        with change(self) as state:
            yield state
        assert self.runs
        self.kill()

    monkeypatch.setattr(Server, "change", change_and_be_killed)
    server.start()
    assert not server.runs
