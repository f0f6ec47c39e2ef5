"""An SDK that is installed: verified, repaired, removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import (
    OhforgeError,
    SdkNotFound,
)
from core.session import Session
from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.pack import Release
from tests.support.sdk_fetching import HOST
from tests.support.sdk_server import (
    serve_mirror,
)
from toolchains.install import fetch_sdk
from toolchains.installed import damage_error, list_sdks, remove_sdk, sdk_root, verify_sdk

# afterwards ------------------------------------------------------------------------------------------


@pytest.fixture
def installed(session: Session, release: Release) -> Path:
    return fetch_sdk(session, host=HOST, archive=str(release.archive)).path


def put_in_place_of_the_link(path: Path, new: bytes | str) -> None:
    """A file with that content, or a link to that name."""
    path.unlink()
    path.write_bytes(new) if isinstance(new, bytes) else path.symlink_to(new)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "has another content": lambda sdk: (sdk / "toolchains/libusb_shared.so").write_bytes(b"no librarx\n"),
    "has 3 bytes, not": lambda sdk: (sdk / "toolchains/libusb_shared.so").write_bytes(b"cut"),
    "is missing": lambda sdk: (sdk / "native/llvm/bin/lld").unlink(),
    "has the mode 644": lambda sdk: (sdk / "native/llvm/bin/clang-15").chmod(0o644),
    "no longer a link to clang-15": lambda sdk: put_in_place_of_the_link(sdk / "native/llvm/bin/clang", b"clang-15"),
    "leads to lld": lambda sdk: put_in_place_of_the_link(sdk / "native/llvm/bin/clang", "lld"),
    "was not in the package": lambda sdk: (sdk / "native/added.h").touch(),
    "was changed": lambda sdk: (sdk / "installed-files.json").write_text('{"native": [], "toolchains": []}'),
}


@pytest.mark.parametrize("problem", DAMAGE)
def test_verify_finds_every_kind_of_change(session: Session, installed: Path, problem: str) -> None:
    assert verify_sdk(session, "5.0.0").ok
    DAMAGE[problem](installed)
    check = verify_sdk(session, "5.0.0")
    assert any(problem in line for line in check.problems), check.problems
    error = damage_error(check)
    assert error.exit_status == 67
    assert str(installed) in error.message


def test_fetching_again_mends_an_installation_that_lost_a_file(
    session: Session, installed: Path, release: Release, server: Loopback
) -> None:
    (installed / "native/llvm/bin/lld").unlink()
    fetch_sdk(session, "5.0.0", host=HOST, mirror=serve_mirror(server, release))
    assert verify_sdk(session).ok


def test_remove_leaves_nothing(session: Session, installed: Path) -> None:
    assert remove_sdk(session, "5.0.0-linux-x64") > 0
    assert [path.name for path in sdk_root(session).iterdir() if not path.name.endswith(".lock")] == []
    with pytest.raises(SdkNotFound):
        remove_sdk(session, "5.0.0")


def test_remove_also_takes_away_what_a_broken_off_installation_left(
    session: Session, server: Loopback, release: Release
) -> None:
    begun = sdk_root(session) / ".new-5.0.1-linux-x64"
    begun.mkdir(parents=True)
    (begun / "native.zip").write_bytes(b"x" * 1000)
    assert remove_sdk(session, "5.0.1") == 1000
    assert not begun.exists()


def test_list_shows_what_is_installed_and_what_can_be_had(session: Session, installed: Path) -> None:
    rows = list_sdks(session)
    assert rows[0]["path"] == str(installed)
    assert rows[0]["components"] == ["native", "toolchains"]
    by_version = {row["version"]: row for row in rows}
    assert len(by_version) == len(rows) == 26
    assert by_version["7.0"]["api_level"] == 26
    assert by_version["7.0"]["path"] == ""


def test_a_name_that_is_not_installed_is_answered_with_the_nearest(session: Session, installed: Path) -> None:
    with pytest.raises(SdkNotFound, match="did you mean '5"):
        verify_sdk(session, "5.0.0-linux-x86")


def test_every_failure_says_what_to_try(session: Session, server: Loopback) -> None:
    with pytest.raises(OhforgeError) as caught:
        fetch_sdk(session, "5.0.0", host=HOST, mirror=server.url)
    assert caught.value.remedy
