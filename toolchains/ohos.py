"""Host toolchain ``ohos``: an SDK's clang through a toolchain file that mends the SDK's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import SdkIncomplete, ToolchainError, UsageError, unknown_name
from core.files import sha256_json
from core.session import Session
from toolchains.arch import ARM32, find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice, tell_compiler_caches
from toolchains.render import TEMPLATES, pkg_config_folders, place_rendered, render
from toolchains.sdk import TOOLCHAIN_FILE, Sdk, this_host
from toolchains.sdk_content import hash_content
from toolchains.tuning import GENERIC, Tuning, find_tuning

STLS = ("c++_static", "c++_shared", "none")
STACK_BYTES = 8 * 1024 * 1024
PROGRAMS = ("ohos-cc", "ohos-c++")
ELSEWHERE = Path("<native>")
"""Stands for the SDK's folder in what the id is made of, so that two folders give the same one."""


def prepare_ohos(session: Session, choice: ToolchainChoice, sdk: Sdk) -> HostToolchain:
    """Renders the wrapper toolchain file and compiler scripts for `sdk`; fast when they are there already.

    With ``--dry`` none is written.

    Raises UsageError for options that exclude each other, UnknownName, SdkIncomplete for an arch that the SDK lacks,
    ToolchainError for an SDK of another kind of computer.
    """
    arch = find_arch(choice.arch)
    build = _Build(
        sdk=sdk,
        tuning=find_tuning(choice.cpu, arch),
        choice=choice,
        stl=_choose_stl(choice),
        static=bool(choice.static),
    )
    _check(build)
    files = _render_files(build, sdk.native)
    name = f"ohos-{sdk.version}-{arch.name}-{build.tuning.name}"
    parent = session.settings.cache / "toolchains"
    folder = place_rendered(parent, name, files, frozenset(PROGRAMS), dry=session.dry)
    tools = sdk.native / "llvm/bin"
    content, anywhere = (
        hash_content(session, sdk),
        _render_files(replace(build, choice=choice.without_places()), ELSEWHERE),
    )
    compiler = {"sdk": content, "programs": {name: anywhere[name] for name in PROGRAMS}}
    return HostToolchain(
        name="ohos",
        arch=arch,
        cpu=build.tuning.name,
        static=build.static,
        file=folder / "toolchain.cmake",
        id=sha256_json({"sdk": content, "files": anywhere}),
        title=_describe(build),
        cc=folder / "ohos-cc",
        cxx=folder / "ohos-c++",
        ar=tools / _exe("llvm-ar"),
        ranlib=tools / _exe("llvm-ranlib"),
        strip=(str(tools / _exe("llvm-strip")),),
        environment=tell_compiler_caches(sha256_json(compiler)),
        sdk=sdk,
        stl=build.stl,
        runtime_libraries=_runtime_libraries(build),
        prefixes=choice.prefixes,
    )


@dataclass(frozen=True, kw_only=True)
class _Build:
    sdk: Sdk
    tuning: Tuning
    choice: ToolchainChoice
    stl: str
    static: bool

    @property
    def compile_flags(self) -> list[str]:
        """What is added to every compilation.

        softfp, unless soft is asked for: the SDK leaves arm32 without any floating point instruction. ``hard`` would
        be worse: such objects link with the SDK's without a word, and pass numbers in registers that the other side
        does not look at.
        """
        float_abi = [f"-mfloat-abi={self.float_abi}"] if self.float_abi else []
        return [*self.tuning.clang, *float_abi]

    @property
    def float_abi(self) -> str:
        """Empty for an arch that has but one."""
        if self.tuning.arch != ARM32:
            return ""
        return "soft" if self.tuning.soft_float else "softfp"

    @property
    def executable_flags(self) -> list[str]:
        """What is added to the link of every program."""
        return [f"-Wl,-z,stack-size={STACK_BYTES}", *(["-static"] if self.static else [])]

    @property
    def library_folder(self) -> Path:
        return self.sdk.native / "llvm/lib" / self.tuning.arch.ohos_triple


def _choose_stl(choice: ToolchainChoice) -> str:
    stl = choice.stl or "c++_static"
    if stl not in STLS:
        raise unknown_name("C++ library (--stl)", stl, STLS)
    if choice.static and stl == "c++_shared":
        raise UsageError("--static and --stl c++_shared exclude each other.", remedy="Leave one of the two away.")
    return stl


def _check(build: _Build) -> None:
    sdk, triple = build.sdk, build.tuning.arch.ohos_triple
    if sdk.host != this_host():
        raise ToolchainError(
            f"The SDK in {sdk.root} runs on {sdk.host}; this is {this_host()}.",
            remedy="Install the SDK for this computer with `ohforge sdk.fetch`, or use --toolchain zig.",
        )
    needed = [sdk.native / "sysroot/usr/lib" / triple / "crt1.o", sdk.native / "llvm/bin" / _exe("llvm-strip")]
    if build.stl == "c++_shared":
        needed.append(build.library_folder / "libc++_shared.so")
    for path in needed:
        if not path.exists():
            raise SdkIncomplete(
                f"The SDK in {sdk.root} has no {path.relative_to(sdk.native)}, without which nothing can be built for "
                f"{build.tuning.arch.name}."
            )


def _render_files(build: _Build, native: Path) -> dict[str, str]:
    choice = build.choice
    common = {"arch": build.tuning.arch, "title": build.sdk.title, "compile_flags": build.compile_flags}
    cmake = render(
        "ohos.cmake.jinja",
        **common,
        cpu_name=build.tuning.name,
        stl=build.stl,
        sdk_file=native / TOOLCHAIN_FILE,
        executable_flags=build.executable_flags,
        prefixes=choice.prefixes,
        pkg_config_libdir=pkg_config_folders(choice.prefixes),
    )
    files = {"toolchain.cmake": cmake, "modules/Platform/OHOS.cmake": (TEMPLATES / "ohos-platform.cmake").read_text()}
    for program, compiler in zip(PROGRAMS, ("clang", "clang++"), strict=True):
        stl_flags = {"c++_static": ["-static-libstdc++"], "none": ["-nostdlib++"]}.get(build.stl, [])
        files[program] = render(
            "ohos-cc.jinja",
            **common,
            program=program,
            compiler=native / "llvm/bin" / _exe(compiler),
            sysroot=native / "sysroot",
            target_flags=f"--target={build.tuning.arch.ohos_triple}",
            link_flags=[
                "-fuse-ld=lld",
                "--rtlib=compiler-rt",
                "-Wl,--build-id=sha1",
                *build.executable_flags,
                *(stl_flags if compiler == "clang++" else []),
            ],
        )
    return files


def _runtime_libraries(build: _Build) -> tuple[Path, ...]:
    return (build.library_folder / "libc++_shared.so",) if build.stl == "c++_shared" else ()


def _describe(build: _Build) -> str:
    parts = [build.sdk.title, "static" if build.static else build.stl]
    if build.float_abi:
        parts.append(build.float_abi)
    if build.tuning.name != GENERIC and not build.tuning.soft_float:
        parts.append(f"tuned for {build.tuning.name}")
    return ", ".join(parts)


def _exe(name: str) -> str:
    return f"{name}.exe" if this_host().startswith("windows") else name
