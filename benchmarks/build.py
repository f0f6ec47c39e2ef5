"""``invoke build`` against the same cmake and ninja by hand, cold; and a build in which there is nothing to do.

Goals: cold at most 1.05 times the hand-made build, nothing to do at most 1 s. Both cold builds start from an empty
folder with warm runtimes of the toolchain and the same source tree; ours fills an empty compiler cache besides, as it
does for a user. They take turns, so that a machine that gets busier meanwhile burdens both.

    python benchmarks/build.py [--target llama] [--arch arm64] [--product llama-completion] [--rounds 1]
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity
from core.session import Session
from core.settings import Settings
from native.build.cmake import CMake
from native.build.ensure import BuildRequest, ensure_built
from native.build.plan import make_plan
from native.recipe.recipe import load_recipe
from native.source.fetch import fetch_source
from toolchains.arch import find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.toolchain import check_compiler, choose_toolchain

QUIET = Console(verbosity=Verbosity.QUIET)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="llama")
    parser.add_argument("--arch", default="arm64")
    parser.add_argument("--product", default="llama-completion")
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    cmake, ninja = (shutil.which(name, path=str(Path(sys.executable).parent)) for name in ("cmake", "ninja"))
    if cmake is None or ninja is None:
        sys.exit("cmake and ninja are not beside this Python: run `make setup`")
    session = Session(console=QUIET)
    toolchain = choose_toolchain(session, ToolchainChoice(arch=find_arch(asked.arch).name))
    check_compiler(session, toolchain)
    recipe = load_recipe(asked.target)
    source = fetch_source(session, recipe)
    plan = make_plan(recipe, toolchain, CMake().version())
    values = plan.filled(plan.options.values(), source)
    words = [f"-D{name}={value}" for name, value in zip(plan.options, values, strict=True)]

    compile_flags = shlex.join(plan.filled(plan.compile_flags, source))
    link_flags = shlex.join(plan.filled(plan.link_flags, source))
    flags = {"CFLAGS": compile_flags, "CXXFLAGS": compile_flags, "LDFLAGS": link_flags}

    by_hand, by_us, idle = [], [], []
    with tempfile.TemporaryDirectory(prefix="ohforge-bench-") as scratch:
        for number in range(asked.rounds):
            folder = Path(scratch, str(number))
            os.environ["CCACHE_DIR"] = str(folder / "ccache")
            by_hand.append(build_by_hand(cmake, ninja, toolchain, source, words, flags, folder / "hand", asked.product))
            by_us.append(build_by_us(folder / "us", asked))
            idle += [build_by_command(folder / "us", asked) for _ in range(5)]
            shutil.rmtree(folder)
    ratio = statistics.median(by_us) / statistics.median(by_hand)
    print(f"{asked.target} for {asked.arch} ({asked.product}), {asked.rounds} round(s), {os.cpu_count()} cores")
    print(f"cold, cmake and ninja by hand   {statistics.median(by_hand):8.1f} s")
    print(f"cold, ohforge                   {statistics.median(by_us):8.1f} s   ratio {ratio:.3f} (goal 1.05)")
    print(f"nothing to do, whole process    {statistics.median(idle):8.2f} s   (goal 1)")


def build_by_hand(
    cmake: str,
    ninja: str,
    toolchain: HostToolchain,
    source: Path,
    options: list[str],
    flags: dict[str, str],
    tree: Path,
    product: str,
) -> float:
    """What an engineer would type, with the same toolchain file, options and flags; seconds."""
    environment = {**os.environ, **toolchain.environment, **flags}
    started = time.perf_counter()
    settings = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain.file}", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    settings += ["-DCMAKE_BUILD_TYPE=Release", *options]
    for words in (
        [cmake, "-S", source, "-B", tree, "-G", "Ninja", *settings],
        [ninja, "-C", tree, product],
    ):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def build_by_us(builds: Path, asked: argparse.Namespace) -> float:
    session = Session(console=QUIET, settings=Settings(build_dir=str(builds)))
    request = BuildRequest(target=asked.target, products=(asked.product,), choice=ToolchainChoice(arch=asked.arch))
    started = time.perf_counter()
    outcome = ensure_built(session, request)
    seconds = time.perf_counter() - started
    if not outcome.rebuilt:
        sys.exit("the cold build found something")
    return seconds


def build_by_command(builds: Path, asked: argparse.Namespace) -> float:
    """A fresh Python that does the same again; seconds from start to end of the process."""
    program = (
        "import sys; from core.session import Session; from core.settings import Settings\n"
        "from native.build.ensure import BuildRequest, ensure_built\n"
        "from toolchains.host_toolchain import ToolchainChoice\n"
        "choice = ToolchainChoice(arch=sys.argv[3])\n"
        "asked = BuildRequest(target=sys.argv[2], choice=choice, products=(sys.argv[4],))\n"
        "sys.exit(ensure_built(Session(settings=Settings(build_dir=sys.argv[1])), asked).rebuilt)"
    )
    words = [sys.executable, "-c", program, str(builds), asked.target, asked.arch, asked.product]
    started = time.perf_counter()
    subprocess.run(words, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
