"""When something is built and when not, and the reasons given."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from native.artifact.artifact import read_artifact
from native.build.plan import explain_difference
from tests.support.build_parts import Workshop


def test_a_first_build_leaves_a_manifest_with_all_products(workshop: Workshop) -> None:
    outcome = workshop.build()
    assert (outcome.rebuilt, outcome.reason) == (True, "first build")
    artifact = read_artifact(outcome.artifact.folder)
    assert artifact == outcome.artifact
    assert [product.name for product in artifact.products] == ["hello", "other"]
    assert artifact.folder.parent == workshop.session.settings.builds / "hello"
    assert artifact.folder.name == f"arm64-{artifact.key}"
    assert artifact.products[0].machine == "EM_AARCH64"
    assert artifact.path_of(artifact.products[0]).stat().st_mode & 0o111


def test_a_second_build_with_nothing_changed_starts_nothing(workshop: Workshop) -> None:
    first = workshop.build()
    second = workshop.build()
    assert (second.rebuilt, second.reason) == (False, "nothing changed")
    assert second.artifact == first.artifact
    assert len(workshop.system.runs) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda w: w.toolchain.update(cpu="cortex-a55", id="2" * 64), "cpu: generic -> cortex-a55"),
        (
            lambda w: w.toolchain.update(title="a compiler 2.0", id="2" * 64),
            "toolchain: a compiler 1.0 -> a compiler 2.0",
        ),
        (lambda w: w.toolchain.update(id="2" * 64), "toolchain changed"),
        (lambda w: w.toolchain.update(name="ohos", id="2" * 64), "toolchain: zig -> ohos"),
        (lambda w: w.toolchain.update(static=False, id="2" * 64), "static: True -> False"),
        (lambda w: w.recipe["rules"][0]["options"].update(LOUD=True), "LOUD: OFF -> ON"),
        (lambda w: w.recipe["rules"].append({"compile_flags": ["-O1"]}), r"compile flags: \+-O1"),
        (lambda w: w.recipe.update(version="2"), "version: 1 -> 2"),
        (lambda w: w.recipe["products"].pop(), "list of products changed"),
    ],
)
def test_a_changed_input_goes_to_another_key_and_is_named(change: Any, reason: str, workshop: Workshop) -> None:
    first = workshop.build()
    change(workshop)
    second = workshop.build()
    assert second.rebuilt
    assert second.artifact.folder != first.artifact.folder
    assert re.fullmatch(reason, second.reason)
    assert read_artifact(first.artifact.folder) == first.artifact


def test_a_changed_source_goes_to_another_key(workshop: Workshop) -> None:
    first = workshop.build()
    (workshop.folder / "src" / "more.c").write_text("int more;\n")
    second = workshop.build()
    assert (second.rebuilt, second.reason) == (True, "source changed")
    assert second.artifact.key != first.artifact.key


def test_going_back_to_earlier_inputs_finds_the_earlier_artifact(workshop: Workshop) -> None:
    first = workshop.build()
    workshop.toolchain.update(cpu="cortex-a55", id="2" * 64)
    workshop.build()
    workshop.toolchain.clear()
    assert workshop.build() == dataclasses.replace(
        first, rebuilt=False, reason="nothing changed", seconds=pytest.approx(0, abs=60)
    )


def test_the_reason_looks_at_the_same_arch_only(workshop: Workshop) -> None:
    workshop.build()
    assert workshop.build(arch="arm32").reason == "first build"


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: path.unlink(), "product missing: hello"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), "product altered since it was built: hello"),
        (lambda path: path.write_bytes(b""), "product altered since it was built: hello"),
    ],
)
def test_a_harmed_product_is_made_again(harm: Any, reason: str, workshop: Workshop) -> None:
    first = workshop.build()
    harm(first.artifact.path_of(first.artifact.product("hello")))
    second = workshop.build()
    assert (second.rebuilt, second.reason) == (True, reason)
    assert second.artifact == first.artifact
    assert workshop.build().reason == "nothing changed"


def test_products_are_added_to_the_same_artifact_when_they_are_asked_for(workshop: Workshop) -> None:
    first = workshop.build("hello")
    assert [product.name for product in first.artifact.products] == ["hello"]
    assert workshop.build("hello").reason == "nothing changed"
    second = workshop.build("other")
    assert (second.rebuilt, second.reason) == (True, "not built yet: other")
    assert second.artifact.folder == first.artifact.folder
    assert [product.name for product in second.artifact.products] == ["hello", "other"]
    assert workshop.build().reason == "nothing changed"
    assert workshop.system.runs == [["hello"], ["other"]]


def test_a_damaged_manifest_is_replaced(workshop: Workshop) -> None:
    first = workshop.build()
    (first.artifact.folder / "artifact.json").write_text("{")
    second = workshop.build()
    assert second.reason == "artifact.json is damaged"
    assert read_artifact(first.artifact.folder) == first.artifact


def test_inputs_of_another_builder_are_told_apart_without_a_crash() -> None:
    assert explain_difference({"builder": 0, "cpu": "a"}, {"builder": 1, "cpu": "a"}) == "ohforge builds in another way"
    assert explain_difference({"cpu": "a"}, {"cpu": "a", "stl": "none"}) == "stl: unset -> none"
    assert explain_difference({"link_flags": ["-a", "-b"]}, {"link_flags": ["-b", "-a"]}) == "link flags: another order"
    assert explain_difference({"options": {"A": "1"}}, {"options": {"B": "1"}}) == "A: 1 -> unset, B: unset -> 1"
