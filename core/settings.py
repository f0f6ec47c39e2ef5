"""Settings: what stands under ``ohforge:`` in Invoke's configuration, as frozen dataclasses.

Invoke merges ``~/.invoke.yaml``, ``invoke.yaml`` in the project and ``INVOKE_OHFORGE_…`` variables;
flags of a task come last. ``OHFORGE_DATA_DIR``, ``OHFORGE_CACHE_DIR``, ``OHFORGE_LEASE_DIR`` and ``OHFORGE_HDC`` are the
variables that scripts and tests use to move all state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from core.addresses import quoted, without_secrets
from core.errors import ConfigurationError, nearest

LONGEST_SECONDS = 1_000_000.0
"""The kernel's poll takes milliseconds in 31 bits: 24 days."""
WORDS_OF_SWITCHES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off", ""), False),
}
NAMES_OF_KINDS = {
    str: "text",
    int: "a whole number that is not negative",
    float: f"a number of seconds from 0 to {LONGEST_SECONDS:.0f}",
    bool: "true or false",
}


def _setting(default: Any, help: str) -> Any:
    """A field with its sentence for ``docs/configuration.md``."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class BoardEntry:
    """A board that the user has named under ``ohforge.boards``."""

    serial: str = _setting(
        "",
        "Connect key as `hdc list targets` shows it: a USB serial number or `IP:PORT`; of an SSH board its address; without "
        "it: an emulated board.",
    )
    transport: Literal["", "ssh"] = _setting(
        "",
        "`ssh`: the board has an sshd, and `serial` is `[USER@]HOST[:PORT]`, where HOST may be one of `~/.ssh/config`; default: hdc.",
    )
    profile: str = _setting("", "Kind of board: the name of a file in `deploy/board/profiles/`.")
    recover: Literal["", "reboot"] = _setting(
        "",
        "`reboot`: restart the board when a run was cut and the board does not answer any more, or something of the run may still "
        "go on there; default: never.",
    )
    device_dir: str = _setting(
        "",
        "Folder of an SSH board under which files are put; default: that of the profile, else the cache folder of the user there.",
    )
    hdc_server: str = _setting(
        "", "`IP:PORT`, or a port of the computer on which hdc runs, of the hdc server that has the board."
    )
    via: str = _setting(
        "", "`ssh://[USER@]HOST[:PORT]` of the computer on which hdc has the board, in place of this one; needs `key`."
    )
    key: str = _setting("", "Connect key of a board with `via`, as `hdc list targets` shows it there.")
    hdc: str = _setting("", "Path of hdc on the computer of `via`; default: the one on its `PATH`.")

    @property
    def over_ssh(self) -> bool:
        """Whether the board is reached over SSH."""
        return self.transport == "ssh" or (self.serial.startswith("ssh://") and not self.via)


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """How long, in seconds, things may take when no flag says otherwise."""

    build: float = _setting(3600.0, "One program's configuring and compiling.")
    source_build: float = _setting(14400.0, "One build in an OpenHarmony source tree.")
    command: float = _setting(60.0, "One short command on a board.")
    run: float = _setting(900.0, "One run of a program on a board.")
    transfer: float = _setting(1800.0, "One file's way to or from a board.")
    lock: float = _setting(3600.0, "Waiting for another process that does the same thing.")
    authorise: float = _setting(60.0, "Waiting for a board's user to confirm that this computer may connect.")
    boot: float = _setting(180.0, "A board's restart, until it can be used again.")
    lease: float = _setting(600.0, "Waiting for a board that someone else uses.")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings. Empty text means "not set": the default is worked out where it is used."""

    data_dir: str = _setting(
        "", "Folder of what is installed (SDKs, emulated boards); default: the user's data folder."
    )
    cache_dir: str = _setting("", "Folder of what can be had again (downloads, sources, compiler cache).")
    lease_dir: str = _setting(
        "/var/tmp/ohforge-leases",  # noqa: S108
        "Folder that notes who uses which real board; all users of this computer must name the same one.",
    )
    build_dir: str = _setting(
        "build", "Folder of built programs; below the folder in which ohforge is called, unless it is absolute."
    )
    runs_dir: str = _setting(
        "runs", "Folder of run records; below the folder in which ohforge is called, unless it is absolute."
    )
    toolchain: str = _setting("", "Host toolchain: `ohos` or `zig`; default: `ohos` when an SDK is there, else `zig`.")
    sdk: str = _setting("", "Folder of the ohos-sdk to use, in any of its usual layouts.")
    jobs: int = _setting(0, "Compile jobs at once; 0: all cores.")
    board: str = _setting("", "Board to use: a serial, a name under `boards`, or an emulated board such as `dayu200`.")
    emulated: Literal["auto", "never"] = _setting(
        "auto",
        "Whether the emulated `dayu200` is taken when no board is named and hdc knows no real one: `auto`; or `never`: "
        "that is an error, as for CI with real boards. Named, it is taken all the same.",
    )
    boards: dict[str, BoardEntry] = field(default_factory=dict, metadata={"help": "Boards by name."})
    run_engine: str = _setting(
        "auto",
        "What runs programs on a board: `agent` (a helper that is put there), `shell` (the board's own), or `auto`: "
        "the agent where it runs.",
    )
    hdc: str = _setting("", "Path of the hdc program, in WSL also of a Windows hdc.exe; default: the SDK's, then PATH.")
    lab: str = _setting(
        "",
        "`HOST[:PORT]` of the labgrid coordinator whose places are boards, `--board lab:PLACE`; default: LG_COORDINATOR.",
    )
    own_servers: bool = _setting(
        True, "Give each board that is reached by TCP an hdc server of its own, so that a frozen one blocks no other."
    )
    require_memory: bool = _setting(
        True, "Refuse to run a model whose file alone is larger than the board's memory; false: only warn."
    )
    offline: bool = _setting(False, "Never use the network.")
    ca_bundle: str = _setting(
        "", "File of certificates for downloads; default: REQUESTS_CA_BUNDLE, then the usual ones."
    )
    program_sources: tuple[str, ...] = _setting(("pypi", "github"), "Where programs' sources are looked for, in order.")
    sdk_sources: tuple[str, ...] = _setting(
        ("mirror", "mirror2", "components", "github"), "Where an SDK is looked for, in order."
    )
    sdk_mirror: str = _setting("", "Address that takes the place of the SDK release mirror's base.")
    sdk_mirror2: tuple[str, ...] = _setting((), "Addresses of the source `mirror2`, tried in order.")
    sdk_list: str = _setting("", "Address that takes the place of the component list's.")
    sdk_github: str = _setting("", "Address that takes the place of GitHub's for SDK archives.")
    sdk_daily: str = _setting("", "Address that takes the place of the daily builds' service.")
    timeouts: Timeouts = field(default_factory=Timeouts, metadata={"help": "Seconds that things may take."})

    @property
    def data(self) -> Path:
        """Folder of what is installed (SDKs, emulated boards)."""
        return _state_folder("OHFORGE_DATA_DIR", self.data_dir, "user_data_path")

    @property
    def cache(self) -> Path:
        """Folder of what can be had again (downloads, sources, compiler cache)."""
        return _state_folder("OHFORGE_CACHE_DIR", self.cache_dir, "user_cache_path")

    @property
    def emulated_boards(self) -> Path:
        """Folder of the emulated boards."""
        return Path(os.environ.get("OHFORGE_EMULATOR_HOME") or self.data / "boards").absolute()

    @property
    def leases(self) -> Path:
        """Folder of the notes of who uses which real board."""
        return Path(os.environ.get("OHFORGE_LEASE_DIR") or self.lease_dir).expanduser().absolute()

    @property
    def builds(self) -> Path:
        return Path(self.build_dir).expanduser().absolute()

    @property
    def runs(self) -> Path:
        return Path(self.runs_dir).expanduser().absolute()


