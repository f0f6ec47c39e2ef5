"""Projects as people have them: what each once met, it now passes, or is told why not and what to do."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import BuildError, ProductMissing, UnfitProduct
from core.files import sha256_folder
from core.session import Session
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import first_errors
from native.recipe.project import read_options
from tests.shared.standin_sdk import runtime_tree, standin_sdk
from toolchains.arch import ARCHES
from toolchains.host_toolchain import ToolchainChoice

ARCH = pytest.mark.parametrize("arch", ["arm32", "arm64"])
TOOLCHAIN = pytest.mark.parametrize("toolchain", ["zig", "ohos"])
MAIN = "int main(void) { return 0; }\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workshop:
    session: Session
    folder: Path
    sdk: Path
    cache: Path

    def write(self, files: dict[str, str], name: str = "project") -> Path:
        for file, text in files.items():
            place = self.folder / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return self.folder / name

    def build(self, project: Path, toolchain: str, arch: str = "arm64", **more: object) -> BuildOutcome:
        choice = ToolchainChoice(arch=arch, toolchain=toolchain, sdk=str(self.sdk) if toolchain == "ohos" else "")
        request = BuildRequest(source=str(project), choice=choice)
        return ensure_built(self.session, dataclasses.replace(request, **more))  # type: ignore[arg-type]

    def run(self, outcome: BuildOutcome, name: str) -> str:
        """Runs a program under qemu, a dynamic one with the C library of the stand-in board."""
        artifact = outcome.artifact
        program = artifact.path_of(artifact.product(name))
        words = [ARCHES[artifact.arch].qemu, "-L", str(runtime_tree(artifact.arch, self.cache)), str(program)]
        return self.session.runner.run(words, deadline=Deadline.after(60, "the program")).text


@pytest.fixture
def shop(session: Session, tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    if shutil.which("make") is None or shutil.which("qemu-arm-static") is None:
        pytest.skip("make and qemu-user-static are not both installed")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    return Workshop(session=session, folder=tmp_path, sdk=standin_sdk(shared_cache, "5.0.0"), cache=shared_cache)


def test_objects_of_one_tuning_and_arch_do_not_get_into_the_build_of_another(shop: Workshop) -> None:
    project = shop.write(
        {
            "main.c": '#include <stdio.h>\nint main(void) {\n#ifdef __ARM_FEATURE_DOTPROD\n puts("dot product");\n'
            '#else\n puts("generic");\n#endif\n return 0; }\n',
            "Makefile": "prog: main.o\n\t$(CC) -o $@ main.o\nmain.o: main.c\n\t$(CC) $(CFLAGS) -c -o $@ main.c\n",
        }
    )
    said = []
    for arch, cpu in (("arm64", "cortex-a76"), ("arm64", "generic"), ("arm32", "generic"), ("arm32", "cortex-a55")):
        choice = ToolchainChoice(arch=arch, cpu=cpu, toolchain="ohos", sdk=str(shop.sdk), static=True)
        said.append(shop.run(shop.build(project, "ohos", choice=choice), "prog").strip())
    assert said == ["dot product", "generic", "generic", "dot product"]


def test_a_tree_that_was_begun_with_other_inputs_is_begun_anew(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = shop.write({"main.c": MAIN, "Makefile": "prog: main.o\n\t$(CC) -o $@ main.o\n"})
    outcome = shop.build(project, "zig")
    tree, manifest = outcome.artifact.folder / "tree", outcome.artifact.folder / "artifact.json"
    (tree / "source/main.o").write_bytes(b"of another compiler")
    manifest.unlink()
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(tmp_path / "another cache"))
    again = shop.build(project, "zig")
    assert again.artifact.folder == outcome.artifact.folder
    assert again.artifact.products == outcome.artifact.products


@ARCH
def test_a_compiler_that_is_given_several_sources_makes_all_their_objects(shop: Workshop, arch: str) -> None:
    project = shop.write(
        {
            "a.c": "int a(void) { return 1; }\n",
            "b.c": "int b(void) { return 2; }\n",
            "c.S": ".data\n.global c\nc: .long 4\n",
            "main.c": "#include <stdio.h>\nint a(void), b(void); extern int c;\n"
            'int main(void) { printf("%d\\n", a() + b() + c); return 0; }\n',
            "Makefile": "prog: main.c libs.a\n\t$(CC) -o $@ main.c libs.a\n"
            "libs.a: a.c b.c c.S\n\t$(CC) -I . -c $^\n\t$(AR) rcs $@ a.o b.o c.o\n",
        }
    )
    assert shop.run(shop.build(project, "zig", arch), "prog") == "7\n"


def test_several_sources_with_one_name_for_the_object_are_refused(shop: Workshop) -> None:
    project = shop.write({"a.c": MAIN, "b.c": MAIN, "Makefile": "x.o: a.c b.c\n\t$(CC) -c a.c b.c -o $@\n"})
    with pytest.raises(BuildError, match="cannot specify -o when generating multiple output files"):
        shop.build(project, "zig")


@TOOLCHAIN
def test_operations_that_stand_in_ar_are_not_lost(shop: Workshop, toolchain: str) -> None:
    project = shop.write(
        {
            "a.c": "int a(void) { return 1; }\n",
            "main.c": "int a(void);\n" + MAIN.replace("return 0", "return a() - 1"),
            "Makefile": "AR = ar rcu\nprog: main.o libx.a\n\t$(CC) -o $@ main.o libx.a\nlibx.a: a.o\n\t$(AR) $@ a.o\n",
        }
    )
    assert [product.name for product in shop.build(project, toolchain).artifact.products] == ["prog"]


@ARCH
@TOOLCHAIN
def test_cmakes_compiler_with_cmakes_flags_compiles_for_the_board(shop: Workshop, toolchain: str, arch: str) -> None:
    project = shop.write(
        {
            "list.h": "#include <limits.h>\n#ifdef __arm__\narm32\n#elif defined(__aarch64__)\narm64\n#endif\n",
            "main.c": MAIN,
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(list C)\n"
            'separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS}")\nadd_custom_command(OUTPUT list.txt\n'
            "  COMMAND ${CMAKE_C_COMPILER} ${flags} -E -P ${CMAKE_CURRENT_SOURCE_DIR}/list.h -o list.txt)\n"
            "add_custom_target(list ALL DEPENDS list.txt)\nadd_executable(prog main.c)\n",
        }
    )
    outcome = shop.build(project, toolchain, arch)
    assert (outcome.artifact.folder / "tree/list.txt").read_text().split()[-1] == arch


@pytest.mark.parametrize(("wanted", "said"), [("2.8.12", True), ("3.4...3.10", False), ("3.16", False)])
def test_a_project_for_a_cmake_of_old_is_built_and_that_is_said(
    shop: Workshop, wanted: str, said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"cmake_minimum_required(VERSION {wanted})\nproject(old C)\nadd_executable(old main.c)\n"
    outcome = shop.build(shop.write({"CMakeLists.txt": text, "main.c": MAIN}), "zig")
    assert [product.name for product in outcome.artifact.products] == ["old"]
    assert ("asks for CMake 2.8" in capsys.readouterr().out) is said


@ARCH
def test_shared_libraries_of_zig_get_one_answer(shop: Workshop, arch: str) -> None:
    text = "cmake_minimum_required(VERSION 3.16)\nproject(pi C)\nadd_library(pi {} pi.c)\ninstall(TARGETS pi)\n"
    files = {"pi.c": "double half(double x);\ndouble half(double x) { return x / 2; }\n"}
    project = shop.write({**files, "CMakeLists.txt": text.format("SHARED")})
    with pytest.raises(UnfitProduct, match=r"of shared libraries only \(libpi\.so\): .*links statically") as caught:
        shop.build(project, "zig", arch)
    assert "--toolchain ohos" in caught.value.remedy
    static = shop.build(shop.write({**files, "CMakeLists.txt": text.format("")}, "open"), "zig", arch)
    assert (static.artifact.folder / static.artifact.prefix / "lib/libpi.a").is_file()


@TOOLCHAIN
@pytest.mark.parametrize("system", ["cmake", "meson"])
def test_a_build_runs_its_own_program_in_the_emulator(shop: Workshop, toolchain: str, system: str) -> None:
    project = shop.write(
        {
            "table.c": '#include <stdio.h>\nint main(void) { puts("#define N 42"); return 0; }\n',
            "app.c": '#include <stdio.h>\n#include "table.h"\nint main(void) { printf("%d\\n", N); return 0; }\n',
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(gen C)\nadd_executable(table table.c)\n"
            "add_custom_command(OUTPUT table.h COMMAND table > table.h DEPENDS table)\n"
            "add_executable(app app.c ${CMAKE_CURRENT_BINARY_DIR}/table.h)\n"
            "target_include_directories(app PRIVATE ${CMAKE_CURRENT_BINARY_DIR})\n",
            "meson.build": "project('gen', 'c')\ntable = executable('table', 'table.c')\n"
            "header = custom_target(output: 'table.h', command: table, capture: true)\nexecutable('app', 'app.c', header)\n",
        }
    )
    assert shop.run(shop.build(project, toolchain, "arm32", system=system), "app") == "42\n"


@pytest.mark.parametrize("system", ["cmake", "make"])
def test_where_it_cannot_run_its_own_program_that_is_said_with_what_to_do(
    shop: Workshop, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = shop.write(
        {
            "table.c": MAIN,
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(gen C)\nadd_executable(table table.c)\n"
            "add_custom_command(OUTPUT table.h COMMAND table > table.h DEPENDS table)\n"
            "add_custom_target(all_of_it ALL DEPENDS table.h)\n",
            "Makefile": "table.h: table\n\t./table > $@\ntable: table.c\n\t$(CC) -o $@ table.c\n",
        }
    )
    monkeypatch.setattr("native.build.prepare.write_emulator", lambda *_: "")
    if Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists():
        pytest.skip("this machine runs such programs by itself: qemu is registered with the kernel")
    with pytest.raises(BuildError, match="tried to run table, which it has made for the board") as caught:
        shop.build(project, "zig", system=system)
    assert "qemu-user-static" in caught.value.remedy
    assert ("HOSTCC" in caught.value.remedy) is (system == "make")


def test_a_static_library_may_be_named_by_its_file(shop: Workshop) -> None:
    """With `-l:`, which zig takes for a library of the system."""
    project = shop.write(
        {
            "main.c": "int half(int x);\nint main(void) { return half(0); }\n",
            "half.c": "int half(int x) { return x / 2; }\n",
            "Makefile": "prog: main.c libhalf.a\n\t$(CC) -o $@ main.c -L. -l:libhalf.a\n"
            "libhalf.a: half.c\n\t$(CC) -c half.c\n\t$(AR) cr $@ half.o\n",
        }
    )
    assert [one.name for one in shop.build(project, "zig", system="make").artifact.products] == ["prog"]


@TOOLCHAIN
def test_a_makefile_may_strip_a_program_into_another(shop: Workshop, toolchain: str) -> None:
    project = shop.write(
        {
            "main.c": '#include <stdio.h>\nint main(void) { puts("thin"); return 0; }\n',
            "Makefile": "prog: only_linked\n\t$(STRIP) -s -o $@ --remove-section=.note -R .comment only_linked\n"
            "only_linked: main.c\n\t$(CC) -o $@ main.c\n",
        }
    )
    outcome = shop.build(project, toolchain)
    assert outcome.artifact.product("prog").stripped
    assert shop.run(outcome, "prog") == "thin\n"


def test_a_helper_for_this_machine_is_compiled_by_its_own_compiler_where_there_is_a_cache(shop: Workshop) -> None:
    """Meson puts the cache before gcc too, and the cache believed it to be the clang of the board."""
    if shutil.which("gcc") is None or shutil.which("ccache") is None:
        pytest.skip("gcc or ccache is not installed")
    project = shop.write(
        {
            "main.c": "#include <table.h>\nint main(void) { return TABLE - 3; }\n",
            "table.c": '#include <stdio.h>\nint main(void) { puts("#define TABLE 3"); return 0; }\n',
            "meson.build": "project('helped', 'c')\nadd_languages('c', native: true)\n"
            "table = executable('table', 'table.c', native: true)\n"
            "header = custom_target('h', output: 'table.h', command: [table], capture: true)\n"
            "executable('prog', 'main.c', header)\n",
        }
    )
    assert [one.name for one in shop.build(project, "zig", system="meson").artifact.products] == ["prog"]


@pytest.mark.parametrize("system", ["cmake", "make"])
def test_a_list_of_versions_may_name_a_function_that_is_not_there(shop: Workshop, system: str) -> None:
    """As with GNU ld; zlib's and others' `configure` tries it with a file of one function."""
    project = shop.write(
        {
            "pi.c": "double half(double x);\ndouble half(double x) { return x / 2; }\n",
            "pi.map": "PI_1 { global: half; missing; local: *; };\n",
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(pi C)\nadd_library(pi SHARED pi.c)\n"
            "target_link_options(pi PRIVATE -Wl,--version-script,${CMAKE_CURRENT_SOURCE_DIR}/pi.map)\n",
            "Makefile": "libpi.so: pi.c pi.map\n\t$(CC) -shared -fPIC -Wl,--version-script,pi.map -o $@ pi.c\n",
        }
    )
    assert [one.name for one in shop.build(project, "ohos", system=system).artifact.products] == ["libpi.so"]


@pytest.mark.parametrize("system", ["cmake", "meson", "make"])
def test_a_project_that_makes_errors_of_warnings_builds_with_the_option_that_is_named(
    shop: Workshop, system: str
) -> None:
    project = shop.write(
        {
            "main.c": "static int unused(void) { return 1; }\n" + MAIN,
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(strict C)\nadd_executable(prog main.c)\n"
            "target_compile_options(prog PRIVATE -Wall -Werror)\n",
            "meson.build": "project('strict', 'c', default_options: ['werror=true', 'warning_level=2'])\n"
            "executable('prog', 'main.c')\n",
            "Makefile": "CFLAGS = -Wall\nprog: main.c\n\t$(CC) $(CFLAGS) -Wall -Werror -o $@ main.c\n",
        }
    )
    with pytest.raises(BuildError, match="makes errors of warnings") as caught:
        shop.build(project, "zig", system=system)
    named = re.search(r"--option '([^']+)'", caught.value.remedy)
    assert named
    option = read_options([named[1]])
    assert [one.name for one in shop.build(project, "zig", system=system, options=option).artifact.products] == ["prog"]


def test_a_project_may_rename_its_own_files_and_the_users_folder_stays_as_it_is(shop: Workshop) -> None:
    project = shop.write(
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(own C)\n"
            "file(RENAME ${CMAKE_CURRENT_SOURCE_DIR}/conf.h ${CMAKE_CURRENT_SOURCE_DIR}/conf.h.included)\n"
            "configure_file(conf.h.in conf.h)\nadd_executable(own main.c)\n"
            "target_include_directories(own PRIVATE ${CMAKE_CURRENT_BINARY_DIR})\n",
            "conf.h": "#error of the source\n",
            "conf.h.in": "#define FINE 0\n",
            "main.c": "#include <conf.h>\nint main(void) { return FINE; }\n",
        }
    )
    before = sha256_folder(project)
    assert shop.build(project, "zig").rebuilt
    assert sha256_folder(project) == before
    assert not shop.build(project, "zig").rebuilt


def test_the_reason_of_a_configure_stands_on_its_standard_error(shop: Workshop) -> None:
    script = "#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9; do echo checking for thing $i... yes; done\n. /no/such/place.sh\n"
    with pytest.raises(BuildError, match=r"/no/such/place\.sh") as caught:
        shop.build(shop.write({"configure": script, "Makefile": "all:\n"}), "zig")
    assert "thing 9" not in caught.value.message


def test_a_configure_of_somebodys_own_that_writes_gcc_into_the_makefile_compiles_for_the_board(shop: Workshop) -> None:
    project = shop.write(
        {
            "configure": "#!/bin/sh\nprintf 'CC = gcc\\nprog: main.c\\n\\t$(CC) -o $@ main.c\\n' > Makefile\n",
            "main.c": '#include <stdio.h>\nint main(void) { puts("here"); return 0; }\n',
        }
    )
    assert shop.run(shop.build(project, "zig"), "prog") == "here\n"


@ARCH
def test_a_config_sub_from_before_the_arch_is_taught_its_name_and_keeps_what_it_knows(
    shop: Workshop, arch: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project = shop.write(
        {
            "configure": "#!/bin/sh\n# Generated by GNU Autoconf 2.72.\n[ $(sh aux/config.sub sun4) = sparc-sun-sunos4.1.1 ] || exit 3\n"
            "for word do case $word in --host=*) host=${word#--host=} ;; esac; done\n"
            "name=$(sh aux/config.sub $host) && name=$(sh aux/config.sub $name) || exit 4\n"
            'echo "#define HOST \\"$name\\"" > host.h\n',
            "Makefile": "prog: main.c\n\t$(CC) -o $@ main.c\n",
            "aux/config.sub": "#!/bin/sh\n[ $1 = sun4 ] || exit 1\necho sparc-sun-sunos4.1.1\n",
            "main.c": '#include <stdio.h>\n#include "host.h"\nint main(void) { puts(HOST); return 0; }\n',
        }
    )
    before = sha256_folder(project)
    said = shop.run(shop.build(project, "zig", arch), "prog").strip()
    assert said == {"arm32": "arm-unknown-linux-musleabihf", "arm64": "aarch64-unknown-linux-musl"}[arch]
    assert "aux/config.sub is older than the name" in capsys.readouterr().out
    assert sha256_folder(project) == before


def test_libraries_alone_without_an_install_step_that_is_done_are_refused_with_the_reason(shop: Workshop) -> None:
    files = {"a.c": "int a(void) { return 1; }\n", "a.h": "int a(void);\n"}
    lines = "liba.a: a.o\n\t$(AR) rcs $@ a.o\ninstall: liba.a\n\tinstall -D liba.a $(DESTDIR)/usr/local/lib/liba.a\n"
    written = shop.write(
        {**files, "Makefile": lines + "\tsed 's|@prefix@|/usr/local|' a.h > $(DESTDIR)/usr/local/a.pc\n"}
    )
    outcome = shop.build(written, "zig")
    assert (outcome.artifact.folder / outcome.artifact.prefix / "lib/liba.a").is_file()
    outside = shop.write({**files, "Makefile": lines + "\tinstall a.h /usr/local/include\n"}, "outside")
    with pytest.raises(ProductMissing, match=r"outside of DESTDIR: install a\.h /usr/local/include"):
        shop.build(outside, "zig")


def test_without_any_error_line_and_standard_error_the_last_lines_are_shown() -> None:
    assert first_errors("one\ntwo\n", "") == "    one\n    two"
    assert first_errors("one\ntwo\n", "why\n") == "    why"
    warned = "configure: WARNING: unrecognized options: --x\n"
    assert first_errors(f"{warned}one\ntwo\n", warned) == "    one\n    two"


@pytest.mark.parametrize(("version", "passes"), [("2.69", True), ("2.72", False)])
def test_tests_of_an_old_configure_may_be_old_c_which_is_said_and_the_program_may_not(
    shop: Workshop, version: str, passes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        f"#!/bin/sh\n# Generated by GNU Autoconf {version}.\necho 'main() {{ exit(0); }}' > conftest.c\n"
        "$CC -c conftest.c 2>/dev/null && echo '#define OLD 1' > conf.h || echo '#define OLD 0' > conf.h\n"
    )
    project = shop.write(
        {
            "configure": script,
            "main.c": '#include "conf.h"\n#include <stdio.h>\nint main(void) { printf("%d\\n", OLD); return 0; }\n',
            "Makefile": "prog: main.c\n\t$(CC) -o $@ main.c\n",
        }
    )
    assert shop.run(shop.build(project, "zig"), "prog") == f"{int(passes)}\n"
    assert ("-Wno-error=implicit-int" in capsys.readouterr().out) is passes
    (project / "main.c").write_text("main() { return 0; }\n")
    with pytest.raises(BuildError, match=r"implicit-int|type specifier missing"):
        shop.build(project, "zig")
