"""A project of the user's, from its folder to its output on an emulated board, by commands: CMake, Meson, configure, make."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.files import sha256_folder
from deploy.emulator.board.boards import create_board, stop_board
from tests.shared.standin_sdk import board_libraries, standin_sdk
from tests.support.command_line import Said, invoke
from toolchains.arch import ARM32, ARM64, Arch

pytestmark = pytest.mark.timeout(1200)
BOARDS = {ARM32: "dayu200", ARM64: "dayu200-arm64"}
BOTH = pytest.mark.parametrize("arch", BOARDS, ids=lambda arch: arch.name)
SYSTEMS = pytest.mark.parametrize("system", ["cmake", "meson", "configure", "make"])

SOURCES = {
    "app.c": "#include <stdio.h>\nint triple(int);\nint main(int argc, char **argv) {\n"
    '    printf("%s %d " GREETING "\\n", argc > 1 ? argv[1] : "-", triple(argc));\n    return argc;\n}\n',
    "lib/triple.c": "int triple(int x);\nint triple(int x) { return 3 * x; }\n",
}
MAKEFILE = """\
CC = gcc
CFLAGS += -Wall
CPPFLAGS += -DGREETING='"$(GREETING)"'
GREETING = hello
app: app.o libtriple.a
	$(CC) $(LDFLAGS) -o $@ app.o -L. -ltriple
	$(STRIP) $@
libtriple.a: lib/triple.o
	$(AR) rcs $@ $^
"""
SHARED_MAKEFILE = """\
CPPFLAGS += -DGREETING='"hello"'
app: app.o libtriple.so
	$(CC) $(LDFLAGS) -o $@ app.o -L. -ltriple
libtriple.so: lib/triple.c
	$(CC) $(CFLAGS) -fPIC -shared -Wl,-soname,$@ -o $@ $^
"""
CONFIGURE = """\
#!/bin/sh
greeting=hello
for word do case $word in --with-greeting=*) greeting=${word#*=} ;; *) echo "configure: error: what is $word?" >&2; exit 1 ;; esac; done
$CC -c lib/triple.c -o conftest.o || { echo "configure: error: $CC does not work" >&2; exit 1; }
sed -e "s/^CC = .*/CC = $CC/" -e "s/^GREETING = .*/GREETING = $greeting/" Makefile.in > Makefile
"""
FILES = {
    "cmake": {
        "CMakeLists.txt": 'cmake_minimum_required(VERSION 3.16)\nproject(own C)\nset(GREETING hello CACHE STRING "")\n'
        "add_library(triple lib/triple.c)\nset_target_properties(triple PROPERTIES VERSION 1.2.3 SOVERSION 1)\n"
        'add_executable(app app.c)\ntarget_compile_definitions(app PRIVATE GREETING="${GREETING}")\n'
        "target_link_libraries(app PRIVATE triple)\ninstall(TARGETS app triple)\nadd_executable(check app.c)\n"
        'target_compile_definitions(check PRIVATE GREETING="check")\ntarget_link_libraries(check PRIVATE triple)\n'
    },
    "meson": {
        "meson.build": "project('own', 'c')\ntriple = library('triple', 'lib/triple.c', install: true)\n"
        "executable('app', 'app.c', link_with: triple, install: true,\n"
        "  c_args: '-DGREETING=\"' + get_option('GREETING') + '\"')\n",
        "meson.options": "option('GREETING', type: 'string', value: 'hello')\n",
    },
    "configure": {"configure": CONFIGURE, "Makefile.in": MAKEFILE},
    "make": {"Makefile": MAKEFILE},
}
OPTION = {"configure": "with-greeting=bye"}
BUILT_BY = {"configure": "make"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A machine with an SDK that is named when it is wanted, and boards with the libraries that belong to it."""

    environment: dict[str, str]
    sdk: Path

    def build(self, source: Path, arch: Arch, *words: str, toolchain: str = "zig") -> Said:
        sdk = ("--sdk", str(self.sdk)) if toolchain == "ohos" else ("--toolchain", "zig")
        return invoke("build", "--source", source, "--arch", arch.name, *sdk, *words, **self.environment)

    def run(self, built: Said, arch: Arch, *words: str) -> Said:
        """Follows the command that the build has named, on the board for `arch`."""
        program = built.answer["products"]["app"]
        assert program in built.answer["run"].replace("'", "")
        return invoke("board.run", "--program", program, "--board", BOARDS[arch], "--", *words, **self.environment)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Place]:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    home = tmp_path_factory.mktemp("machine")
    environment = {
        "OHFORGE_DATA_DIR": str(home / "data"),
        "OHFORGE_CACHE_DIR": str(home / "cache"),
        "INVOKE_OHFORGE_BUILD_DIR": str(home / "the builds"),
        "INVOKE_OHFORGE_RUNS_DIR": str(home / "runs"),
        "ZIG_GLOBAL_CACHE_DIR": str(shared_cache / "zig"),
        "CFLAGS": "-this-is-no-flag",
    }
    boards = [
        create_board(
            f"emulated-{profile}",
            home=home / "data/boards",
            profile=profile,
            libraries={arch.name: str(board_libraries(arch.name, shared_cache))},
        )
        for arch, profile in BOARDS.items()
    ]
    yield Place(environment=environment, sdk=standin_sdk(shared_cache, "5.0.0"))
    for board in boards:
        stop_board(board)