def _state_folder(variable: str, setting: str, platform_default: str) -> Path:
    import platformdirs

    chosen = os.environ.get(variable) or setting
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(getattr(platformdirs, platform_default)("ohforge"))


def defaults() -> dict[str, Any]:
    """The default settings in the form that Invoke's configuration takes.

    All as text: Invoke makes what a variable says into the default's type, and ends with a traceback when that does not
    work (a list never does), or takes any word for "true". Text it leaves as it is, and `read_settings` says what is
    wrong with it.
    """
    return _as_text(dataclasses.asdict(Settings()))


def _as_text(plain: dict[str, Any]) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    for key, value in plain.items():
        if isinstance(value, dict):
            texts[key] = _as_text(value)
        elif isinstance(value, tuple):
            texts[key] = ",".join(value)
        else:
            texts[key] = str(value)
    return texts


def read_settings(
    configuration: Mapping[str, Any],
    read_files: Callable[[], Mapping[str, Mapping[str, Any]]] = dict,
    list_profiles: Callable[[], Sequence[str]] | None = None,
) -> Settings:
    """Makes Settings of the mapping that stands under ``ohforge``.

    `read_files` is called only for an error: it gives the whole content of each configuration file and variable by its
    name, so that the error can name the one in which the key stands. `list_profiles` is called only when a board has a
    profile: it gives the names of those that there are.
    Raises ConfigurationError, naming the key and the nearest known one, for an unknown key, a wrong type, or a board
    whose profile, serial or address cannot be right.
    """
    try:
        settings = typing.cast(Settings, _read(Settings, configuration, "ohforge"))
        _check_boards(settings.boards, list_profiles)
        return settings
    except _WrongEntry as wrong:
        raise ConfigurationError(f"{_file_of(wrong.key, read_files())}{wrong.text}") from None


