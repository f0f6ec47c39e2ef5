"""Which host toolchain is meant, and whether it works."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.dry import Would
from core.errors import ToolchainError, UsageError, unknown_name
from core.session import Session
from toolchains.host_toolchain import HOST_TOOLCHAINS, HostToolchain, ToolchainChoice
from toolchains.ohos import prepare_ohos
from toolchains.zig import prepare_zig

if TYPE_CHECKING:
    from toolchains.sdk import Sdk


@dataclass(frozen=True, kw_only=True)
class SelectedToolchain:
    """Which host toolchain is meant, and why; nothing is rendered yet."""

    name: str
    reason: str
    sdk: Sdk | None
    """None for zig, and where the SDK that was named has not been looked at yet."""

    @property
    def static(self) -> bool:
        """Whether it links statically when nothing is said about that."""
        return self.name == "zig"


def choose_toolchain(
    session: Session, choice: ToolchainChoice, selected: SelectedToolchain | None = None
) -> HostToolchain:
    """The toolchain that is meant, ready to be used; `selected` is what `select_toolchain` gave, where it was asked.

    Says what was chosen, and why; with ``--dry`` its files need not be there. Raises UnknownName, TuningNotForArch, SdkNotFound, SdkIncomplete, HostToolMissing.
    """
    selected = selected or select_toolchain(session, choice)
    choice = replace(choice, prefixes=tuple(prefix.absolute() for prefix in choice.prefixes))
    if selected.name == "zig":
        toolchain = prepare_zig(session, choice)
    else:
        from toolchains.sdk import require_sdk

        toolchain = prepare_ohos(session, choice, selected.sdk or require_sdk(session, choice.sdk))
    session.console.chosen("toolchain", f"{toolchain.name}, {toolchain.title}", selected.reason)
    return toolchain


def select_toolchain(session: Session, choice: ToolchainChoice) -> SelectedToolchain:
    """The toolchain that is named, else the setting's, else the SDK's when there is one, else zig.

    Raises UnknownName, UsageError.
    """
    for given in (choice.toolchain, session.settings.toolchain):
        if given and given not in HOST_TOOLCHAINS:
            raise unknown_name("host toolchain", given, HOST_TOOLCHAINS)
    if choice.toolchain == "zig" and choice.sdk:
        raise UsageError("--sdk names an SDK, but --toolchain zig has none.", remedy="Leave one of them away.")
    if choice.toolchain:
        return SelectedToolchain(name=choice.toolchain, reason="--toolchain", sdk=None)
    if choice.sdk:
        return SelectedToolchain(name="ohos", reason="--sdk", sdk=None)
    if session.settings.toolchain:
        return SelectedToolchain(name=session.settings.toolchain, reason="ohforge.toolchain", sdk=None)
    from toolchains.sdk import find_sdk

    found = find_sdk(session)
    if found is None:
        return SelectedToolchain(name="zig", reason="no SDK is installed or named", sdk=None)
    return SelectedToolchain(name="ohos", reason=f"there is an SDK, by {found.found_by}", sdk=found)


def would_render(toolchain: HostToolchain) -> Would:
    """What `choose_toolchain` would have left, had it not been told of ``--dry``."""
    return Would(
        action="use" if toolchain.file.is_file() else "render",
        what=f"the toolchain file for {toolchain.arch.name} ({toolchain.title})",
        where=str(toolchain.file.parent),
    )


def check_compiler(session: Session, toolchain: HostToolchain) -> float:
    """Compiles and links a small C and a small C++ program; returns the seconds that it took.

    A moment when the compiler is ready. zig builds its C and C++ runtimes at the first link for an arch, which takes
    a minute or two and would otherwise look like a configuration that hangs. Raises ToolchainError with the compiler's
    words.
    """
    import tempfile
    import time

    started = time.monotonic()
    languages = (
        ("C", toolchain.cc, "c", "int main(void) { return 0; }\n"),
        ("C++", toolchain.cxx, "cpp", '#include <string>\nint main() { return std::stoi("0"); }\n'),
    )
    with tempfile.TemporaryDirectory(prefix="ohforge-") as scratch:
        for language, compiler, suffix, text in languages:
            source, built = Path(scratch, f"main.{suffix}"), Path(scratch, "main.o")
            source.write_text(text)
            deadline = Deadline.after(
                session.settings.timeouts.build, f"the first {language} link with {toolchain.title}"
            )
            compile_it: list[str | Path] = [compiler, "-O2", "-c", source, "-o", built]
            link_it: list[str | Path] = [compiler, built, "-o", Path(scratch, "main")]
            with session.console.progress(
                f"{language} compiler and its runtime for {toolchain.arch.name}", unit="steps"
            ):
                for argv in (compile_it, link_it):
                    result = session.runner.run(argv, deadline=deadline, env=toolchain.environment)
                    if not result.ok:
                        raise ToolchainError(
                            f"The {language} compiler of {toolchain.title} does not work:\n{result.last_lines()}"
                        )
    return time.monotonic() - started
