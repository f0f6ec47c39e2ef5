"""How answers look to people."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.files import human_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from core.check import Check
    from core.console import Console
    from deploy.run.result import RunOutcome
    from native.artifact.artifact import Artifact
    from native.build.ensure import BuildOutcome
    from native.openharmony.build import SourceBuildOutcome
    from native.openharmony.tree import SourceTree, TreeProduct
    from native.recipe.recipe import Recipe
    from toolchains.install import FetchedSdk


def show_outcome(console: Console, outcome: RunOutcome) -> None:
    """The end of a run: its metrics, labelled with how they came about, and where the record is."""
    if text := outcome.facts.get("text", ""):
        console.info(f"text: {text.strip()}")
    _show_device(console, outcome)
    if outcome.metrics:
        how = "EMULATED: they say nothing about a real board" if outcome.emulated else "measured on the board"
        if "reference runtime" in outcome.facts.get("engine", ""):
            how += "; REFERENCE RUNTIME, not MindSpore Lite"
        console.info(f"figures ({how}):")
    for name, metric in outcome.metrics.items():
        console.info(
            f"  {name.removesuffix('_' + metric['unit']).replace('_', ' '):<28} {metric['value']:g} {metric['unit']}"
        )
    if outcome.usage is not None:
        used = outcome.usage
        console.info(
            f"used: {human_bytes(used['max_rss_bytes'])} of memory at most, "
            f"{used['user_seconds'] + used['system_seconds']:.2f} s of CPU in {used['wall_seconds']:.2f} s"
            + (" (emulated)" if outcome.emulated else "")
        )
    if outcome.exit_code:
        console.warn(f"the program ended with status {outcome.exit_code}")
        if (why := outcome.diagnosis.explanation) is not None:
            console.info(f"  {why.sentence} {why.remedy}".rstrip())
    for log in outcome.diagnosis.crash_logs:
        console.info(f"crash log: {log.path}  {log.reason}".rstrip())
    if not outcome.complete:
        console.warn("the end of the program's output is missing, so its figures may be too")
    for path in outcome.outputs:
        console.info(f"output: {path}{_shape_of(path)}")
    console.info(f"record: {outcome.record}")


def show_fit(console: Console, fit: Mapping[str, Any]) -> None:
    """Whether a model fits: the verdict, what it takes, and what else could be done."""
    sizes, seconds = fit["bytes"], fit["seconds_per_token"]
    held = sum(sizes[name] for name in ("kv", "compute", "output", "repack", "process"))
    console.info(f"{fit['verdict']}: {fit['model']} on board {fit['board']}")
    parts = [f"{name} {human_bytes(size)}" for name, size in sizes.items() if size and name != "read_per_token"]
    console.info(f"needs {human_bytes(sizes['weights'] + held)}: {', '.join(parts)}")
    console.info(
        f"the board has {human_bytes(fit['available'])} available, of which {human_bytes(fit['usable'])} are counted on"
    )
    console.info(f"largest context: {fit['largest_context']} tokens" if fit["largest_context"] else "no context fits")
    if seconds is not None:
        console.info(
            f"forecast: {seconds:.3g} s for a token, bound by {fit['bound_by']} "
            f"({human_bytes(sizes['read_per_token'])} are read for each, at {fit['rate']})"
        )
    console.info(f"as: ohforge board.run MODEL -- {shlex.join(fit['flags'])}")
    for note in fit["notes"]:
        console.info(f"note: {note}")
    console.table(
        ["WHAT WOULD HELP", "VERDICT", "HELD", "IN ALL", "LARGEST CONTEXT", "S/TOKEN"],
        [_choice_row(choice) for choice in fit["choices"]],
    )
    console.table(
        ["QUANTISATION (ABOUT)", "VERDICT", "HELD", "IN ALL", "", "S/TOKEN"],
        [_choice_row(choice) for choice in fit["quantisations"]],
    )


def _choice_row(choice: Mapping[str, Any]) -> list[str]:
    seconds, largest = choice["seconds_per_token"], choice["largest_context"]
    return [
        choice["title"],
        choice["verdict"],
        human_bytes(choice["held"]),
        human_bytes(choice["total"]),
        "" if largest is None else str(largest),
        f"{seconds:.3g}" if seconds is not None else "",
    ]


def show_boards(console: Console, boards: Iterable[Mapping[str, Any]]) -> None:
    """All boards, one a line, and who uses them."""
    rows = [
        [b["serial"], b["state"], b["profile"], "emulated" if b["emulated"] else "real", _user_of(b), b["note"]]
        for b in boards
    ]
    console.table(["SERIAL", "STATE", "PROFILE", "KIND", "USED BY", "NOTE"], rows)


def _user_of(board: Mapping[str, Any]) -> str:
    lease = board["lease"]
    return f"{lease['user']}: {lease['purpose']}" if lease else "-"


class LogPrinter:
    """Prints the lines of a board's log, or collects them for ``--json``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.entries: list[dict[str, Any]] = []

    def show(self, line: str) -> None:
        """Takes one line as the board printed it."""
        if not self._console.json_mode:
            self._console.words(line)
            return
        from deploy.run.hilog import parse_line

        entry = parse_line(line)
        if entry is not None:
            self.entries.append(entry.as_json())
        elif self.entries:
            self.entries[-1]["text"] += f"\n{line}"


