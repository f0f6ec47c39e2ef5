"""The build itself, as it runs on a build host: what was asked for goes in, events and a result come out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import Interrupted, OhforgeError, explain_exception
from core.files import files_in, write_json
from core.interrupts import termination_as_interrupt
from core.process import RealRunner
from core.session import Session
from core.settings import Settings, Timeouts
from deploy.build_host.journal import JournalConsole
from deploy.build_host.tree import entry_of
from native.artifact.artifact import MANIFEST, Artifact
from native.build.ensure import BuildRequest, ensure_built
from toolchains.host_toolchain import ToolchainChoice


def main() -> None:
    """Builds what ``request.json`` of an attempt asks for and writes its ``result.json``."""
    base, attempt = Path(sys.argv[1]), Path(sys.argv[2])
    wanted = json.loads((attempt / "request.json").read_text())["request"]
    console = JournalConsole(sys.stdout)
    session = Session(
        settings=Settings(
            build_dir=str(base / "build"),
            toolchain=wanted["toolchain_setting"],
            jobs=wanted["jobs_setting"],
            offline=wanted["offline"],
            timeouts=Timeouts(build=wanted["build_seconds"]),
        ),
        console=console,
        runner=RealRunner(echo=console.detail),
    )
    try:
        with termination_as_interrupt():
            result = _build(session, read_request(wanted, base))
    except OhforgeError as error:
        result = {"error": error.as_json()}
    except KeyboardInterrupt:
        result = {"error": Interrupted("The build was stopped on its host.").as_json()}
    except Exception as error:
        result = {"error": explain_exception(error).as_json()}
    write_json(attempt / "result.json", result)


def read_request(wanted: dict[str, Any], base: Path) -> BuildRequest:
    """The request as it was sent; a folder that was sent along stands there as ``{"place": …}``, below `base`."""

    def there(value: Any) -> str:
        return str(base / value["place"]) if isinstance(value, dict) else str(value)

    return BuildRequest(
        target=there(wanted["target"]),
        source=there(wanted["source"]),
        system=wanted["system"],
        options=wanted["options"],
        build_type=wanted["build_type"],
        jobs=wanted["jobs"],
        prefixes=tuple(map(there, wanted["prefixes"])),
        products=tuple(wanted["products"]),
        choice=ToolchainChoice(**wanted["choice"]),
    )


def _build(session: Session, request: BuildRequest) -> dict[str, Any]:
    outcome = ensure_built(session, request)
    folder = outcome.artifact.folder
    return {
        "folder": str(folder),
        "program": outcome.artifact.program,
        "files": [entry_of(folder, path) for path in sorted(_files_of(outcome.artifact))],
        "rebuilt": outcome.rebuilt,
        "reason": outcome.reason,
    }


def _files_of(artifact: Artifact) -> Iterator[Path]:
    folder = artifact.folder
    yield from {artifact.path_of(product) for product in artifact.products}
    yield from {folder / name for name in artifact.runtime_libraries} - set(map(artifact.path_of, artifact.products))
    if artifact.prefix:
        yield from files_in(folder / artifact.prefix)
    if (folder / "build.log").is_file():
        yield folder / "build.log"
    yield folder / MANIFEST


if __name__ == "__main__":
    main()
