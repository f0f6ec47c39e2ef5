"""CPU tuning × host toolchain × program: compiled, looked into, and run where it can be.

What is expected of a file was taken from Arm's documents: build attributes from the "Addenda to, and Errata in, the ABI
for the Arm Architecture", a program's flags from "ELF for the Arm Architecture", the encodings of the dot product from
the "Arm Architecture Reference Manual", and which CPU has it from the CPUs' own manuals.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import ARMAttributesSection

from core.session import Session
from native.build.ensure import BuildRequest, ensure_built
from native.recipe.recipe import FILE, load_recipe
from tests.shared.ms_models import add_softmax
from tests.shared.standin_sdk import inference_sdk, runtime_tree, standin_sdk
from toolchains.arch import ARM32, ARM64, X86_64, Arch
from toolchains.host_toolchain import ToolchainChoice
from toolchains.tuning import TUNING_FILE, read_tunings

SDK_RELEASE = "5.0.0"
PARTS = {"llama": ("llamafile/sgemm.cpp",), "whisper": ()}
"""Programs of which a part tells whether they compile, and what belongs to it besides `PARTS_OF_GGML`."""
PARTS_OF_GGML = ("ggml-cpu.c", "vec.cpp", "arch/{arch}/quants.c", "arch/{arch}/repack.cpp")
"""Sources below ``ggml-cpu``: with `PARTS` all that write instructions of a CPU themselves."""
WHOLE = ("mslite", "nnrt", "agent")
PROGRAMS = (*PARTS, *WHOLE)
GGML_ARCHES = {"arm32": "arm", "arm64": "arm", "x86_64": "x86"}

V7, V8 = 10, 14
"""Values of ``Tag_CPU_arch``."""
NEON_WITH_FMA, NEON_OF_V8, NEON_OF_V8_1 = 2, 3, 4
"""Values of ``Tag_Advanced_SIMD_arch``; 0, the default, is none."""
ATTRIBUTES = {
    "generic": (V7, NEON_WITH_FMA),
    "cortex-a7": (V7, NEON_WITH_FMA),
    "cortex-a15": (V7, NEON_WITH_FMA),
    "cortex-a35": (V8, NEON_OF_V8),
    "cortex-a53": (V8, NEON_OF_V8),
    "cortex-a55": (V8, NEON_OF_V8_1),
    "cortex-a72": (V8, NEON_OF_V8),
    "cortex-a76": (V8, NEON_OF_V8_1),
    "soft-float": (V7, 0),
}
HARD_FLOAT = 1
"""``Tag_ABI_VFP_args``: numbers are passed in registers; 0, the default, is the base standard (soft and softfp)."""
FLOAT_FLAGS, SOFT_FLAG, HARD_FLAG = 0x600, 0x200, 0x400
"""In a program's ``e_flags``."""
OWN_CPU = {"sha256_arm.c.o"}
"""Objects whose assembly names another CPU; the agent asks the kernel before it uses them."""
WITH_DOT_PRODUCT = {"cortex-a55", "cortex-a76"}
DOT_PRODUCT = {"arm32": (0xFFB00F10, 0xFC200D00), "arm64": (0xBFE0FC00, 0x0E809400)}
"""Mask and value of the instructions VSDOT and SDOT with whole vectors."""
QEMU_CPUS: Mapping[str, Mapping[str, str]] = {
    # The nearest models of qemu 7.2: no 32-bit one of ARMv8 but max, and of A55 the next larger.
    "arm32": {"generic": "cortex-a7", "cortex-a7": "cortex-a7", "cortex-a15": "cortex-a15", "soft-float": "cortex-a7"},
    "arm64": {"generic": "cortex-a53", "cortex-a55": "cortex-a76"},
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One program for one arch, tuning and host toolchain."""

    arch: Arch
    cpu: str
    toolchain: str
    program: str

    def __str__(self) -> str:
        return f"{self.arch.name}, {self.cpu}, {self.toolchain}, {self.program}"

    @property
    def qemu_cpu(self) -> str:
        """Model of qemu that has what the tuning may use, and where there is one nothing more."""
        return QEMU_CPUS[self.arch.name].get(self.cpu, self.cpu if self.arch == ARM64 else "max")


def cells() -> list[Cell]:
    """All that can be: a tuning may be for one host toolchain only, and the stand-in SDK has no x86_64."""
    return [
        Cell(arch=tuning.arch, cpu=name, toolchain=toolchain, program=program)
        for program in PROGRAMS
        for name, arches in read_tunings(TUNING_FILE).items()
        for tuning in arches.values()
        for toolchain in ("zig", "ohos")
        if (tuning.zig if toolchain == "zig" else tuning.arch != X86_64)
    ]


def build_cell(session: Session, cell: Cell, folder: Path, cache: Path) -> str:
    """Builds below `folder`, checks what came out; returns what was run. Raises OhforgeError or AssertionError."""
    settings = dataclasses.replace(session.settings, build_dir=str(folder / "build"))
    target = str(part_of(cell, folder / "recipes" / str(cell))) if cell.program in PARTS else cell.program
    sdk = str(sdk_of(cell, cache)) if cell.toolchain == "ohos" else ""
    choice = ToolchainChoice(arch=cell.arch.name, cpu=cell.cpu, toolchain=cell.toolchain, sdk=sdk)
    request = BuildRequest(target=target, choice=choice)
    artifact = ensure_built(dataclasses.replace(session, settings=settings), request).artifact
    # lld gives a program the build attributes of the first file that it is linked from, which is the C library's.
    objects = [path for path in (artifact.folder / "tree").rglob("*.o") if "CompilerId" not in str(path)]
    assert objects, artifact.folder
    for path in objects:
        if path.name not in OWN_CPU:
            check_object(cell, path)
    if cell.program in PARTS:
        check_dot_product(cell, [path for path in objects if path.name == "quants.c.o"])
        return ""
    [product] = artifact.products
    check_machine(cell, artifact.path_of(product))
    return run_cell(cell, artifact.path_of(product), folder, cache)


def sdk_of(cell: Cell, cache: Path) -> Path:
    """The stand-in SDK, for programs of which all is built with libraries of MindSpore Lite and NNRt that compute."""
    if cell.program in PARTS:
        return standin_sdk(cache, SDK_RELEASE)
    return inference_sdk(cache, SDK_RELEASE, ARM32, ARM64)


def part_of(cell: Cell, folder: Path) -> Path:
    """A recipe like that of the program, with the objects as products that tell whether it compiles."""
    recipe = load_recipe(cell.program)
    content = yaml.safe_load((recipe.folder / FILE).read_text().replace("{recipe}", str(recipe.folder)))
    sources = [path.format(arch=GGML_ARCHES[cell.arch.name]) for path in (*PARTS_OF_GGML, *PARTS[cell.program])]
    objects = [f"ggml/src/CMakeFiles/ggml-cpu.dir/ggml-cpu/{path}.o" for path in sources]
    content["products"] = [{"name": Path(path).name, "path": path, "target": path, "kind": "file"} for path in objects]
    content.pop("run", None)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(content))
    return folder / FILE


def check_machine(cell: Cell, path: Path) -> None:
    """Whether a file is for the arch, and a program for arm32 passes numbers as its toolchain does."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        assert (elf["e_machine"], elf.elfclass) == (cell.arch.elf_machine, cell.arch.elf_bits), path.name
        if cell.arch == ARM32 and elf["e_type"] != "ET_REL":
            assert elf["e_flags"] & FLOAT_FLAGS == (HARD_FLAG if cell.toolchain == "zig" else SOFT_FLAG), path.name


def check_object(cell: Cell, path: Path) -> None:
    """Whether an object is for the arch, and for arm32 says that it is for the CPU and the float ABI."""
    check_machine(cell, path)
    if cell.arch != ARM32:
        return
    with path.open("rb") as file:
        [section] = [one for one in ELFFile(file).iter_sections() if isinstance(one, ARMAttributesSection)]
        scopes = [scope for part in section.iter_subsections() for scope in part.iter_subsubsections()]
        said = {tag.tag: tag.value for scope in scopes for tag in scope.iter_attributes()}
    found = (said["TAG_CPU_ARCH"], said.get("TAG_ADVANCED_SIMD_ARCH", 0))
    assert found == ATTRIBUTES[cell.cpu], f"{path.name}: {said}"
    assert said.get("TAG_ABI_VFP_ARGS", 0) == (HARD_FLOAT if cell.toolchain == "zig" else 0), f"{path.name}: {said}"


def check_dot_product(cell: Cell, objects: list[Path]) -> None:
    """Whether the dot product of 8-bit numbers is in the code just when the CPU has it."""
    if cell.arch.name in DOT_PRODUCT:
        mask, value = DOT_PRODUCT[cell.arch.name]
        found = any(word & mask == value for path in objects for word in words_of_code(path))
        assert found == (cell.cpu in WITH_DOT_PRODUCT), f"dot product: {found}"


def words_of_code(path: Path) -> list[int]:
    """All machine words of the sections with instructions."""
    with path.open("rb") as file:
        code = [one.data() for one in ELFFile(file).iter_sections() if one.name.startswith(".text")]
    return [word for data in code for (word,) in struct.iter_unpack("<I", data[: len(data) & ~3])]


def run_cell(cell: Cell, program: Path, folder: Path, cache: Path) -> str:
    """Runs a small program on a CPU that has what the tuning may use; returns the CPU, empty when there is none."""
    words: list[str | Path] = []
    where = "this computer"
    if cell.arch == X86_64:
        if cell.cpu == "x86-64-v3" and not {"avx2", "fma", "bmi2"} <= cpu_flags():
            return ""
    else:
        if not shutil.which(cell.arch.qemu):
            return ""
        where = cell.qemu_cpu
        words = [cell.arch.qemu, "-cpu", where]
        if cell.toolchain == "ohos":
            libraries = sdk_of(cell, cache) / "native/sysroot/usr/lib" / cell.arch.ohos_triple
            words += ["-L", runtime_tree(cell.arch.name, cache), "-E", f"LD_LIBRARY_PATH={libraries}"]
    check_program(cell, [*words, program], folder)
    return where


def check_program(cell: Cell, program: list[str | Path], folder: Path) -> None:
    match cell.program:
        case "agent":
            assert json.loads(_output(program, folder, "version"))["arch"] == cell.arch.name
        case "mslite":
            model, numbers = add_softmax(), np.array([[-1.5, 0.0, 0.25, 3.0]], np.float32)
            (folder / "model.ms").write_bytes(model.to_bytes())
            np.save(folder / "in.npy", numbers)
            _output(program, folder, "--input", "in.npy", "--output", ".", "model.ms")
            np.testing.assert_allclose(np.load(folder / "0-probabilities.npy"), model.evaluate(numbers)[0], atol=1e-6)
        case "nnrt":
            # The network that it has with it, whose numbers it compares with its own.
            assert re.search(r"^check: .*: good$", _output(program, folder), re.MULTILINE)


def _output(program: list[str | Path], folder: Path, *words: str) -> str:
    environment = {**os.environ, "OHFORGE_NNRT_DEVICES": "1"}
    done = subprocess.run(
        [*program, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"status {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
    return done.stdout


def cpu_flags() -> set[str]:
    """What this computer's CPU has."""
    found = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return set(found[1].split()) if found else set()


def clang_of(cache: Path) -> str:
    """What the compiler of the stand-in SDK says that it is."""
    clang = standin_sdk(cache, SDK_RELEASE) / "native/llvm/bin/clang"
    said = subprocess.run([clang, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r"clang version [\d.]+", said)
    return found[0] if found else "clang"