def _show_device(console: Console, outcome: RunOutcome) -> None:
    """Which device computed, loudly when it is not the one that was asked for."""
    use = outcome.diagnosis.device
    if use is None:
        return
    how = f" ({use.evidence[0]})" if use.evidence else ""
    if use.fell_back:
        part = "a part of the model" if use.used == "mixed" else "the model"
        console.warn(f"NNRt was asked for, but THE CPU COMPUTED {part}{how}")
    elif use.used == "unknown":
        console.warn(
            f"device: {use.asked} was asked for; which one computed is NOT KNOWN, nothing says that it was NNRt"
        )
    else:
        console.info(f"device: {use.used}, as asked for{how if use.asked != 'cpu' else ''}")


def show_board(console: Console, facts: Mapping[str, Any]) -> None:
    """A board's facts, one a line."""
    own = ("cpuinfo", "rates")
    rows = [[name.replace("_", " "), _fact(name, value)] for name, value in facts.items() if name not in own]
    rates = facts["rates"]
    console.table(["FACT", "VALUE"], [*rows, ["rates", _rates_of(rates) if rates else "-"]])
    for difference in facts["differs"]:
        console.warn(f"the profile {facts['profile']} does not fit: {difference}")
    if facts["fits"] and facts["profile"] not in facts["fits"]:
        console.info(f"profiles that fit: {', '.join(facts['fits'])}; name one under ohforge.boards")


def _rates_of(rates: Mapping[str, Any]) -> str:
    def shown(rate: float | None) -> str:
        return f"{rate / 1e6:.4g} MB/s" if rate is not None else "not known"

    why = f" ({rates['storage_why']})" if rates["storage_why"] else ""
    where = "EMULATED, they say nothing about a real board; " if rates["emulated"] else ""
    return (
        f"memory {shown(rates['memory'])} of copying by {rates['threads']} threads, storage {shown(rates['storage'])}{why} "
        f"({where}measured {rates['measured']})"
    )


