"""What pip is configured for decides where packages come from."""

from __future__ import annotations

import dataclasses
import sys

from core.process import Result
from core.session import Session
from core.testing import FakeRunner
from native.source.pypi import parse_pip_configuration, read_index_settings

PRINTED = """\
global.cert='/etc/ssl/mine.pem'
global.extra-index-url='https://one.example/simple\\nhttps://two.example/simple'
global.index-url='https://mirror.example/simple'
install.index-url='https://only-for-install.example/simple'
download.find-links='/opt/wheels https://pages.example/links'
:env:.index-url="https://o'brien.example/simple"
:env:.trusted-host='inside.example other.example:8443'
"""


def with_runner(session: Session, answer: Result | bytes) -> Session:
    return dataclasses.replace(session, runner=FakeRunner(answers=[([sys.executable, "-m", "pip"], answer)]))


def test_variables_win_over_files_and_sections_of_other_commands_do_not_count() -> None:
    options = parse_pip_configuration(PRINTED)
    assert options["index-url"] == "https://o'brien.example/simple"
    assert options["find-links"] == "/opt/wheels https://pages.example/links"


def test_what_pip_prints_becomes_places_certificates_and_trust(session: Session) -> None:
    index = read_index_settings(with_runner(session, PRINTED.encode()))
    assert index.index_urls == (
        "https://o'brien.example/simple",
        "https://one.example/simple",
        "https://two.example/simple",
    )
    assert index.find_links == ("/opt/wheels", "https://pages.example/links")
    assert index.transport("https://one.example/x").ca_bundle == "/etc/ssl/mine.pem"
    assert index.transport("https://inside.example/x").insecure
    assert index.transport("https://other.example:8443/x").insecure
    assert not index.transport("https://other.example/x").insecure


def test_without_configuration_the_default_index_of_the_library_is_asked(session: Session) -> None:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    assert read_index_settings(with_runner(session, b"")).index_urls == (PYPI_SIMPLE_ENDPOINT,)


def test_no_index_leaves_only_find_links(session: Session) -> None:
    index = read_index_settings(with_runner(session, b":env:.no-index='1'\n:env:.find-links='/w'\n"))
    assert (index.index_urls, index.find_links) == ((), ("/w",))


def test_without_pip_its_variables_still_count(session: Session, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    missing = Result(argv=(), exit_code=1, stdout=b"", stderr=b"No module named pip", seconds=0.1)
    assert read_index_settings(with_runner(session, missing)).index_urls[0] == "https://mirror.example/simple"
