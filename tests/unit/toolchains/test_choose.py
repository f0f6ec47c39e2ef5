"""Which toolchain is meant, what its files say, and what its id depends on. Nothing is compiled here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    HostToolMissing,
    SdkIncomplete,
    SdkNotFound,
    ToolchainError,
    TuningNotForArch,
    UnknownName,
    UsageError,
)
from core.process import Result
from core.session import Session
from core.settings import Settings
from core.testing import FakeRunner
from tests.shared.standin_sdk import tiny_tree
from toolchains import zig
from toolchains.arch import ARCHES, ARM32, ARM64, X86_64
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.render import place_rendered, quote_cmake
from toolchains.sdk import ENVIRONMENT_NAMES
from toolchains.toolchain import check_compiler, choose_toolchain


@pytest.fixture(autouse=True)
def no_sdk_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT_NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def sdk(tmp_path: Path) -> str:
    folder = tmp_path / "an sdk"
    tiny_tree(folder, "5.0.0")
    strip = folder / "native/llvm/bin/llvm-strip"
    if not strip.exists():
        strip.symlink_to("llvm-ar")
    return str(folder)


# which one -----------------------------------------------------------------------------------------


def test_zig_is_taken_when_there_is_no_sdk(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name)).name == "zig"
    assert re.search(r"toolchain: zig, ziglang .*\(no SDK is installed or named\)", capsys.readouterr().out)


def test_an_sdk_that_is_named_is_taken_before_zig(session: Session, sdk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk)).name == "ohos"
    monkeypatch.setenv("OHOS_NDK_HOME", sdk)
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name)).name == "ohos"
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig")).name == "zig"


def test_a_setting_counts_less_than_a_flag(session: Session, sdk: str) -> None:
    settings = Session(settings=Settings(toolchain="zig", sdk=sdk), console=session.console)
    assert choose_toolchain(settings, ToolchainChoice(arch=ARM64.name)).name == "zig"
    assert choose_toolchain(settings, ToolchainChoice(arch=ARM64.name, toolchain="ohos")).name == "ohos"
    assert choose_toolchain(settings, ToolchainChoice(arch=ARM64.name, sdk=sdk)).name == "ohos"


def test_an_unknown_toolchain_is_answered_with_the_nearest(session: Session) -> None:
    with pytest.raises(UnknownName, match="did you mean 'zig'"):
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zigg"))
    with pytest.raises(UnknownName, match="'gcc'"):
        choose_toolchain(
            Session(settings=Settings(toolchain="gcc"), console=session.console), ToolchainChoice(arch=ARM64.name)
        )


def test_ohos_without_an_sdk_says_what_to_do(session: Session) -> None:
    with pytest.raises(SdkNotFound) as caught:
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="ohos"))
    assert "ohforge sdk.fetch" in caught.value.remedy


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"toolchain": "zig", "sdk": "/somewhere"}, "--sdk names an SDK"),
        ({"toolchain": "zig", "static": False}, "links statically only"),
        ({"toolchain": "zig", "stl": "c++_shared"}, "only --stl c"),
    ],
)
def test_what_zig_cannot_do_is_refused(session: Session, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, **options))  # type: ignore[arg-type]


def test_the_soft_float_tuning_is_for_the_sdks_compiler_on_arm32_only(session: Session, sdk: str) -> None:
    assert choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk, cpu="soft-float")).title.endswith(
        "c++_static, soft"
    )
    with pytest.raises(TuningNotForArch, match="host toolchain ohos only"):
        choose_toolchain(session, ToolchainChoice(arch=ARM32.name, toolchain="zig", cpu="soft-float"))
    with pytest.raises(TuningNotForArch, match="not for arm64"):
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk, cpu="soft-float"))


def test_options_of_the_sdk_that_exclude_each_other_or_are_unknown_are_refused(session: Session, sdk: str) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk, static=True, stl="c++_shared"))
    with pytest.raises(UnknownName, match=r"did you mean 'c\+\+_shared'"):
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk, stl="c++_shard"))
    with pytest.raises(TuningNotForArch, match="arm32 has: generic, cortex-a7"):
        choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk, cpu="x86-64-v3"))


def test_an_arch_that_the_sdk_lacks_is_named_with_the_missing_file(session: Session, sdk: str) -> None:
    for file in Path(sdk, "native/sysroot/usr/lib").glob("arm-linux-ohos/*"):
        file.unlink()
    with pytest.raises(SdkIncomplete, match=r"sysroot/usr/lib/arm-linux-ohos/crt1\.o, without which nothing"):
        choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk))


def test_an_sdk_for_another_kind_of_computer_is_refused(session: Session, sdk: str) -> None:
    Path(sdk, "native/llvm/bin/clang-15").write_bytes(b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01" + bytes(100))
    with pytest.raises(ToolchainError, match="runs on macos-arm64"):
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk))


def test_a_missing_ziglang_package_is_named(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HostToolMissing, match="ziglang"):
        zig.find_zig()


# identity ------------------------------------------------------------------------------------------


def elsewhere(session: Session, folder: Path) -> Session:
    return Session(settings=Settings(cache_dir=str(folder)), console=session.console)


def test_the_id_does_not_depend_on_where_anything_lies(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OHFORGE_CACHE_DIR")
    found: dict[str, set[tuple[str, str]]] = {"zig": set(), "ohos": set()}
    for place in ("one", "another place"):
        there = elsewhere(session, tmp_path / place / "cache")
        tiny_tree(tmp_path / place / "sdk", "5.0.0")
        Path(tmp_path / place / "sdk/native/llvm/bin/llvm-strip").touch()
        for toolchain in (
            choose_toolchain(there, ToolchainChoice(arch=ARM32.name, toolchain="zig")),
            choose_toolchain(there, ToolchainChoice(arch=ARM32.name, sdk=str(tmp_path / place / "sdk"))),
        ):
            assert toolchain.file.is_relative_to(tmp_path / place)
            found[toolchain.name].add((toolchain.id, toolchain.environment["CCACHE_COMPILERCHECK"]))
    assert len(found["zig"]) == len(found["ohos"]) == 1


def test_the_id_depends_on_arch_tuning_version_and_every_option(
    session: Session, sdk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        ToolchainChoice(arch=ARM64.name),
        ToolchainChoice(arch=ARM32.name),
        ToolchainChoice(arch=ARM64.name, cpu="cortex-a55"),
        ToolchainChoice(arch=ARM64.name, cpu="cortex-a76"),
        ToolchainChoice(arch=ARM64.name, prefixes=(tmp_path,)),
    ]
    of_ohos = [
        *requests,
        ToolchainChoice(arch=ARM64.name, static=True),
        ToolchainChoice(arch=ARM64.name, stl="c++_shared"),
        ToolchainChoice(arch=ARM64.name, stl="none"),
    ]
    ids = [choose_toolchain(session, replace(request, toolchain="zig")).id for request in requests]
    ids += [choose_toolchain(session, replace(request, sdk=sdk)).id for request in of_ohos]
    here = zig.find_zig()
    newer = zig.Zig(program=here.program, version="0.99.0", clang=here.clang)
    monkeypatch.setattr(zig, "find_zig", lambda: newer)
    ids.append(choose_toolchain(session, replace(requests[0], toolchain="zig")).id)
    assert len(set(ids)) == len(ids)


def test_the_default_tuning_and_generic_are_the_same(session: Session) -> None:
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name)) == choose_toolchain(
        session, ToolchainChoice(arch=ARM64.name, cpu="generic")
    )


def test_the_shared_link_to_zigs_headers_is_kept_while_it_leads_somewhere(tmp_path: Path) -> None:
    first, second, link = (tmp_path / name for name in ("first", "second", "cache/lib-1"))
    for folder in (first, second):
        (folder / "lib").mkdir(parents=True)
    for folder in (first, second):
        zig.share_headers(zig.Zig(program=folder / "zig", version="1", clang="1"), link)
        assert link.resolve() == first / "lib"
    shutil.rmtree(first)
    zig.share_headers(zig.Zig(program=second / "zig", version="1", clang="1"), link)
    assert link.resolve() == second / "lib"
    assert [path.name for path in link.parent.iterdir()] == [link.name]


# rendered files ------------------------------------------------------------------------------------


def test_files_are_written_once_and_repaired_when_changed(tmp_path: Path) -> None:
    files = {"a": "text", "sub/b": "#!/bin/sh\n"}
    folder = place_rendered(tmp_path, "name", files, frozenset({"sub/b"}))
    before = (folder / "a").stat().st_mtime_ns
    assert place_rendered(tmp_path, "name", files, frozenset({"sub/b"})) == folder
    assert (folder / "a").stat().st_mtime_ns == before
    assert os.access(folder / "sub/b", os.X_OK)
    (folder / "a").write_text("tampered")
    (folder / "sub/b").unlink()
    place_rendered(tmp_path, "name", files, frozenset({"sub/b"}))
    assert (folder / "a").read_text() == "text"
    assert os.access(folder / "sub/b", os.X_OK)
    assert place_rendered(tmp_path, "name", {"a": "other"}, frozenset()) != folder


@pytest.mark.parametrize(
    "text", ["plain", "a b", "]]", "]=]", "x]", "$ENV{HOME} ${x}", 'q"q', "back\\slash", "]=", "]==]]"]
)
def test_a_quoted_cmake_argument_is_taken_as_it_stands(tmp_path: Path, text: str) -> None:
    script = tmp_path / "quote.cmake"
    script.write_text(f'set(value {quote_cmake(text)})\nfile(WRITE "${{CMAKE_ARGV3}}" "${{value}}")\n')
    subprocess.run(["cmake", "-P", script, tmp_path / "out"], check=True, timeout=60)
    assert (tmp_path / "out").read_text() == text


def wrapper_calls(session: Session, tmp_path: Path, toolchain: HostToolchain, *words: str) -> list[str]:
    """What the wrapper would call, seen by a program that stands in for zig."""
    spy = tmp_path / "spy zig"
    spy.write_text('#!/bin/sh\nfor word do printf "%s\\n" "$word"; done\n')
    spy.chmod(0o755)
    text = toolchain.cc.read_text()
    program = str(zig.find_zig().program)
    assert program in text
    copy = tmp_path / "zig-cc"
    copy.write_text(text.replace(program, f"'{spy}'"))
    done = subprocess.run(["sh", copy, *words], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def arm64(session: Session) -> HostToolchain:
    return choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))


@pytest.mark.parametrize(
    ("clang", "zigs"),
    [
        ("-march=armv8-a", "generic+v8a"),
        ("-march=armv8.2-a+dotprod+fp16", "generic+v8_2a+dotprod+fullfp16"),
        ("-march=armv8.6-a+i8mm+bf16+nosve", "generic+v8_6a+i8mm+bf16-sve"),
        ("-march=armv9-a+sve2", "generic+v9a+sve2"),
        ("-march=armv9.2-a", "generic+v9_2a"),
        ("-mcpu=cortex-a55", "cortex_a55"),
        ("-mcpu=cortex-a76+crypto+nofp16", "cortex_a76+aes+sha2-fullfp16"),
        ("-mcpu=cortex-a72+nocrypto+simd", "cortex_a72-aes-sha2+neon"),
        ("-march=armv9-a+sve2-bitperm", "generic+v9a+sve2_bitperm"),
    ],
)
def test_cpus_are_translated_when_compiling(
    session: Session, tmp_path: Path, arm64: HostToolchain, clang: str, zigs: str
) -> None:
    call = wrapper_calls(session, tmp_path, arm64, "-O3", clang, "-c", "a.c", "-o", "a.o")
    assert [word for word in call if word.startswith(("-mcpu", "-march"))] == [f"-mcpu={zigs}"]
    assert "-O3" in call


def test_the_last_cpu_counts_and_tune_is_dropped(session: Session, tmp_path: Path, arm64: HostToolchain) -> None:
    call = wrapper_calls(
        session, tmp_path, arm64, "-mcpu=cortex-a53", "-mtune=cortex-a7", "-march=armv8-a", "-c", "a.c"
    )
    assert [word for word in call if word.startswith("-m")] == ["-mcpu=generic+v8a"]


def test_armv7_means_the_baseline_of_arm32_and_the_float_abi_stays(session: Session, tmp_path: Path) -> None:
    arm32 = choose_toolchain(session, ToolchainChoice(arch=ARM32.name, toolchain="zig"))
    words = ("-march=armv7-a", "-mfloat-abi=softfp", "-mfpu=neon", "-c", "a.c")
    call = wrapper_calls(session, tmp_path, arm32, *words)
    assert [word for word in call if word.startswith("-m")] == ["-mcpu=cortex_a7"]
    assert "arm-linux-musleabihf" in call


def test_native_is_refused_because_it_tunes_for_the_wrong_machine(
    session: Session, tmp_path: Path, arm64: HostToolchain
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        wrapper_calls(session, tmp_path, arm64, "-march=native", "-c", "a.c")
    assert caught.value.returncode == 1
    assert "not for the board" in caught.value.stderr


def test_every_link_gives_zig_the_same_flags(session: Session, tmp_path: Path) -> None:
    tuned = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig", cpu="cortex-a55"))
    call = wrapper_calls(session, tmp_path, tuned, "-O0", "-fPIC", "-mcpu=cortex-a76", "-funwind-tables", "a.o", "-lm")
    options = [word for word in call if word.startswith("-") and word not in ("-lm", "-target")]
    assert sorted(options) == sorted(["-mcpu=generic", "-O2", "-Wl,--build-id=sha1", "-s"])
    assert wrapper_calls(session, tmp_path, tuned, "-O2", "a.o", "-lm") == call


def test_a_link_with_debug_information_is_not_stripped(session: Session, tmp_path: Path, arm64: HostToolchain) -> None:
    assert "-s" not in wrapper_calls(session, tmp_path, arm64, "-g", "a.o", "-o", "a")
    assert "-s" in wrapper_calls(session, tmp_path, arm64, "a.o", "-o", "a")


def test_probes_of_build_systems_do_not_build_runtimes_of_their_own(session: Session, tmp_path: Path) -> None:
    tuned = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig", cpu="cortex-a55"))
    for source in ("CMakeCCompilerId.c", "/b/CMakeCXXCompilerId.cpp", "sanitycheckc.c", "conftest.c"):
        assert "-mcpu=generic" in wrapper_calls(session, tmp_path, tuned, source, "-o", "a.out")
    assert "-mcpu=cortex_a55" in wrapper_calls(session, tmp_path, tuned, "main.c", "-o", "main")
    assert "-mcpu=cortex_a55" in wrapper_calls(session, tmp_path, tuned, "-c", "conftest.c")


def test_text_from_standard_input_and_questions_reach_clang_in_its_own_spelling(
    session: Session, tmp_path: Path, arm64: HostToolchain
) -> None:
    assert wrapper_calls(session, tmp_path, arm64, "-dM", "-E", "-") == [
        "cc", "-target", "aarch64-linux-musl", "-march=armv8-a", "-dM", "-E", "-",
    ]  # fmt: skip
    assert wrapper_calls(session, tmp_path, arm64, "--version") == ["cc", "-target", "aarch64-linux-musl", "--version"]


def test_words_with_blanks_and_quotes_pass_unharmed(session: Session, tmp_path: Path, arm64: HostToolchain) -> None:
    words = ['-DX="a b"', "-I/a b/$HOME", "it's.c", "", "*"]
    call = wrapper_calls(session, tmp_path, arm64, "-c", *words)
    assert call[-len(words) :] == words


def test_zig_wrappers_name_the_version_so_that_a_compiler_cache_can_tell(arm64: HostToolchain) -> None:
    assert zig.find_zig().version in arm64.cc.read_text()
    assert arm64.environment["CCACHE_COMPILERCHECK"].startswith("string:")


def test_titles_say_what_people_need_to_know(session: Session, sdk: str) -> None:
    assert "hard float" in choose_toolchain(session, ToolchainChoice(arch=ARM32.name, toolchain="zig")).title
    assert "static musl" in choose_toolchain(session, ToolchainChoice(arch=X86_64.name, toolchain="zig")).title
    tuned = choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk, cpu="cortex-a55")).title
    assert "ohos-sdk 5.0.0.71 (API 12" in tuned
    assert tuned.endswith("c++_static, softfp, tuned for cortex-a55")


def test_shared_libcxx_travels_with_the_programs(session: Session, sdk: str) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk, stl="c++_shared"))
    assert [path.name for path in toolchain.runtime_libraries] == ["libc++_shared.so"]
    assert toolchain.runtime_libraries[0].is_file()
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk)).runtime_libraries == ()


def test_the_sdks_strip_is_used_and_zig_needs_none(session: Session, sdk: str) -> None:
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk)).strip == (
        f"{sdk}/native/llvm/bin/llvm-strip",
    )
    assert choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig")).strip == ()


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_a_compiler_that_does_not_work_is_told_with_its_own_words(session: Session, arch: object) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=arch.name, toolchain="zig"))  # type: ignore[arg-type]

    def fail(argv: tuple[str, ...]) -> Result:
        return session.runner.run(
            ["sh", "-c", "echo 'error: broken by hand' >&2; exit 1"], deadline=Deadline.after(10, "a failure")
        )

    broken = Session(settings=session.settings, console=session.console, runner=FakeRunner(answers=[((), fail)]))
    with pytest.raises(ToolchainError, match="broken by hand"):
        check_compiler(broken, toolchain)
