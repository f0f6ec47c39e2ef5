"""Building with a real compiler: what comes out runs, is the same everywhere, and what goes wrong is told."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.deadline import Deadline
from core.errors import BuildError, DeadlineExpired
from core.session import PROJECT, Session
from native.artifact.elf import inspect_elf
from native.build.cmake import CMake
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import BuildJob, BuildLog
from native.recipe.recipe import ProductSpec
from tests.support.build_parts import make_toolchain, small_recipe, write_recipe
from tests.support.waiting import is_alive, wait_until
from toolchains.arch import ARCHES
from toolchains.host_toolchain import ToolchainChoice

CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(hello C CXX)
file(WRITE ${CMAKE_BINARY_DIR}/gen/place.h "inline const char *place() { return __FILE__; }\\n")
add_library(part STATIC part.cpp)
target_include_directories(part PRIVATE ${CMAKE_BINARY_DIR}/gen)
add_executable(hello main.c)
target_link_libraries(hello PRIVATE part)
set_target_properties(hello PROPERTIES RUNTIME_OUTPUT_DIRECTORY bin)
"""
MAIN = """\
#include <stdio.h>
void part(const char *text);
int main(int argc, char **argv) {
    part(argc > 1 ? argv[1] : "nobody");
    printf("%s, " GREETING ", " __DATE__ " " __TIME__ "\\n", __FILE__);
    return 0;
}
"""
PART = """\
#undef NDEBUG
#include <cassert>
#include <cstdio>
#include <string>
#include "place.h"
extern "C" void part(const char *text) {
    std::string name(text);
    assert(!name.empty());
    std::printf("hello %s from %s and %s\\n", name.c_str(), __FILE__, place());
}
"""


@pytest.fixture(autouse=True)
def shared_runtimes(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """zig's own C library is built once for all tests."""
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))


def write_project(folder: Path) -> Path:
    recipe = small_recipe()
    recipe["rules"] = [{"compile_flags": ['-DGREETING="version {version}"']}]
    recipe["products"][0]["add_sources"] = ["last.c"]
    folder.mkdir(parents=True)
    (folder / "last.c").write_text(
        '#include <stdio.h>\n__attribute__((destructor)) static void last(void) { puts("last, " __FILE__); }\n'
    )
    path = write_recipe(folder, recipe)
    for name, text in (("CMakeLists.txt", CMAKE), ("main.c", MAIN), ("part.cpp", PART)):
        (folder / "src" / name).write_text(text)
    return path


def build(session: Session, recipe: Path, builds: Path, arch: str = "arm64", **settings: Any) -> BuildOutcome:
    session = dataclasses.replace(
        session, settings=dataclasses.replace(session.settings, build_dir=str(builds), **settings)
    )
    return ensure_built(session, BuildRequest(target=str(recipe), choice=ToolchainChoice(arch=arch, toolchain="zig")))


def run(session: Session, outcome: BuildOutcome, *arguments: str) -> str:
    """Runs the first product, under qemu when it is for another machine."""
    artifact = outcome.artifact
    emulator = ARCHES[artifact.arch].qemu
    if emulator and shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    words = [*([emulator] if emulator else []), artifact.path_of(artifact.products[0]), *arguments]
    return session.runner.run(words, deadline=Deadline.after(60, "the program")).text


@pytest.mark.parametrize("arch", ["arm64", "arm32"])
def test_a_new_recipe_is_a_file_and_a_folder_and_its_program_runs(arch: str, session: Session, tmp_path: Path) -> None:
    outcome = build(session, write_project(tmp_path / "hello"), tmp_path / "build", arch)
    assert outcome.reason == "first build"
    assert run(session, outcome, "you").splitlines() == [
        "hello you from hello/part.cpp and gen/place.h",
        "hello/main.c, version 1, Jan  1 1970 00:00:00",
        "last, recipe/last.c",
    ]
    product = outcome.artifact.products[0]
    assert product.machine == ARCHES[arch].elf_machine
    assert (product.interpreter, product.needed, product.stripped) == ("", (), True)
    assert product.float_abi == ("hard" if arch == "arm32" else "")
    assert build(session, tmp_path / "hello" / "recipe.yaml", tmp_path / "build", arch).reason == "nothing changed"


def test_a_further_product_is_a_target_of_the_tree_that_is_there(session: Session, tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["products"] = [{"name": name, "path": name, "kind": "program"} for name in ("one", "two")]
    path = write_recipe(tmp_path / "pair", recipe)
    source = tmp_path / "pair" / "src"
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(pair C)\nadd_library(both STATIC both.c)\n"
        + "".join(f"add_executable({n} {n}.c)\ntarget_link_libraries({n} both)\n" for n in ("one", "two"))
    )
    (source / "both.c").write_text("int both(void) { return 0; }\n")
    for name in ("one", "two"):
        (source / f"{name}.c").write_text("int both(void);\nint main(void) { return both(); }\n")
    session = session.with_settings(build_dir=str(tmp_path / "build"))
    choice = ToolchainChoice(arch="arm64", toolchain="zig")
    first = ensure_built(session, BuildRequest(target=str(path), choice=choice, products=("one",)))
    second = ensure_built(session, BuildRequest(target=str(path), choice=choice, products=("two",)))
    assert first.artifact.folder == second.artifact.folder
    assert {product.name for product in second.artifact.products} == {"one", "two"}
    log = (second.artifact.folder / "build.log").read_text()
    assert "two.c" in log
    assert "both.c" not in log, "what the first product had compiled is compiled again"
    assert "The C compiler identification" not in log, "the tree is configured again"


