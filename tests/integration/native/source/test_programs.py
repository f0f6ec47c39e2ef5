"""Sources of programs, fetched from a loopback server that answers as package indexes and GitHub do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.errors import (
    IntegrityError,
    NoSourceLeft,
    Offline,
    SourceError,
    UnknownName,
)
from core.session import Session
from native.source.fetch import fetch_source
from native.source.kinds import FolderSource, GithubArchive
from native.source.pypi import fetch_file
from tests.shared.loopback import Loopback
from tests.support.program_sources import FILE, PACKAGE, PIN, SDIST, recipe, sdist, serve_index


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
