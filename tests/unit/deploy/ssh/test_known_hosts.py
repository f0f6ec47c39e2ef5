"""Whose keys OpenSSH's files know, as ``ssh`` reads them."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from deploy.ssh.known_hosts import fingerprint, read_known
from tests.support.sshd import make_key


def key(number: int) -> str:
    return f"ssh-ed25519 {base64.b64encode(bytes([number]) * 9).decode()}"


def found(file: Path, name: str) -> list[tuple[int, bool]]:
    return [(each.blob[0], each.revoked) for each in read_known([str(file)], name)]


@pytest.mark.parametrize(
    ("patterns", "fits"),
    [
        ("board.lan", True),
        ("other,BOARD.lan", True),
        ("*.lan", True),
        ("boar?.lan,other", True),
        ("*.lan,!board.*", False),
        ("board.lan.org", False),
        ("[board.lan]:22", False),
        ("|1|broken", False),
    ],
)
def test_a_line_is_for_the_hosts_that_its_patterns_fit(tmp_path: Path, patterns: str, fits: bool) -> None:
    (tmp_path / "known").write_text(f"{patterns} {key(7)}\n")
    assert found(tmp_path / "known", "board.lan") == ([(7, False)] if fits else [])


def test_a_port_stands_in_brackets_that_are_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "known").write_text(f"[10.0.0.*]:2222 {key(1)}\n[10.0.0.7]:22 {key(2)}\n")
    assert found(tmp_path / "known", "[10.0.0.7]:2222") == [(1, False)]


def test_lines_of_other_kinds_neither_harm_nor_let_in(tmp_path: Path) -> None:
    (tmp_path / "known").write_text(
        f"# a remark\n\n@cert-authority * {key(1)}\n@revoked board {key(2)}\n@later board {key(3)}\n"
        f"board ssh-ed25519 ???\nboard\nboard {key(4)} me@there\nboard {key(5)}"
    )
    assert found(tmp_path / "known", "board") == [(2, True), (4, False), (5, False)]


def test_hashed_names_and_fingerprints_are_those_of_ssh_keygen(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    kind, blob = (tmp_path / "key.pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"[board.lan]:2222 {kind} {blob}\n")
    subprocess.run(
        ["ssh-keygen", "-q", "-H", "-f", str(tmp_path / "known")], check=True, timeout=60, capture_output=True
    )
    assert "board" not in (tmp_path / "known").read_text()
    (only,) = read_known([str(tmp_path / "absent"), str(tmp_path / "known")], "[board.lan]:2222")
    listed = ["ssh-keygen", "-lf", str(tmp_path / "key.pub")]
    shown = subprocess.run(listed, check=True, timeout=60, capture_output=True, text=True).stdout.split()[1]
    assert fingerprint(only.kind, only.blob).split()[0] == shown
    assert read_known([str(tmp_path / "known")], "board.lan") == []
