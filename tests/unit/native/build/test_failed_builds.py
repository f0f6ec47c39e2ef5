"""What a build that goes wrong says and leaves behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.errors import BuildError, NotEnoughSpace, ProductMissing, UnfitProduct, UnknownName, explain_exception
from core.process import Result
from native.build.job import BuildJob, explain_failure, first_errors
from tests.support.build_parts import Workshop, make_job


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BuildError("no")])
def test_an_interrupted_build_leaves_no_manifest_and_goes_on_later(error: BaseException, workshop: Workshop) -> None:
    def fail(job: BuildJob) -> None:
        raise error

    workshop.system.before_products = fail
    with pytest.raises(type(error)):
        workshop.build()
    (folder,) = (path for path in (workshop.session.settings.builds / "hello").iterdir() if path.is_dir())
    assert not (folder / "artifact.json").exists()
    workshop.system.before_products = lambda job: None
    outcome = workshop.build()
    assert (outcome.rebuilt, outcome.reason) == (True, "an unfinished build goes on")
    assert outcome.artifact.folder == folder


def test_a_product_that_was_not_built_is_told_with_what_was(workshop: Workshop) -> None:
    def rename(job: BuildJob) -> None:
        (job.tree / "bin").mkdir(exist_ok=True)
        (job.tree / "bin" / "helo").write_bytes(b"\x7fELF and more")

    workshop.system.before_products = rename
    workshop.recipe["products"][0]["path"] = "bin/hello"
    original = workshop.system.run
    workshop.system.run = lambda session, job, log, deadline: original(  # type: ignore[method-assign]
        session, dataclasses.replace(job, wanted=[]), log, deadline
    )
    with pytest.raises(ProductMissing, match=r"no bin/hello in .*; there are: bin/helo"):
        workshop.build()


def test_a_product_for_another_arch_never_gets_into_an_artifact(workshop: Workshop) -> None:
    workshop.system.arch_of_products = "arm32"
    with pytest.raises(UnfitProduct, match="EM_ARM"):
        workshop.build()
    assert not list(workshop.session.settings.builds.rglob("artifact.json"))
    assert not list(workshop.session.settings.builds.rglob("out/*"))


def test_an_unknown_arch_or_product_is_told_before_anything_begins(workshop: Workshop) -> None:
    with pytest.raises(UnknownName, match="no arch 'arm46'; did you mean 'arm64'"):
        workshop.build(arch="arm46")
    with pytest.raises(UnknownName, match="no product of hello 'othr'; did you mean 'other'"):
        workshop.build("othr")
    assert workshop.system.runs == []


def test_a_disk_that_becomes_full_under_the_log_is_no_defect(workshop: Workshop) -> None:
    folder = workshop.build().artifact.folder
    (folder / "artifact.json").unlink()
    for log in folder.glob("*.log"):
        log.unlink()
        log.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        workshop.build()
    assert explain_exception(caught.value).code == "OHF7501"


def test_the_first_error_is_shown_and_not_the_last_lines() -> None:
    text = (
        "[1/9] Building C object a.o\n/src/a.c:3:5: warning: unused\n"
        "/src/a.c:7:1: error: unknown type name 'cpu_set_t'\n    7 | cpu_set_t x;\n      | ^\n"
        "[2/9] Building C object b.o\n" + "noise\n" * 50 + "ninja: build stopped: subcommand failed.\n"
    )
    shown = first_errors(text)
    assert shown.splitlines()[0].strip() == "/src/a.c:7:1: error: unknown type name 'cpu_set_t'"
    assert "cpu_set_t x;" in shown
    assert "ninja: build stopped" not in shown
    assert len(shown.splitlines()) <= 8


def test_without_an_error_line_the_last_lines_are_shown() -> None:
    assert first_errors("one\n\ntwo\nthree\n").split() == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        ("fatal error: error in backend: No space left on device", NotEnoughSpace, "ran full"),
        ("zig: error: unable to execute command: Killed", BuildError, "--jobs 1"),
        ("a.c:1:1: error: no", BuildError, "a.c:1:1"),
    ],
)
def test_a_failure_is_told_by_its_cause(output: str, error: type[BuildError], words: str, tmp_path: Path) -> None:
    result = Result(argv=("ninja",), exit_code=1, stdout=output.encode(), stderr=b"", seconds=1.0)
    made = explain_failure(result, "Compiling", make_job(tmp_path))
    assert type(made) is error
    assert words in made.message + made.remedy
    assert made.details["log"] == str(tmp_path / "build.log")