def _fact(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return human_bytes(value)
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={entry}" for key, entry in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _shape_of(path: Path) -> str:
    """Type and shape of a ``.npy`` file; empty for any other."""
    from native.models.inputs import describe_npy

    text = describe_npy(path) if path.suffix == ".npy" else ""
    return f"  {text}" if text else ""


SDK_COLUMNS = ("version", "sdk_version", "api_level", "hosts", "size", "components", "path")


def show_sdks(console: Console, sdks: Iterable[Mapping[str, Any]]) -> None:
    """Installed SDKs and published releases."""
    rows = [[_fact(name, sdk.get(name, "")) for name in SDK_COLUMNS] for sdk in sdks]
    console.table([name.upper().replace("_", " ") for name in SDK_COLUMNS], rows)


def show_fetched(console: Console, fetched: FetchedSdk) -> None:
    """What ``sdk.fetch`` has left."""
    if fetched.source:
        console.info(
            f"from {fetched.source}: {human_bytes(fetched.bytes_downloaded)} downloaded, "
            f"{human_bytes(fetched.bytes_reused)} were here already, {fetched.seconds:.0f} s"
        )
    console.info(f"ohos-sdk {fetched.sdk_version} (API {fetched.api_level}): {fetched.path}")


def print_text(console: Console, text: str) -> None:
    """Text that another program reads; in ``--json`` it stands in the object instead."""
    if not console.json_mode:
        console.info(text.rstrip("\n"))


def show_built(console: Console, outcome: BuildOutcome, asked: Collection[str] = ()) -> dict[str, Any]:
    """What a build has left, and the command that runs it (what was `asked` for first); returns the same for ``--json``."""
    from native.artifact.artifact import MANIFEST

    artifact = outcome.artifact
    path = artifact.folder / MANIFEST
    what = "built" if outcome.rebuilt else "nothing to do"
    console.info(f"{what} ({outcome.reason}) in {outcome.seconds:.1f} s: {path}")
    command = _command_that_runs(artifact, asked)
    prefix = artifact.folder / artifact.prefix if artifact.prefix else None
    if prefix:
        console.info(f"its libraries and headers for other projects: --prefix {artifact.program} ({prefix})")
    if command:
        console.info(f"run it on a board: {command}")
    return {
        "artifact": str(path),
        "key": artifact.key,
        "rebuilt": outcome.rebuilt,
        "reason": outcome.reason,
        "seconds": round(outcome.seconds, 3),
        "products": {product.name: str(artifact.path_of(product)) for product in artifact.products},
        "prefix": str(prefix or ""),
        "built_on": artifact.built_on,
        "run": command,
    }


def _command_that_runs(artifact: Artifact, asked: Collection[str]) -> str:
    """For a program that was asked for, else the one called as the project is, else the first; empty without any."""
    programs = [product for product in artifact.products if product.kind == "program"]
    programs.sort(key=lambda product: (product.name not in asked, product.name != artifact.program))
    if not programs:
        return ""
    path = artifact.path_of(programs[0])
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"ohforge board.run --program {shlex.quote(str(shown))} -- ARGUMENTS"


def show_builds(console: Console, recipes: Iterable[Recipe], artifacts: Iterable[Artifact]) -> None:
    """What can be built, and what is built."""
    console.table(["TARGET", "VERSION", "WHAT IT IS"], [[r.name, r.version, r.description] for r in recipes])
    rows = [[a.program, a.arch, a.cpu, a.toolchain, str(a.folder)] for a in artifacts]
    if rows:
        console.table(["BUILT", "ARCH", "CPU", "TOOLCHAIN", "FOLDER"], rows)


def show_source_build(console: Console, outcome: SourceBuildOutcome, *, pushing: bool) -> None:
    """What a build in a source tree left, and how it gets to a board."""
    headers = 0
    for file in outcome.outputs:
        if file.path.startswith("outputs/lib/"):
            console.info(f"  {file.path.removeprefix('outputs/'):<48} {human_bytes(file.size)}")
        else:
            headers += 1
    console.info(f"  and {headers} headers in outputs/include")
    console.info(f"record: {outcome.record}")
    if not pushing:
        console.info(f"next: ohforge board.push {outcome.libraries} /data/local/tmp/")
        console.info("      and run programs with LD_LIBRARY_PATH=/data/local/tmp/lib on the board")


def show_prerequisites(
    console: Console, tree: SourceTree, products: Iterable[TreeProduct], checks: Iterable[Check]
) -> None:
    """What was looked at before a build in a source tree, and what to do about it."""
    marks = {"ok": "ok", "missing": "MISSING", "doubtful": "doubtful"}
    checks = list(checks)
    console.info(f"{tree.title} in {tree.root}")
    console.info(f"products: {', '.join(product.name for product in products) or 'none'}")
    console.table(["", "WHAT", "FOUND"], [[marks[check.state], check.name, check.found] for check in checks])
    for check in checks:
        if check.remedy:
            console.info(f"{check.name}: {check.remedy}")