def write_project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in (SOURCES | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if (folder / "configure").exists():
        (folder / "configure").chmod(0o755)
    return folder


def manifest_of(said: Said) -> dict[str, object]:
    value: dict[str, object] = json.loads(Path(said.answer["artifact"]).read_text())
    return value


@BOTH
@SYSTEMS
def test_a_project_is_built_and_run_and_its_folder_stays_as_it_was(
    place: Place, tmp_path: Path, system: str, arch: Arch
) -> None:
    project = write_project(tmp_path / f"my {system}", FILES[system])
    before = sha256_folder(project)
    built = place.build(project, arch)
    assert (built.status, built.answer["reason"]) == (0, "first build"), built.text
    manifest = manifest_of(built)
    assert (manifest["program"], manifest["arch"], manifest["toolchain"]) == (f"my-{system}", arch.name, "zig")
    assert list(built.answer["products"]) == ["app"]
    assert str(manifest["inputs"]["build_system"]).startswith(BUILT_BY.get(system, system))  # type: ignore[index]
    ran = place.run(built, arch, "a b")
    assert (ran.status, "a b 6 hello\n" in ran.text) == (2, True), ran.text
    assert place.build(project, arch).answer["reason"] == "nothing changed"
    assert sha256_folder(project) == before
    other = place.build(project, arch, "--option", OPTION.get(system, "GREETING=bye"))
    assert other.answer["reason"] in ("GREETING: unset -> bye", "with-greeting: unset -> bye")
    assert "- 3 bye\n" in place.run(other, arch).text


@pytest.mark.parametrize(
    ("system", "arch", "files", "options", "library"),
    [
        ("cmake", ARM32, FILES["cmake"], ["BUILD_SHARED_LIBS=ON"], "libtriple.so.1"),
        ("cmake", ARM64, FILES["cmake"], ["BUILD_SHARED_LIBS=ON"], "libtriple.so.1"),
        ("meson", ARM64, FILES["meson"], ["default_library=shared"], "libtriple.so"),
        ("make", ARM32, {"Makefile": SHARED_MAKEFILE}, [], "libtriple.so"),
    ],
)
def test_a_shared_library_of_the_project_travels_with_its_program(
    place: Place, tmp_path: Path, system: str, arch: Arch, files: dict[str, str], options: list[str], library: str
) -> None:
    project = write_project(tmp_path / "own library", files)
    words = [word for option in options for word in ("--option", option)]
    built = place.build(project, arch, *words, toolchain="ohos")
    assert sorted(built.answer["products"]) == ["app", library], built.text
    manifest = manifest_of(built)
    assert manifest["runtime_libraries"] == [f"out/{library}"]
    ran = place.run(built, arch, "x")
    assert (ran.status, "x 6 hello\n" in ran.text) == (2, True), ran.text


def test_zig_refuses_a_program_with_a_shared_library_and_says_what_to_do(place: Place, tmp_path: Path) -> None:
    files = {
        "CMakeLists.txt": FILES["cmake"]["CMakeLists.txt"].replace("add_library(triple", "add_library(triple SHARED")
    }
    built = place.build(write_project(tmp_path / "shared", files), ARM64)
    assert built.answer["error"]["code"] == "OHF6904"
    assert "libtriple.so.1" in built.answer["error"]["message"]
    assert "--toolchain ohos" in built.answer["error"]["remedy"]


def test_what_a_build_in_place_has_left_does_not_get_into_the_program(place: Place, tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    project = write_project(tmp_path / "in place", FILES["make"])
    subprocess.run(["make", "-C", project, "STRIP=true"], check=True, capture_output=True, timeout=120)
    assert (project / "app").exists()
    built = place.build(project, ARM64)
    assert manifest_of(built)["products"][0]["machine"] == "EM_AARCH64"  # type: ignore[index]
    assert "- 3 hello\n" in place.run(built, ARM64).text


@pytest.mark.parametrize(
    ("files", "words", "code", "message"),
    [
        ({"Makefile": "app: app.c\n\tgcc -DGREETING='\"x\"' -o $@ app.c lib/triple.c\n"}, [], "OHF6904", "EM_X86_64"),
        ({"Makefile": "app: nothing.c\n"}, [], "OHF6901", "No rule to make target 'nothing.c'"),
        ({"Makefile": "all:\n\t@echo done\n"}, [], "OHF6903", "no program and no shared library"),
        (FILES["configure"], ["--option", "with-colour=red"], "OHF6901", "configure: error: what is --with-colour=red"),
        ({"meson.build": "project('own', 'c')\ndependency('nowhere')\n"}, [], "OHF6901", 'Dependency "nowhere"'),
        (
            {**FILES["cmake"], "app.c": "int main(void) { return x; }\n"},
            [],
            "OHF6901",
            r"app.c:1:25: error: use of und",
        ),
    ],
)
def test_the_first_error_of_a_build_is_shown(
    place: Place, tmp_path: Path, files: dict[str, str], words: list[str], code: str, message: str
) -> None:
    if "gcc" in files.get("Makefile", "") and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    built = place.build(write_project(tmp_path / "wrong", files), ARM64, *words)
    assert built.answer["error"]["code"] == code, built.text
    assert message in built.answer["error"]["message"]


LOW = {
    "low.c": "int low(void);\nint low(void) { return 40; }\n",
    "low.h": "int low(void);\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(low C)\nadd_library(low low.c)\n"
    "set_target_properties(low PROPERTIES SOVERSION 3 PUBLIC_HEADER low.h)\ninstall(TARGETS low)\n"
    'file(WRITE ${CMAKE_BINARY_DIR}/low.pc "prefix=${CMAKE_INSTALL_PREFIX}\\nName: low\\nDescription: x\\nVersion: 3\\n'
    'Cflags: -I\\${prefix}/include\\nLibs: -L\\${prefix}/lib -llow\\n")\n'
    "install(FILES ${CMAKE_BINARY_DIR}/low.pc DESTINATION lib/pkgconfig)\n",
}
MIDDLE = {
    "middle.c": "#include <low.h>\nint middle(void);\nint middle(void) { return low() + 1; }\n",
    "middle.h": "int middle(void);\n",
    "meson.build": "project('middle', 'c', version: '2')\nlow = dependency('low')\n"
    "middle = library('middle', 'middle.c', dependencies: low, soversion: '2', install: true)\n"
    "install_headers('middle.h')\n"
    "import('pkgconfig').generate(middle, description: 'x', requires_private: 'low')\n",
}
TOP = {
    "app.c": '#include <middle.h>\n#include <stdio.h>\nint main(void) { printf("%d\\n", middle() + 1); return 0; }\n',
    "Makefile": "app: app.c\n\t$(CC) -o $@ app.c -lmiddle -llow\n",
}


@BOTH
@pytest.mark.parametrize("toolchain", ["zig", "ohos"])
def test_a_program_runs_with_a_library_that_needs_a_library_each_built_by_another_system(
    place: Place, tmp_path: Path, arch: Arch, toolchain: str
) -> None:
    """CMake, then Meson, then make; static with zig, and with ohos as shared libraries that travel along."""
    shared = toolchain == "ohos"
    projects = {}
    for name, files in (("low", LOW), ("middle", MIDDLE), ("top", TOP)):
        for file, text in files.items():
            projects[name] = tmp_path / name
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / file).write_text(text)
    option = ["--option", "BUILD_SHARED_LIBS=ON"] if shared else []
    low = place.build(projects["low"], arch, *option, toolchain=toolchain)
    assert Path(low.answer["prefix"], "include/low.h").is_file(), low.text
    option = ["--option", "default_library=shared"] if shared else []
    middle = place.build(projects["middle"], arch, "--prefix", "low", *option, toolchain=toolchain)
    moved = Path(shutil.move(middle.answer["prefix"], tmp_path / "moved"))
    top = place.build(projects["top"], arch, "--prefix", moved, "--prefix", projects["low"], toolchain=toolchain)
    libraries = ["out/liblow.so.3", "out/libmiddle.so.2"] if shared else []
    assert manifest_of(top)["runtime_libraries"] == libraries, top.text
    ran = place.run(top, arch)
    assert (ran.status, "42\n" in ran.text) == (0, True), ran.text


def test_a_prefix_for_another_arch_and_one_that_nobody_has_built_are_refused(place: Place, tmp_path: Path) -> None:
    for file, text in LOW.items():
        (tmp_path / "alone").mkdir(exist_ok=True)
        (tmp_path / "alone" / file).write_text(text)
    low = place.build(tmp_path / "alone", ARM64)
    wrong = place.build(tmp_path / "alone", ARM32, "--prefix", low.answer["prefix"])
    assert (wrong.status, "is for arm64 with zig, not for arm32" in wrong.answer["error"]["message"]) == (64, True)
    missing = place.build(tmp_path / "alone", ARM64, "--prefix", "nobody")
    assert (
        "no project of that name has left a prefix for arm64 with zig (there are: "
        in missing.answer["error"]["message"]
    )
