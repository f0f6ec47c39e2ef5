"""What goes to a build host."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.errors import UnknownName, UsageError
from core.session import Session
from deploy.build_host.build import would_build_on
from deploy.build_host.job import Job, make_job
from native.build.ensure import BuildRequest
from tests.support.build_parts import small_recipe, write_recipe
from toolchains.host_toolchain import ToolchainChoice

ARM64 = ToolchainChoice(arch="arm64", toolchain="zig")


def _job(session: Session, **request: object) -> Job:
    return make_job(session, BuildRequest(choice=ARM64, **request))  # type: ignore[arg-type]


def _names(job: Job, kind: str) -> list[str]:
    [tree] = [tree for tree in job.trees if tree.place.startswith(kind)]
    return sorted(name for name, _, _ in tree.files)


def test_a_project_goes_without_what_is_no_source_of_it(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "game"
    for name in ("CMakeLists.txt", "src/main.c", ".git/config", "build/old/CMakeCache.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "run.sh").write_text("")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/main.c")
    job = _job(session, source=str(folder))
    assert _names(job, "projects/") == ["CMakeLists.txt", "link", "run.sh", "src/main.c"]
    assert job.trees[1].place.endswith("/game")
    kinds = {name: kind for name, kind, _ in job.trees[1].files}
    assert (kinds["run.sh"], kinds["link"], kinds["src/main.c"]) == ("x", "link", "file")
    assert job.request["source"] == {"place": job.trees[1].place}


def test_of_a_recipe_go_the_files_that_it_names_and_not_all_beside_it(session: Session, tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["products"][0]["add_sources"] = ["more.c"]
    recipe["rules"].append({"link_flags": ["-Wl,-T,{recipe}/script.ld"]})
    for name in ("more.c", "script.ld", "diary.txt"):
        (tmp_path / name).write_text(name)
    path = write_recipe(tmp_path, recipe)
    job = _job(session, target=str(path))
    assert _names(job, "projects/") == ["more.c", "recipe.yaml", "script.ld", "src/main.c"]
    assert job.request["target"] == {"place": f"{job.trees[1].place}/recipe.yaml"}


def test_a_file_outside_of_the_recipes_folder_cannot_go(session: Session, tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["rules"].append({"link_flags": ["-Wl,-T,{recipe}/../script.ld"]})
    (tmp_path / "script.ld").write_text("")
    with pytest.raises(UsageError, match=r"script\.ld does not lie below the folder of the recipe hello"):
        _job(session, target=str(write_recipe(tmp_path / "recipe", recipe)))


def test_a_prefix_goes_with_all_its_files_and_a_name_is_looked_for_there(session: Session, tmp_path: Path) -> None:
    (tmp_path / "libs/include").mkdir(parents=True)
    (tmp_path / "libs/include/z.h").write_text("")
    job = _job(session, target="agent", prefixes=(str(tmp_path / "libs"), "zlib"))
    assert _names(job, "prefixes/") == ["include/z.h"]
    assert job.request["prefixes"] == [{"place": job.trees[-1].place}, "zlib"]


def test_two_ask_for_the_same_thing_when_only_their_haste_differs(session: Session, tmp_path: Path) -> None:
    one = _job(session, target="agent")
    assert _job(session.with_settings(jobs=7), target="agent", jobs=2).id == one.id
    other = BuildRequest(choice=dataclasses.replace(ARM64, cpu="cortex-a55"), target="agent")
    assert make_job(session, other).id != one.id
    assert _job(session, target="agent", options={"X": "1"}).id != one.id


def test_ohforges_own_code_goes_without_what_a_build_does_not_need(session: Session) -> None:
    names = _names(_job(session, target="agent"), "code/")
    assert {"native/build/ensure.py", "deploy/build_host/engine.py", "native/recipe/recipe.schema.json"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "bench/", "deploy/hdc/")) or "__pycache__" in name]


def test_what_is_wrong_with_a_request_is_told_before_anything_goes(session: Session) -> None:
    with pytest.raises(UnknownName, match="llama"):
        _job(session, target="lama")
    with pytest.raises(UnknownName, match="llama-bench"):
        _job(session, target="llama", products=("llama-bensh",))


def test_with_dry_a_source_that_is_not_here_is_not_fetched(session: Session) -> None:
    dry = dataclasses.replace(session, dry=True)
    would = would_build_on(dry, "ssh://arm-server", BuildRequest(choice=ARM64, target="llama"))
    assert [entry.action for entry in would] == ["fetch", "send", "build"]
    assert would[1].size is None
    assert not (session.settings.cache / "sources").exists()
