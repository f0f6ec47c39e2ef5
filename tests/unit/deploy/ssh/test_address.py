"""Where an SSH board is, by what is written and by OpenSSH's configuration."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from core.errors import ConfigurationError, NoBoard
from core.session import Session
from core.settings import BoardEntry, read_settings
from deploy.hdc.choose import locate_board, name_board
from deploy.ssh.address import resolve, split_host, ssh_serial, way_to
from deploy.ssh.choose import find_ssh


@pytest.mark.parametrize(
    ("text", "user", "host", "port", "known_as"),
    [
        ("board.lan", getpass.getuser(), "board.lan", 22, "board.lan"),
        ("ssh://me@10.0.0.7:2222", "me", "10.0.0.7", 2222, "[10.0.0.7]:2222"),
        ("me@[fe80::1%eth0]:22", "me", "fe80::1%eth0", 22, "fe80::1%eth0"),
    ],
)
def test_an_address_says_who_logs_in_where(
    tmp_path: Path, text: str, user: str, host: str, port: int, known_as: str
) -> None:
    hop = resolve(text, tmp_path / "absent")
    assert (hop.user, hop.host, hop.port, hop.known_as) == (user, host, port, known_as)


@pytest.mark.parametrize("text", ["", "-oProxyCommand=x", "a b", "me@", "host:99999", "host/path", "host:x", "-l@host"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(NoBoard):
        ssh_serial(text)


def test_a_board_behind_a_host_is_written_as_a_path() -> None:
    assert split_host("ssh://me@lab:22/192.168.1.9:8710") == ("ssh://me@lab:22", "192.168.1.9:8710")
    assert [split_host(text) for text in ("ssh://lab", "ssh://lab/", "192.168.1.9:8710")] == [None] * 3


def test_what_is_not_written_comes_from_the_users_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "Host lab*\n  HostName %h.example\n  User deploy\n  Port 2022\n  IdentityFile /keys/lab\n  ProxyJump gate,me@inner:7\n"
        "Host lab1\n  HostKeyAlias known\n  UserKnownHostsFile /hosts\n"
        "Host by-command\n  ProxyCommand nc %h %p\n"
    )
    first, second = resolve("lab1", file), resolve("other@lab2:22", file)
    assert (first.user, first.host, first.port, first.known_as) == ("deploy", "lab1.example", 2022, "known")
    assert (first.keys, first.known_hosts[0], first.through) == (("/keys/lab",), "/hosts", ("gate", "me@inner:7"))
    assert (second.user, second.host, second.port, second.known_as) == ("other", "lab2.example", 22, "lab2.example")
    assert resolve("by-command", file).command == "nc by-command 22"


def test_included_files_count_where_the_block_that_includes_them_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh/more").mkdir(parents=True)
    (tmp_path / ".ssh/more/a").write_text("Host lab\n  Port 2022\n")
    (tmp_path / ".ssh/more/b").write_text("Host other\n  Port 3033\n")
    (tmp_path / "inner").write_text("User deep\nHost lab2\n  Port 4044\n")
    file = tmp_path / "config"
    file.write_text(
        f'Include more/* absent/*  # of the lab\nHostKeyAlias all\nHost lab*\n  include = "{tmp_path}/inner"\n  HostName far\n'
        "Host *\n  User last\n"
    )
    found = {name: resolve(name, file) for name in ("lab", "lab2", "other")}
    assert {name: (hop.user, hop.host, hop.port, hop.known_as) for name, hop in found.items()} == {
        "lab": ("deep", "far", 2022, "all"),
        "lab2": ("deep", "far", 4044, "all"),
        "other": ("last", "other", 3033, "all"),
    }


@pytest.mark.parametrize(
    "text", ["Host lab\n  Port x\n", "Host lab\n  Port 70000\n", 'Match exec "\n', "Include config\n"]
)
def test_a_configuration_that_cannot_be_understood_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".ssh/config"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=str(file)):
        resolve("lab")


def test_the_first_computer_on_the_way_has_a_way_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "Host board\n  ProxyJump lab,bench\nHost lab\n  ProxyJump gate\nHost bench\n  ProxyJump elsewhere\n"
        "Host round\n  ProxyJump there\nHost there\n  ProxyJump round\n"
    )
    assert [hop.host for hop in way_to("board", file)] == ["gate", "lab", "bench", "board"]
    assert [hop.host for hop in way_to("round", file)][-2:] == ["there", "round"]


def test_the_agent_is_the_one_that_the_configuration_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("OWN", "/run/own")
    file = tmp_path / "config"
    agents = {"a": "none", "b": "SSH_AUTH_SOCK", "c": "~/agent", "d": "%d/agent", "e": "$OWN", "f": '"${OWN}/x"'}
    file.write_text("".join(f"Host {name}\n  IdentityAgent {agent}\n" for name, agent in agents.items()))
    named = [resolve(name, file).agent for name in [*agents, "other"]]
    assert named == ["", None, "/home/me/agent", "/home/me/agent", "/run/own", "/run/own/x", None]


def test_a_board_of_the_settings_is_found_by_name_and_by_address(session: Session) -> None:
    entry = BoardEntry(serial="me@lab", transport="ssh")
    session = session.with_settings(boards={"bench": entry, "usb": BoardEntry(serial="1234")})
    assert find_ssh(session, "bench") == ("ssh://me@lab", entry)
    assert find_ssh(session, "ssh://me@lab/") == ("ssh://me@lab", entry)
    assert find_ssh(session, "usb") is None
    assert find_ssh(session, "1234") is None
    assert locate_board(session, "bench").serial == "ssh://me@lab"


def test_restarting_is_refused_with_what_to_do_instead(session: Session) -> None:
    with pytest.raises(Exception, match="is an SSH board") as caught:
        name_board(session, "ssh://lab")
    for task in ("board.shell", "board.info"):
        assert task in getattr(caught.value, "remedy", "")


def test_an_ssh_board_without_an_address_is_an_error_of_the_settings() -> None:
    boards = {"lab": {"transport": "ssh"}}
    with pytest.raises(ConfigurationError, match=r"ohforge\.boards\.lab\.serial is missing"):
        read_settings({"boards": boards}, read_files=dict)