def _check_boards(boards: Mapping[str, BoardEntry], list_profiles: Callable[[], Sequence[str]] | None) -> None:
    seen: dict[str, str] = {}
    for name, entry in boards.items():
        key = f"ohforge.boards.{name}"
        if entry.profile and list_profiles is not None and entry.profile not in (known := list_profiles()):
            raise _WrongEntry(
                f"{key}.profile",
                f"{key}.profile: there is no board profile {entry.profile!r}; {nearest(entry.profile, known)}.",
            )
        for field_name, known in (("serial", entry.serial), ("key", f"{entry.via} {entry.key}" if entry.via else "")):
            if known and (other := seen.setdefault(known, name)) != name:
                text = f"{key}.{field_name} is that of ohforge.boards.{other} too: {getattr(entry, field_name)}."
                raise _WrongEntry(f"{key}.{field_name}", text)
        for field_name, address in (("via", entry.via), ("serial", entry.serial if entry.over_ssh else "")):
            if ":" in address.removeprefix("ssh://").rpartition("@")[0]:
                text = (
                    f"{key}.{field_name} has a password in it, which is never used: put a key there with ssh-copy-id."
                )
                raise _WrongEntry(f"{key}.{field_name}", text)
        if wrong := _wrong_way(entry):
            raise _WrongEntry(f"{key}.{wrong[0]}", f"{key}.{wrong[0]} {wrong[1]}.")
        if entry.transport == "ssh" and not entry.serial:
            raise _WrongEntry(f"{key}.serial", f"{key}.serial is missing: the address of the SSH board.")
        if ":" in entry.serial and not entry.over_ssh and not _is_address(entry.serial):
            raise _WrongEntry(
                f"{key}.serial", f"{key}.serial {quoted(entry.serial)} is no address of the form IP:PORT."
            )
        if entry.hdc_server and not (_is_port(entry.hdc_server) or _is_address(entry.hdc_server)):
            raise _WrongEntry(
                f"{key}.hdc_server",
                f"{key}.hdc_server {quoted(entry.hdc_server)} is no address of the form IP:PORT, and no port.",
            )


def _wrong_way(entry: BoardEntry) -> tuple[str, str] | None:
    """Which of the settings of a board behind a host cannot be as it is, and why."""
    if entry.via and not entry.via.startswith("ssh://"):
        return "via", f"{quoted(entry.via)} is no address of the form ssh://USER@HOST"
    if entry.via and not entry.key:
        return "key", "is missing: what hdc on the computer of `via` calls the board"
    if entry.via and (entry.serial or entry.transport):
        return "via", "is for boards with a `key`, without `serial` and `transport`"
    if (entry.key or entry.hdc) and not entry.via:
        return "key" if entry.key else "hdc", "is for boards with `via`"
    return None


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else without_secrets(repr(value))


def _is_address(text: str) -> bool:
    import ipaddress

    address, _, port = text.rpartition(":")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return _is_port(port)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


class _WrongEntry(Exception):
    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key
        self.text = text


def _file_of(key: str, files: Mapping[str, Mapping[str, Any]]) -> str:
    for name, content in reversed(list(files.items())):
        value: Any = content
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                break
            value = value[part]
        else:
            return f"{name}: "
    return ""


def _read(cls: type, value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        raise _WrongEntry(key, f"{key} must be a mapping, not {type(value).__name__}.")
    kinds = typing.get_type_hints(cls)
    known = [entry.name for entry in dataclasses.fields(cls)]
    for name in value:
        if name not in known:
            raise _WrongEntry(f"{key}.{name}", f"{key}.{name} is not a setting; {nearest(str(name), known)}.")
    return cls(**{name: _convert(kinds[name], entry, f"{key}.{name}") for name, entry in value.items()})


def _convert(kind: Any, value: Any, key: str) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _read(typing.cast(type, kind), value, key)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _WrongEntry(key, f"{key} must be a mapping, not {_shown(value)}.")
        inner = typing.get_args(kind)[1]
        return {str(name): _convert(inner, entry, f"{key}.{name}") for name, entry in value.items()}
    if origin is tuple:
        items = [item for item in value.split(",") if item.strip()] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise _WrongEntry(key, f"{key} must be a list of words, not {_shown(value)}.")
        return tuple(item.strip() for item in items)
    if kind is str and value is None:
        return ""
    if origin is Literal:
        words = typing.get_args(kind)
        if value not in words:
            raise _WrongEntry(key, f"{key} must be {' or '.join(filter(None, words))}, not {_shown(value)}.")
        return value
    assert not isinstance(kind, types.UnionType)
    given = value
    if kind in (int, float) and isinstance(value, str | int) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            value = kind(value)
    elif kind is bool and isinstance(value, str):
        value = WORDS_OF_SWITCHES.get(value.strip().lower(), value)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if fits and kind in (int, float):
        fits = value >= 0 and (kind is int or (math.isfinite(value) and value <= LONGEST_SECONDS))
    if not fits:
        raise _WrongEntry(key, f"{key} must be {NAMES_OF_KINDS.get(kind, kind)}, not {_shown(given)}.")
    return value
