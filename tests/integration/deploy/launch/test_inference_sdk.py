"""mslite and nnrt with the host toolchain ohos: linked to the SDK's libraries by the names of its API level.

The libraries are the reference runtimes, built with the stand-in SDK's own compiler and put in their places.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from core.errors import BuildError
from core.session import Session
from native.build.ensure import BuildRequest, ensure_built
from tests.shared.ms_models import add_softmax
from tests.shared.standin_sdk import inference_sdk, runtime_tree
from tests.shared.standin_sdk.assemble import link_tree
from tests.support.sdk_symbols import LITE_IMPORTS, NNRT_IMPORTS, imported_functions
from toolchains.arch import ARM32, ARM64, Arch
from toolchains.host_toolchain import ToolchainChoice

LITE_9, LITE = "libmindspore-lite.huawei.so", "libmindspore_lite_ndk.so"
NNRT_9, CORE, NNRT = "libneural_network_runtime.z.so", "libneural_network_core.so", "libneural_network_runtime.so"
pytestmark = pytest.mark.timeout(2700)


@dataclass(frozen=True, kw_only=True)
class Sdk:
    tree: Path
    release: str
    level: int
    arch: Arch
    libraries: Path


@pytest.fixture(
    scope="module",
    params=[("3.2", 9, ARM32, (ARM32,)), ("5.0.0", 12, ARM64, (ARM32, ARM64))],
    ids=["3.2-arm32", "5.0.0-arm64"],
)
def sdk(request: pytest.FixtureRequest, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sdk]:
    release, level, arch, arches = request.param
    # A copy of links: a test takes a library away.
    tree = tmp_path_factory.mktemp(f"sdk-{release}") / "sdk"
    link_tree(inference_sdk(shared_cache, release, *arches), tree)
    libraries = tree / "native/sysroot/usr/lib" / arch.ohos_triple
    yield Sdk(tree=tree, release=release, level=level, arch=arch, libraries=libraries)


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


def build(session: Session, sdk: Sdk, target: str, *, static: bool | None = None) -> tuple[Path, set[str]]:
    request = BuildRequest(
        target=target, choice=ToolchainChoice(arch=sdk.arch.name, toolchain="ohos", sdk=str(sdk.tree), static=static)
    )
    artifact = ensure_built(session, request).artifact
    [product] = artifact.products
    return artifact.path_of(product), set(product.needed)


def emulate(
    sdk: Sdk, cache: Path, folder: Path, *words: str | Path, devices: int = 1
) -> subprocess.CompletedProcess[str]:
    if shutil.which(sdk.arch.qemu) is None:
        pytest.skip(f"{sdk.arch.qemu} is not installed")
    variables = [f"LD_LIBRARY_PATH={sdk.libraries}", f"OHFORGE_NNRT_DEVICES={devices}"]
    settings = [word for variable in variables for word in ("-E", variable)]
    return subprocess.run(
        [sdk.arch.qemu, "-L", runtime_tree(sdk.arch.name, cache), *settings, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_mslite_links_to_the_library_of_the_sdks_level(
    session: Session, sdk: Sdk, shared_cache: Path, tmp_path: Path
) -> None:
    program, needed = build(session, sdk, "mslite")
    assert needed - {"libc.so", "libm.so"} == {LITE_9 if sdk.level == 9 else LITE}
    assert imported_functions(program) == LITE_IMPORTS[min(sdk.level, 10)]
    model = add_softmax()
    (tmp_path / "model.ms").write_bytes(model.to_bytes())
    np.save(tmp_path / "in.npy", np.zeros((1, 4), np.float32))
    ran = emulate(sdk, shared_cache, tmp_path, program, "--input", "in.npy", "--output", ".", "model.ms")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"api level: {sdk.level}\n" in ran.stdout
    # It found out at run time that this library is not the real one.
    assert "REFERENCE RUNTIME" in ran.stdout
    expected = model.evaluate(np.zeros((1, 4), np.float32))[0]
    np.testing.assert_allclose(np.load(tmp_path / "0-probabilities.npy"), expected, atol=1e-6)
    listed = emulate(sdk, shared_cache, tmp_path, program, "--list-devices")
    assert ("API level 10" in listed.stdout) == (sdk.level == 9)


def test_nnrt_has_the_style_and_the_libraries_of_the_sdks_level(
    session: Session, sdk: Sdk, shared_cache: Path, tmp_path: Path
) -> None:
    program, needed = build(session, sdk, "nnrt")
    assert needed - {"libc.so", "libm.so"} == ({NNRT_9} if sdk.level == 9 else {CORE, NNRT})
    assert imported_functions(program) == NNRT_IMPORTS[sdk.level]
    none = emulate(sdk, shared_cache, tmp_path, program, devices=0)
    assert (none.returncode, "No available device." in none.stdout) == (69, True)
    one = emulate(sdk, shared_cache, tmp_path, program)
    assert one.returncode == 0, one.stdout + one.stderr
    assert f"style: API {9 if sdk.level == 9 else 11}, api level: {sdk.level}\n" in one.stdout
    assert "check: 12 values, largest difference 0, limit 1e-05: good" in one.stdout


def test_a_static_program_is_refused_because_the_sdk_has_shared_libraries_only(session: Session, sdk: Sdk) -> None:
    with pytest.raises(BuildError, match=r"shared\s+library\s+only"):
        build(session, sdk, "mslite", static=True)


def test_an_sdk_without_the_library_is_named(session: Session, sdk: Sdk) -> None:
    library = sdk.libraries / (NNRT_9 if sdk.level == 9 else CORE)
    aside = library.with_suffix(".aside")
    library.rename(aside)
    try:
        with pytest.raises(BuildError, match=r"Is\s+the\s+SDK\s+complete"):
            build(session, sdk, "nnrt")
    finally:
        aside.rename(library)
