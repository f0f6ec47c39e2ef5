"""The manifest of a build: written last, read back the same, and refused when it has another form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidData, UnknownName
from native.artifact.artifact import Artifact, Product, find_damage, list_artifacts, read_artifact, write_artifact


def make_artifact(folder: Path, **changes: Any) -> Artifact:
    product = Product(
        name="hello",
        path="out/hello",
        sha256="2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",  # printf hello | sha256sum
        size=5,
        kind="program",
        machine="EM_AARCH64",
        interpreter="/lib/ld-musl-aarch64.so.1",
        needed=("libc.so", "libc++_shared.so"),
    )
    values: dict[str, Any] = {
        "program": "hello",
        "version": "1",
        "arch": "arm64",
        "key": "0123456789ab",
        "toolchain": "zig",
        "toolchain_id": "1" * 64,
        "cpu": "generic",
        "inputs": {"cpu": "generic", "options": {"LOUD": "ON"}},
        "products": (product,),
        "runtime_libraries": ("out/libc++_shared.so",),
        "folder": folder,
        **changes,
    }
    (folder / "out").mkdir(parents=True, exist_ok=True)
    (folder / "out" / "hello").write_bytes(b"hello")
    return Artifact(**values)


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    artifact = make_artifact(tmp_path)
    path = write_artifact(artifact)
    assert path == tmp_path / "artifact.json"
    assert read_artifact(tmp_path) == artifact


def test_a_moved_build_folder_is_still_an_artifact(tmp_path: Path) -> None:
    write_artifact(make_artifact(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")
    artifact = read_artifact(tmp_path / "after")
    assert artifact.path_of(artifact.product("hello")).read_bytes() == b"hello"


def test_the_manifest_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    assert str(tmp_path) not in write_artifact(make_artifact(tmp_path)).read_text()


def test_an_unknown_product_is_told_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no product of hello 'helo'; did you mean 'hello'"):
        make_artifact(tmp_path).product("helo")


@pytest.mark.parametrize("change", ["not json", "schema", "lacks", "extra", "list"])
def test_a_manifest_of_another_form_is_told(change: str, tmp_path: Path) -> None:
    path = write_artifact(make_artifact(tmp_path))
    value = json.loads(path.read_text())
    if change == "schema":
        value["schema"] = 99
    elif change == "lacks":
        del value["arch"]
    elif change == "extra":
        value["colour"] = "red"
    path.write_text("{" if change == "not json" else json.dumps([1] if change == "list" else value))
    with pytest.raises(InvalidData, match=r"artifact\.json is not an artifact manifest"):
        read_artifact(tmp_path)


def test_damage_of_a_product_is_told_in_words(tmp_path: Path) -> None:
    artifact = make_artifact(tmp_path)
    product = artifact.product("hello")
    assert find_damage(artifact, product) == ""
    artifact.path_of(product).write_bytes(b"hellO")
    assert find_damage(artifact, product) == "product altered since it was built: hello"
    artifact.path_of(product).unlink()
    assert find_damage(artifact, product) == "product missing: hello"


def test_artifacts_are_listed_newest_first_and_foreign_ones_passed_over(tmp_path: Path) -> None:
    for age, name in enumerate(("arm64-c", "arm64-b", "arm32-a")):
        path = write_artifact(make_artifact(tmp_path / "hello" / name, key=name))
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    broken = tmp_path / "hello" / "arm64-d"
    broken.mkdir()
    (broken / "artifact.json").write_text("{}")
    assert [artifact.key for artifact in list_artifacts(tmp_path)] == ["arm64-c", "arm64-b", "arm32-a"]
    assert [artifact.key for artifact in list_artifacts(tmp_path, "hello", "arm32")] == ["arm32-a"]
    assert list_artifacts(tmp_path, "other") == []
