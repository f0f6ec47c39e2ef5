"""Between a Windows hdc and WSL: which program it is, ends of lines, code pages, paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.deadline import Deadline
from core.errors import HostToolMissing
from core.session import Session
from deploy.hdc.program import Hdc
from deploy.hdc.windows import LineEnds, WindowsBridge, find_bridge, is_wsl, without_carriage_returns
from tests.support.wsl import Wsl, make_wsl

WSL2 = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc (GCC) 11.2.0) #1 SMP\n"
DEBIAN = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)\n"


@pytest.fixture
def wsl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wsl:
    """One whose hdc repeats the words that it was called with."""
    echo = Hdc(argv=("/bin/sh", "-c", 'printf "%s\\n" "$@"', "sh"), title="echo")
    return make_wsl(tmp_path, echo, monkeypatch)


@pytest.fixture
def bridge(session: Session, wsl: Wsl) -> WindowsBridge:
    return WindowsBridge(session=session)


def soon() -> Deadline:
    return Deadline.after(60, "the test")


@pytest.mark.parametrize(
    ("text", "interop", "found"), [(WSL2, "", True), (DEBIAN, "", False), (DEBIAN, "/run/x", True)]
)
def test_the_kernel_or_the_door_to_windows_tells_wsl(
    text: str, interop: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version").write_text(text)
    monkeypatch.setenv("WSL_INTEROP", interop)
    assert is_wsl(tmp_path / "version") is found


def test_only_a_program_of_windows_is_called_as_one(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSL_INTEROP", "/run/WSL/1_interop")
    assert find_bridge(session, "/mnt/c/sdk/HDC.EXE") is not None
    assert find_bridge(session, "/usr/bin/hdc") is None
    monkeypatch.delenv("WSL_INTEROP")
    monkeypatch.setattr("deploy.hdc.windows.KERNEL", Path("/nowhere"))
    monkeypatch.setattr("deploy.hdc.windows.is_wsl", lambda: False)
    assert find_bridge(session, "/usr/share/hdc.exe") is None


@given(st.binary(), st.lists(st.integers(1, 9)))
def test_an_output_comes_out_as_the_program_wrote_it_however_it_is_cut(written: bytes, cuts: list[int]) -> None:
    for seen in (written.replace(b"\n", b"\r\n"), written if not written.partition(b"\n")[0].endswith(b"\r") else b""):
        out = bytearray()
        ends = LineEnds(out.extend)
        rest = seen
        for cut in cuts:
            ends.feed(rest[:cut])
            rest = rest[cut:]
        ends.feed(rest)
        ends.finish()
        assert bytes(out) == (written if seen else b"")
        assert without_carriage_returns(seen) == bytes(out)


def test_only_the_path_of_this_computer_is_translated(bridge: WindowsBridge, wsl: Wsl, session: Session) -> None:
    local = wsl.drive / "Users/Ana/model.gguf"

    def said(*words: str) -> list[str]:
        hdc = Hdc(argv=(str(wsl.hdc), "-s", "127.0.0.1:8710"), title="hdc", bridge=bridge)
        return hdc.call(session, words, deadline=soon()).text.splitlines()

    board = "/data/local/tmp/model.gguf"
    before = ["-s", "127.0.0.1:8710", "-t", "KEY"]
    # The stand-in has made the path Linux's again, as the file's own.
    assert said("-t", "KEY", "file", "send", str(local), board) == [*before, "file", "send", str(local), board]
    assert said("-t", "KEY", "file", "recv", board, str(local)) == [*before, "file", "recv", board, str(local)]
    assert said("-t", "KEY", "shell", f"ls {local}") == [*before, "shell", f"ls {local}"]


def test_a_file_on_a_disk_of_windows_is_taken_where_it_lies_and_another_goes_by_a_copy(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hdc is one that copies, and says what it was told."""
    copies = Hdc(
        argv=("/bin/sh", "-c", 'while [ $# -gt 4 ]; do shift; done; echo "$3 $4"; cp "$3" "$4"', "sh"), title=""
    )
    wsl = make_wsl(tmp_path, copies, monkeypatch)
    hdc = Hdc(argv=(str(wsl.hdc),), title="hdc", bridge=WindowsBridge(session=session))
    seen, unseen, board = wsl.drive / "Users/Ana/a.bin", tmp_path / "b.bin", str(tmp_path / "board.bin")
    for path in (seen, unseen):
        path.write_bytes(str(path).encode())
        said = hdc.call(session, ("-t", "KEY", "file", "send", str(path), board), deadline=soon()).text.split()
        assert Path(board).read_bytes() == str(path).encode()
        assert (said[0] == str(path), Path(said[0]).is_relative_to(wsl.temporary)) == (path is seen, path is unseen)
        path.unlink()
        said = hdc.call(session, ("-t", "KEY", "file", "recv", board, str(path)), deadline=soon()).text.split()
        assert path.read_bytes() == str(path).encode()
        assert (said[1] == str(path), Path(said[1]).is_relative_to(wsl.temporary)) == (path is seen, path is unseen)
    hdc.call(session, ("-t", "KEY", "file", "recv", f"{board}.absent", str(tmp_path / "c.bin")), deadline=soon())
    assert not (tmp_path / "c.bin").exists()
    assert list(wsl.temporary.iterdir()) == []