@pytest.mark.parametrize("build_type", ["Release", "RelWithDebInfo"])
def test_the_same_inputs_in_two_folders_give_the_same_bytes(
    build_type: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once with a compiler cache (when there is one) and once without, in folders of other names and depths."""
    outcomes = []
    for place, builds in (("one", "one/build"), ("another place/of more/depth", "it's built here")):
        recipe = write_project(tmp_path / place / "hello")
        recipe.write_text(recipe.read_text().replace("system: cmake", f"system: cmake\n  type: {build_type}"))
        if outcomes:
            monkeypatch.setenv("PATH", str(tmp_path))
        outcomes.append(build(session, recipe, tmp_path / builds))
    first, second = outcomes
    assert first.artifact.key == second.artifact.key
    assert first.artifact.products == second.artifact.products
    content = second.artifact.path_of(second.artifact.products[0]).read_bytes()
    assert content == first.artifact.path_of(first.artifact.products[0]).read_bytes()
    # The debug information of zig's own C library names the place of zig and the folder in which it was first needed.
    if build_type == "Release":
        assert str(tmp_path).encode() not in content
        assert str(PROJECT).encode() not in content


def test_sources_that_lie_beside_the_recipes_folder_leave_no_path_either(session: Session, tmp_path: Path) -> None:
    recipe = write_project(tmp_path / "hello")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "more.c").write_text("const char *more(void) { return __FILE__; }\n")
    value = yaml.safe_load(recipe.read_text())
    value["rules"].append({"options": {"SHARED": "{recipe}/../shared"}})
    recipe.write_text(yaml.safe_dump(value))
    with (recipe.parent / "src" / "CMakeLists.txt").open("a") as file:
        file.write("target_sources(hello PRIVATE ${SHARED}/more.c)\n")
    main = recipe.parent / "src" / "main.c"
    main.write_text(MAIN.replace("void part", "const char *more(void);\nvoid part").replace("__FILE__", "more()"))
    outcome = build(session, recipe, tmp_path / "build")
    assert run(session, outcome).splitlines()[1].startswith("shared/more.c, ")
    assert str(tmp_path).encode() not in outcome.artifact.path_of(outcome.artifact.products[0]).read_bytes()
    (tmp_path / "shared" / "more.c").write_text("const char *more(void) { return 0; }\n")
    assert build(session, recipe, tmp_path / "build").reason == "changed beside the recipe: ../shared"


def test_what_is_read_from_a_program_is_what_readelf_says(session: Session, tmp_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf (binutils) is not installed")
    outcome = build(session, write_project(tmp_path / "hello"), tmp_path / "build", "arm32")
    path = outcome.artifact.path_of(outcome.artifact.products[0])
    info = inspect_elf(path)
    assert info is not None

    def readelf(option: str) -> str:
        return session.runner.run(["readelf", option, path], deadline=Deadline.after(60, "readelf")).text

    assert ("hard-float ABI" in readelf("-hW")) == (info.float_abi == "hard")
    assert f"Build ID: {info.build_id}" in readelf("-nW")
    stack = next(line.split() for line in readelf("-lW").splitlines() if "GNU_STACK" in line)
    assert int(stack[5], 16) == info.stack_size
    assert ("no symbols" in readelf("-sW") or ".symtab" not in readelf("-SW")) == info.stripped


def test_a_compiler_error_is_shown_with_its_place_and_the_log_kept(session: Session, tmp_path: Path) -> None:
    recipe = write_project(tmp_path / "hello")
    (tmp_path / "hello" / "src" / "main.c").write_text("int main(void) {\n  return nothing;\n}\n")
    with pytest.raises(BuildError, match=r"main\.c:2:10: error: use of undeclared identifier 'nothing'") as caught:
        build(session, recipe, tmp_path / "build")
    log = Path(caught.value.details["log"])
    assert str(log) in caught.value.message
    assert "undeclared identifier" in log.read_text()


def test_cmakes_own_error_is_shown(session: Session, tmp_path: Path) -> None:
    recipe = write_project(tmp_path / "hello")
    with (tmp_path / "hello" / "src" / "CMakeLists.txt").open("a") as file:
        file.write("find_package(NothingOfThatName REQUIRED)\n")
    with pytest.raises(BuildError, match=r"CMake Error at CMakeLists\.txt:9") as caught:
        build(session, recipe, tmp_path / "build")
    assert "NothingOfThatName" in caught.value.message


def test_a_build_that_takes_too_long_is_ended_and_goes_on_later(session: Session, tmp_path: Path) -> None:
    recipe, pid = write_sleepy_project(tmp_path)
    build(session, write_project(tmp_path / "other"), tmp_path / "build")
    timeouts = dataclasses.replace(session.settings.timeouts, build=8.0)
    with pytest.raises(DeadlineExpired, match="after 8 s"):
        build(session, recipe, tmp_path / "slow", timeouts=timeouts)
    if pid.exists():  # on a busy machine the time may be over before the step
        assert_gone(pid)
    (tmp_path / "awake").touch()
    outcome = build(session, recipe, tmp_path / "slow")
    assert outcome.reason == "an unfinished build goes on"
    assert "hello you" in run(session, outcome, "you")


def test_ctrl_c_leaves_nothing_running_and_the_build_goes_on_later(session: Session, tmp_path: Path) -> None:
    recipe, pid = write_sleepy_project(tmp_path)
    program = (
        "import sys; from core.session import Session; from core.settings import Settings\n"
        "from native.build.ensure import BuildRequest, ensure_built\n"
        "from toolchains.host_toolchain import ToolchainChoice\n"
        "session = Session(settings=Settings(build_dir=sys.argv[2]))\n"
        "ensure_built(session, BuildRequest(target=sys.argv[1], choice=ToolchainChoice(arch='arm64', toolchain='zig')))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(recipe), str(tmp_path / "slow")],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:
        wait_until("the sleeping step", lambda: pid.exists() or child.poll() is not None, seconds=300)
        child.send_signal(signal.SIGINT)
        _, complaint = child.communicate(timeout=60)
    assert child.returncode != 0
    assert b"KeyboardInterrupt" in complaint
    assert_gone(pid)
    assert not list((tmp_path / "slow").rglob("artifact.json"))
    (tmp_path / "awake").touch()
    assert build(session, recipe, tmp_path / "slow").reason == "an unfinished build goes on"


def write_sleepy_project(folder: Path) -> tuple[Path, Path]:
    """A project with a step that sleeps until the file ``awake`` is there; the step's process id is in ``pid``."""
    recipe = write_project(folder / "hello")
    step = folder / "step.sh"
    step.write_text(
        f"echo $$ > '{folder}/pid.new'; mv '{folder}/pid.new' '{folder}/pid'\n"
        f"[ -e '{folder}/awake' ] || exec sleep 600\n"
    )
    with (folder / "hello" / "src" / "CMakeLists.txt").open("a") as file:
        file.write(f'add_custom_target(doze COMMAND sh "{step}")\nadd_dependencies(hello doze)\n')
    return recipe, folder / "pid"


def assert_gone(pid_file: Path) -> None:
    pid = int(pid_file.read_text())
    wait_until("the end of the step", lambda: not is_alive(pid))


def test_a_second_folder_is_filled_from_the_compiler_cache(session: Session, tmp_path: Path) -> None:
    if shutil.which("ccache") is None:
        pytest.skip("ccache is not installed")
    recipe = write_project(tmp_path / "hello")
    first = build(session, recipe, tmp_path / "build")
    second = build(session, recipe, tmp_path / "some" / "other place")
    assert first.artifact.products == second.artifact.products
    statistics = second.artifact.folder.joinpath("compiler-cache.log").read_text().split("\n")
    assert statistics.count("direct_cache_hit") == 3
    assert "cache_miss" not in statistics


def test_a_program_finds_the_library_that_lies_beside_it(session: Session, tmp_path: Path) -> None:
    """With the build machine's own compiler, since zig's programs are static."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")
    project = tmp_path / "src"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(hello C)\nadd_library(part SHARED part.c)\n"
        "add_executable(hello main.c)\ntarget_link_libraries(hello PRIVATE part)\n"
    )
    (project / "part.c").write_text("int part(void) { return 42; }\n")
    (project / "main.c").write_text("int part(void);\nint main(void) { return part(); }\n")
    (tmp_path / "native.cmake").write_text("")
    products = [
        ProductSpec(name=name, path=name, target=target, kind="program")
        for name, target in (("hello", "hello"), ("libpart.so", "part"))
    ]
    job = BuildJob(
        title="hello",
        source=project,
        tree=tmp_path / "tree",
        toolchain=make_toolchain(file=tmp_path / "native.cmake"),
        build_type="Release",
        options={},
        compile_flags=[],
        link_flags=[],
        products=products,
        wanted=products,
        jobs=1,
        launcher="",
        environment={},
        log_path=tmp_path / "log",
    )
    with job.log_path.open("wb") as file:
        CMake().run(session, job, BuildLog(file), Deadline.after(120, "the build"))
    out = tmp_path / "elsewhere"
    out.mkdir()
    for product in products:
        shutil.copy(job.tree / product.path, out)
    assert session.runner.run([out / "hello"], deadline=Deadline.after(10, "hello")).exit_code == 42
    assert os.fsencode(tmp_path) not in (out / "hello").read_bytes()
