"""What is written for the system's own ssh, as that itself understands it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.ssh.address import Hop
from deploy.ssh.openssh import Known, OpenSsh

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def hop(**given: object) -> Hop:
    values = {"host": "board.lan", "port": 22, "user": "me", "known_as": "board.lan", **given}
    return Hop(**values)  # type: ignore[arg-type]


def find(*hops: Hop) -> OpenSsh | None:
    return OpenSsh.find([Known(hop=each, address=each.host, key=KEY) for each in hops], silent_seconds=60)


def understood(folder: Path, *hops: Hop) -> dict[str, list[str]]:
    """What ``ssh -G`` says of the last of `hops`: values by keyword."""
    ssh = find(*hops)
    if ssh is None:
        pytest.skip("no ssh is installed")
    (folder / "config").write_text(ssh._configuration(folder))
    words = ["ssh", "-G", "-F", str(folder / "config"), f"ohforge-{len(hops) - 1}"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        keyword, _, value = line.partition(" ")
        found.setdefault(keyword, []).append(value)
    return found


def test_only_the_key_that_was_seen_lets_it_on_and_nobody_is_asked(tmp_path: Path) -> None:
    found = understood(tmp_path, hop())
    assert found["stricthostkeychecking"] in (["true"], ["yes"])
    assert found["userknownhostsfile"] == [f"{tmp_path}/known_hosts"]
    assert found["globalknownhostsfile"] == ["/dev/null"]
    assert found["hostkeyalias"] == ["ohforge-0"]
    assert found["batchmode"] == ["yes"]
    assert found["preferredauthentications"] == ["publickey"]


def test_nothing_but_the_streams_of_the_command_passes(tmp_path: Path) -> None:
    found = understood(tmp_path, hop())
    assert found["forwardagent"] == ["no"]
    assert found["forwardx11"] == ["no"]
    assert found["clearallforwardings"] == ["yes"]
    assert found["requesttty"] == ["false"]
    assert found["controlmaster"] == ["false"]
    assert "controlpath" not in found
    assert found["permitlocalcommand"] == ["no"]


def test_a_link_that_is_dead_is_given_up_before_a_transfer_counts_as_stalled(tmp_path: Path) -> None:
    found = understood(tmp_path, hop())
    # ssh asks at each interval, and gives up at the one after the last question: ssh_config(5), ServerAliveCountMax.
    assert int(found["serveraliveinterval"][0]) * (int(found["serveralivecountmax"][0]) + 1) < 60


def test_it_logs_in_as_our_own_connection_does(tmp_path: Path) -> None:
    key = tmp_path / "a key of 100%"
    key.touch()
    gate = hop(host="gate.lan", port=2222, user="keeper", command="nc gate.lan 2222")
    found = understood(tmp_path, gate, hop(port=2022, keys=(str(key), "/absent"), ciphers="aes256-ctr"))
    assert (found["hostname"], found["port"], found["user"]) == (["board.lan"], ["2022"], ["me"])
    assert found["ciphers"] == ["aes256-ctr"]
    assert found["proxyjump"] == ["ohforge-0"]
    assert found["identityfile"][0].replace("%%", "%") == str(key)
    assert "/absent" not in found["identityfile"]
    first = understood(tmp_path, gate)
    assert first["proxycommand"] == ["nc gate.lan 2222"]
    assert first["port"] == ["2222"]


@pytest.mark.parametrize(("agent", "said"), [("", "none"), ("/run/a b", "/run/a b")])
def test_it_asks_the_same_agent(tmp_path: Path, agent: str, said: str) -> None:
    assert understood(tmp_path, hop(agent=agent))["identityagent"] == [said]
    assert "identityagent" not in understood(tmp_path, hop())


def test_the_ciphers_that_need_no_further_pass_come_first(tmp_path: Path) -> None:
    assert understood(tmp_path, hop())["ciphers"][0].startswith("aes128-gcm@openssh.com,aes256-gcm@openssh.com,")


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "${HOME}"])
def test_what_its_configuration_has_no_words_for_is_left_to_our_own_connection(value: str) -> None:
    assert find(hop(user=value)) is None


def test_without_ssh_there_is_only_our_own_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert find(hop()) is None