def test_a_name_beyond_ascii_stays_on_this_side(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hdc is one that copies. Windows cannot follow links of Linux."""
    copies = Hdc(argv=("/bin/sh", "-c", 'while [ $# -gt 2 ]; do shift; done; cp -P "$1" "$2"', "sh"), title="")
    wsl = make_wsl(tmp_path, copies, monkeypatch)
    hdc = Hdc(argv=(str(wsl.hdc),), title="hdc", bridge=WindowsBridge(session=session))
    board = str(tmp_path / "board.bin")
    for spools in (tmp_path, wsl.drive):
        monkeypatch.setattr("tempfile.tempdir", str(spools))
        for awkward in (tmp_path / "模型.gguf", wsl.drive / "模型.gguf"):
            awkward.write_bytes(str(spools).encode())
            with hdc.source(awkward, soon()) as source:
                hdc.call(session, ("-t", "KEY", "file", "send", str(source), board), deadline=soon())
            assert not Path(board).is_symlink()
            awkward.unlink()
            with hdc.target(awkward, soon()) as target:
                hdc.call(session, ("-t", "KEY", "file", "recv", board, str(target)), deadline=soon())
            assert awkward.read_bytes() == str(spools).encode()


def test_a_users_name_beyond_ascii_leads_to_the_public_folder(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wsl = make_wsl(tmp_path, Hdc(argv=("true",), title="none"), monkeypatch, temp="C:\\\\Users\\\\J\\u00fcrgen\\\\Temp")
    assert WindowsBridge(session=session).temporary == wsl.drive / "Users/Public"


def test_what_windows_says_in_its_code_page_is_understood(
    bridge: WindowsBridge, wsl: Wsl, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WindowsBridge, "_to_windows", lambda self, path: f"/of/linux/{path.name}")
    hdc = Hdc(argv=(str(wsl.hdc),), title="hdc", bridge=bridge)
    said = hdc.call(session, ("-t", "KEY", "file", "send", "/tmp/model", "/data/x"), deadline=soon()).text
    # "The system cannot find", in the code page 936.
    assert said == "[Fail]Error opening file: 系统找不到, path:/of/linux/model\n"


def test_a_servers_port_goes_over_and_what_wsl_passes_already_stays(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Hdc(argv=("/bin/sh", "-c", 'echo "$OHOS_HDC_SERVER_PORT $WSLENV"'), title="port")
    wsl = make_wsl(tmp_path, asked, monkeypatch)
    monkeypatch.setenv("OHOS_HDC_SERVER_PORT", "9710")
    monkeypatch.setenv("WSLENV", "EDITOR/p")
    hdc = Hdc(argv=(str(wsl.hdc),), title="hdc", bridge=WindowsBridge(session=session))
    said = hdc.call(session, ("list", "targets"), deadline=soon()).text
    assert said == "9710 EDITOR/p:OHOS_HDC_SERVER_PORT\n"


def test_a_wsl_that_starts_no_program_of_windows_is_told(bridge: WindowsBridge, wsl: Wsl, tmp_path: Path) -> None:
    (tmp_path / "windows/cmd.exe").write_text("#!/bin/sh\necho 'Exec format error' >&2; exit 126\n")
    with pytest.raises(HostToolMissing, match="Exec format error"):
        _ = bridge.temporary
