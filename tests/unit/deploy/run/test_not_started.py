"""What the board said of a program that it does not execute, in sentences."""

from __future__ import annotations

import pytest

from deploy.run.not_started import explain_answer

ANSWER = """@@label u:object_r:data_local_tmp:s0 0123
@@context context=u:r:sh:s0
@@selinux {selinux}
@@mount /dev/block/data 100 1 99 1% /data
@@xpm {xpm}
@@mounts
/dev/root / ext4 ro,noexec 0 0
/dev/block/data /data f2fs {options} 0 0
"""


@pytest.mark.parametrize(
    ("selinux", "xpm", "options", "parts"),
    [
        ("Permissive", "", "rw,noexec,nosuid", ["the file system at /data is mounted noexec."]),
        ("Enforcing", "0", "rw", ["label u:object_r:data_local_tmp:s0", "runs as u:r:sh:s0"]),
        ("1", "", "rw,nosuid", ["SELinux is enforcing"]),
        ("0", "3", "rw", ["signed code (xpm_mode 3)"]),
        ("Enforcing", "1", "noexec", ["noexec", "SELinux", "signed code"]),
        ("", "", "rw", ["neither its mount, nor SELinux, nor code signing"]),
    ],
)
def test_every_cause_is_named_and_no_other(selinux: str, xpm: str, options: str, parts: list[str]) -> None:
    said = explain_answer(ANSWER.format(selinux=selinux, xpm=xpm, options=options))
    assert all(part in said for part in parts)
    assert ("mounted noexec" in said) == ("noexec" in options)
    assert ("SELinux is" in said) == (selinux in ("Enforcing", "1"))
    assert ("signed code" in said) == (xpm in ("1", "3"))


def test_an_answer_that_is_not_there_explains_nothing() -> None:
    assert explain_answer("").startswith("neither")
