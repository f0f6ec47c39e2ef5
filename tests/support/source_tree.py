"""A folder that looks like an OpenHarmony source tree, with a build.sh that prints what the real one prints.

What it prints was taken from build.sh and hb of releases 3.2 to 5.1: the banner, the numbered steps of ninja, the last line
in green or red. The libraries that it "builds" are tiny programs in machine code, placed where a real build places them.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.tiny_elf import write_arm32, write_arm64

RED, GREEN, END = "\\033[31m", "\\033[32m", "\\033[0m"
BUILD_SH = r"""#!/bin/bash
echo -e "\n\033[32m\t*********Welcome to OpenHarmony!*********\033[0m\n"
echo -e "\033[33m Your system shell isn't bash, we recommend you to use bash, because some commands may not be supported in other shells, such as pushd and shopt are not supported in dash. \n\033[0m"
echo -e "\033[32mBuild args: $@\033[0m"
export SOURCE_ROOT_DIR=$(cd $(dirname $0);pwd)
while [[ ! -f "${SOURCE_ROOT_DIR}/.gn" ]]; do
    SOURCE_ROOT_DIR="$(dirname "${SOURCE_ROOT_DIR}")"
    if [[ "${SOURCE_ROOT_DIR}" == "/" ]]; then
        echo -e "\033[31m[OHOS ERROR] Cannot find source tree containing $(pwd)\033[0m"
        exit 1
    fi
done
echo "$@" > "$SOURCE_ROOT_DIR/called"
[ -z "@NO_SDK@" ] || : --no-prebuilt-sdk
while [ $# -gt 0 ]; do
  case "$1" in
    --product-name) product=$2; shift ;;
    --target-cpu) cpu=$2; shift ;;
    --build-target) target=$2; shift ;;
  esac
  shift
done
echo -e "\033[32m[OHOS INFO] Start building...\033[0m\n"
for step in 1 2 3; do echo "[OHOS INFO] [$((step * 100))/300] CXX obj/foundation/ai/a$step.o"; done
if [ -f "$SOURCE_ROOT_DIR/scenario.sh" ]; then . "$SOURCE_ROOT_DIR/scenario.sh"; fi
out="$SOURCE_ROOT_DIR/out/$product"
case "$target" in
  neural_network_runtime) place=ai/neural_network_runtime; names="libneural_network_core.so libneural_network_runtime.so" ;;
  mindspore*) place=thirdparty/mindspore; names="libmindspore-lite.so libmindspore_lite_ndk.so" ;;
  *) place=hiviewdfx/$target; names="lib$target.z.so" ;;
esac
mkdir -p "$out/$place" "$out/lib.unstripped/$place" "$out/obj/x"
for name in $names; do
  cp "$SOURCE_ROOT_DIR/made/$cpu.so" "$out/$place/$name"
  echo wrong > "$out/lib.unstripped/$place/$name"
  echo wrong > "$out/obj/x/$name"
done
echo -e "\033[32m=====build ${product_name} successful=====\033[0m"
date +%F' '%H:%M:%S
echo "++++++++++++++++++++++++++++++++++++++++"
"""
ERROR_LINE = 'echo -e "\\033[31m=====build  error=====\\033[0m"; exit 1\n'


def make_tree(root: Path, *, release: str = "4.1.7.5", level: int = 11, no_prebuilt_sdk: bool = False) -> Path:
    """Makes the tree at `root`: products rk3568 (arm) and hispark_taurus_standard, three components, all prebuilts."""
    write(root / "build" / "core" / "gn" / "dotfile.gn", "")
    script = write(root / "build" / "build_scripts" / "build.sh", BUILD_SH.replace("@NO_SDK@", "x" * no_prebuilt_sdk))
    if not no_prebuilt_sdk:
        script.write_text("".join(line for line in BUILD_SH.splitlines(True) if "--no-prebuilt-sdk" not in line))
    (root / ".gn").symlink_to("build/core/gn/dotfile.gn")
    (root / "build.sh").symlink_to("build/build_scripts/build.sh")
    quote = '"' if level > 9 else ""
    write(
        root / "build" / "version.gni",
        f'declare_args() {{\n  sdk_version = "{release}"\n  api_version = {quote}{level}{quote}\n}}\n',
    )
    _add_products(root)
    _add_components(root)
    for name in (
        "python/linux-x86/current/bin/python3",
        "build-tools/linux-x86/bin/gn",
        "build-tools/linux-x86/bin/ninja",
    ):
        write(root / "prebuilts" / name, "")
    (root / "made").mkdir()
    write_arm32(root / "made" / "arm.so", b"arm")
    write_arm64(root / "made" / "arm64.so", b"arm64")
    return root


def make_fail(root: Path, *lines: str, status: int | str = 1) -> None:
    """Lets build.sh print `lines` (with the escapes of ``echo -e``) and end with `status`, or with a command."""
    text = "".join(f"cat <<'EOF'\n{line}\nEOF\n" for line in lines)
    if isinstance(status, str):
        write(root / "scenario.sh", f"{text}{status}\n")
    else:
        write(root / "scenario.sh", text + ERROR_LINE.replace("exit 1", f"exit {status}"))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _add_products(root: Path) -> None:
    parts = [
        {"subsystem": "ai", "components": [{"component": "neural_network_runtime"}, {"component": "mindspore"}]},
        {"subsystem": "hiviewdfx", "components": [{"component": "hilog", "features": []}]},
    ]
    config = {
        "product_name": "rk3568",
        "version": "3.0",
        "type": "standard",
        "target_cpu": "arm",
        "board": "rk3568",
        "inherit": ["productdefine/common/inherit/rich.json"],
        "subsystems": parts,
    }
    write(root / "vendor" / "hihope" / "rk3568" / "config.json", json.dumps(config))
    write(root / "vendor" / "hihope" / "broken" / "config.json", "{")
    inherited = {"subsystems": [{"subsystem": "web", "components": [{"component": "webview"}]}]}
    write(root / "productdefine" / "common" / "inherit" / "rich.json", json.dumps(inherited))
    write(root / "productdefine" / "common" / "products" / "ohos-sdk.json", json.dumps({"product_name": "ohos-sdk"}))


def _add_components(root: Path) -> None:
    nnrt = root / "foundation" / "ai" / "neural_network_runtime"
    kit = "interfaces/kits/c/neural_network_runtime"
    write(nnrt / kit / "neural_network_core.h", "#pragma once\n")
    write(nnrt / "bundle.json", json.dumps({"component": {"name": "neural_network_runtime", "subsystem": "ai"}}))
    hilog = root / "base" / "hiviewdfx" / "hilog"
    base = {"header": {"header_base": "//base/hiviewdfx/hilog/interfaces/native/innerkits/include"}}
    write(hilog / "interfaces" / "native" / "innerkits" / "include" / "hilog" / "log.h", "#pragma once\n")
    write(hilog / "bundle.json", json.dumps({"component": {"name": "hilog", "build": {"inner_kits": [base]}}}))
    lite = root / "third_party" / "mindspore"
    write(
        lite / "BUILD.gn",
        'ohos_group("mindspore-lib") {\n  deps = [ "mindspore-src/source/mindspore-lite:mindspore" ]\n}\n',
    )
    write(lite / "mindspore-v2.1.0.zip", "PK" * 500)
