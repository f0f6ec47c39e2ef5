"""``ohforge sdk.*``: the ohos-sdk."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from commands.command import Answer, command

if TYPE_CHECKING:
    from core.session import Session

INSTALLED_HELP = "Version of an installed SDK, with its host when there are several: 5.0.0 or 5.0.0-linux-x64."


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List the SDKs that are installed and those that can be had."""
    from commands.show import show_sdks
    from toolchains.installed import list_sdks

    sdks = list_sdks(session)
    show_sdks(session.console, sdks)
    return Answer({"sdks": sdks})


@command(
    optional_positional="version",
    changes=True,
    dry=True,
    help={
        "version": "5.0.0, 5.0.0-Release, an API level such as api12, or latest (the default).",
        "components": "Which parts, with commas between: native, toolchains, ets, js, previewer.",
        "host": "For another computer: linux-x64, windows-x64, macos-x64 or macos-arm64.",
        "mirror": "Address that takes the place of the release mirror's base.",
        "archive": "Install from this file or address instead; daily:BRANCH is the newest daily build, daily:master for one.",
        "sha256": "Hash that the archive must have, for one whose hash is not published.",
        "offline": "Use no network: only what is here already.",
    },
)
def fetch(
    session: Session,
    version: str = "",
    components: str = "native,toolchains",
    host: str = "",
    mirror: str = "",
    archive: str = "",
    sha256: str = "",
    offline: bool = False,
) -> Answer:
    """Fetch, verify and install an ohos-sdk; a broken-off call goes on where it stopped."""
    from commands.show import show_fetched
    from core.dry import tell
    from toolchains.install import fetch_sdk, make_request, would_fetch_sdk

    if offline:
        session = session.with_settings(offline=True)
    parts = [part.strip() for part in components.split(",") if part.strip()]
    if session.dry:
        request = make_request(session, version, host, parts, mirror, archive, sha256)
        return Answer(tell(session.console, [would_fetch_sdk(session, request)]))
    fetched = fetch_sdk(session, version, host=host, components=parts, mirror=mirror, archive=archive, sha256=sha256)
    show_fetched(session.console, fetched)
    return Answer({**asdict(fetched), "path": str(fetched.path)})


@command(help={"sdk": "Folder of an SDK, or version of an installed one."})
def info(session: Session, sdk: str = "") -> Answer:
    """Say which SDK would be used, and what it is."""
    from toolchains.sdk import require_sdk

    found = require_sdk(session, sdk)
    value = {name: str(entry) if entry is not None else "" for name, entry in asdict(found).items()}
    session.console.table(["FACT", "VALUE"], [[name.replace("_", " "), text] for name, text in value.items()])
    return Answer({"sdk": value})


@command(optional_positional="version", help={"version": INSTALLED_HELP, "quick": "Compare sizes only, not contents."})
def verify(session: Session, version: str = "", quick: bool = False) -> Answer:
    """Compare every file of an installed SDK with what was unpacked."""
    from toolchains.installed import damage_error, verify_sdk

    check = verify_sdk(session, version, deep=not quick)
    if check.problems:
        raise damage_error(check)
    session.console.info(f"{check.sdk.folder}: all {check.files} files are as they were installed")
    return Answer({"path": str(check.sdk.folder), "files": check.files, "problems": []})


@command(positional=("version",), changes=True, dry=True, help={"version": INSTALLED_HELP})
def remove(session: Session, version: str) -> Answer:
    """Remove an installed SDK."""
    from core.dry import tell
    from core.files import human_bytes
    from toolchains.installed import remove_sdk, would_remove_sdk

    if session.dry:
        return Answer(tell(session.console, would_remove_sdk(session, version)))
    size = remove_sdk(session, version)
    session.console.info(f"removed, {human_bytes(size)} are free again")
    return Answer({"removed_bytes": size})
