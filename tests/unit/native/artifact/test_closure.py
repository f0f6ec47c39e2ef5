"""Which libraries travel with a program of the user's own. ELF files are stood in for by JSON with what counts here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import DamagedProgram
from core.session import Session
from native.artifact import closure
from native.artifact.elf import ElfInfo
from tests.shared.standin_sdk import tiny_tree
from toolchains.sdk import describe_sdk

ARM64, ARM32 = ("EM_AARCH64", 64), ("EM_ARM", 32)


def make(path: Path, *needed: str, of: tuple[str, int] = ARM64) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([of[0], of[1], needed]))
    return path


def read(path: Path) -> ElfInfo | None:
    text = path.read_text()
    if text == "damaged":
        raise DamagedProgram(f"{path} is damaged.")
    machine, bits, needed = json.loads(text)
    return ElfInfo(
        machine=machine, bits=bits, type="library", interpreter="", needed=tuple(needed), soname="", float_abi="",
        stripped=True, stack_size=0, build_id="",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def json_for_elf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closure, "inspect_elf", read)


def find(session: Session, program: Path, *given: Path) -> list[Path]:
    elf = read(program)
    assert elf is not None
    return closure.find_libraries(session, program, elf, given)


def test_libraries_beside_the_program_and_what_they_need_are_found(session: Session, tmp_path: Path) -> None:
    program = make(tmp_path / "bin/program", "libone.so", "libc.so", "libtwo.so")
    one = make(tmp_path / "bin/libone.so", "libthree.so", "libone.so")
    two = make(tmp_path / "bin/lib/libtwo.so", "libone.so")
    three = make(tmp_path / "lib/libthree.so")
    make(tmp_path / "bin/libunused.so")
    assert [path.resolve() for path in find(session, program)] == [one, two, three]


def test_what_a_given_library_needs_is_found_and_it_is_not_found_twice(session: Session, tmp_path: Path) -> None:
    program = make(tmp_path / "program", "libone.so")
    make(tmp_path / "libone.so")
    given = make(tmp_path / "elsewhere/libone.so", "libtwo.so")
    two = make(tmp_path / "libtwo.so")
    assert find(session, program, given) == [two]


def test_a_library_of_another_machine_and_a_damaged_one_are_not_meant(session: Session, tmp_path: Path) -> None:
    program = make(tmp_path / "program", "libone.so", "libtwo.so", "../secret.so")
    make(tmp_path / "libone.so", of=ARM32)
    one = make(tmp_path / "lib/libone.so")
    (tmp_path / "libtwo.so").write_text("damaged")
    make(tmp_path.parent / "secret.so")
    assert find(session, program) == [one]


@pytest.mark.parametrize(("of", "triple"), [(ARM64, "aarch64-linux-ohos"), (ARM32, "arm-linux-ohos")])
def test_the_cxx_library_comes_from_the_sdk(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: tuple[str, int], triple: str
) -> None:
    program = make(tmp_path / "program", "libc++_shared.so", of=of)
    assert find(session, program) == []
    root = tiny_tree(tmp_path / "sdk")
    for name, kind in (("aarch64-linux-ohos", ARM64), ("arm-linux-ohos", ARM32)):
        make(root / "native/llvm/lib" / name / "libc++_shared.so", of=kind)
    monkeypatch.setenv("OHOS_NATIVE_HOME", str(root / "native"))
    monkeypatch.setattr("toolchains.sdk._from_environment", lambda session: describe_sdk(root))
    assert find(session, program) == [root / "native/llvm/lib" / triple / "libc++_shared.so"]
