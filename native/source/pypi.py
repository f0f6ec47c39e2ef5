"""Single files from the Python package index that pip is configured for, so that a user's mirror is honoured.

Nothing is installed and nothing of a package is executed: a file is found by its exact name, fetched, and compared
with the hash that is pinned here.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from core.addresses import shown
from core.deadline import Deadline
from core.download import Downloaded, download_cached, in_cache
from core.errors import (
    HostToolMissing,
    IntegrityError,
    NetworkError,
    NoSourceLeft,
    NotFoundOnServer,
    Offline,
    OhforgeError,
)
from core.fallback import Fallback
from core.http import CONNECT_SECONDS, MAY_HEAL, SILENCE_SECONDS, Transport, path_of_file_url, refuse_offline
from core.patience import Patience
from core.session import Session

if TYPE_CHECKING:
    import requests
    from pypi_simple import DistributionPackage

PATIENCE = Patience(pause=0.5, growth=2, times=4)
PIP_SECTIONS = ("global", "download", ":env:")
"""Parts of pip's configuration that `pip download` would read, weakest first."""


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Where pip looks for packages and how it gets there."""

    index_urls: tuple[str, ...]
    """In pip's order; the first is the main index."""
    find_links: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = ""
    trusted_hosts: tuple[str, ...] = ()

    def places(self) -> list[tuple[str, bool]]:
        """Where to look, places of this machine first, and whether a place has a folder for each project."""
        places = [(place, False) for place in self.find_links] + [(url, True) for url in self.index_urls]
        return sorted(places, key=lambda entry: not _local_path(entry[0]))

    def transport(self, url: str) -> Transport:
        parts = urlsplit(url)
        insecure = bool({parts.hostname, parts.netloc.rpartition("@")[2]} & set(self.trusted_hosts))
        return Transport(
            ca_bundle=self.cert,
            client_cert=self.client_cert,
            proxy=self.proxy,
            insecure=insecure and parts.scheme == "https",
        )


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """A file that an index offers. `sha256` is what the index says, if it does."""

    url: str
    sha256: str = ""


def read_index_settings(session: Session) -> IndexSettings:
    """Reads pip's configuration files and variables by asking pip; without pip only its variables are left."""
    options = {
        name.lower().removeprefix("pip_").replace("_", "-"): v
        for name, v in os.environ.items()
        if name.startswith("PIP_")
    }
    try:
        answer = session.runner.run(
            [sys.executable, "-m", "pip", "config", "list"],
            deadline=Deadline.after(session.settings.timeouts.command, "pip's answer on its configuration"),
        )
        if answer.ok:
            options = parse_pip_configuration(answer.text)
        else:
            session.console.detail("pip is not installed here: of its configuration only PIP_… variables are used")
    except HostToolMissing:
        pass
    return _index_settings(options)


def parse_pip_configuration(text: str) -> dict[str, str]:
    """Options by name from what ``pip config list`` prints: ``section.name='value'`` on each line."""
    found: dict[str, dict[str, str]] = {section: {} for section in PIP_SECTIONS}
    for line in text.splitlines():
        matched = re.fullmatch(r"(:?[\w-]+:?)\.([\w-]+)=(['\"].*['\"])", line.strip())
        if matched and matched[1] in found:
            found[matched[1]][matched[2].replace("_", "-")] = str(ast.literal_eval(matched[3]))
    return {name: value for section in PIP_SECTIONS for name, value in found[section].items()}


def fetch_file(session: Session, project: str, filename: str, *, sha256: str, size: int | None = None) -> Downloaded:
    """Fetches one file of a project into the cache, from the first place of pip's configuration that offers it.

    Raises NoSourceLeft with the reason for each place, or Offline.
    """
    kept = in_cache(session, sha256)
    if kept is not None:
        return Downloaded(path=kept, bytes_downloaded=0, bytes_reused=kept.stat().st_size, sha256=sha256, seconds=0.0)
    index = read_index_settings(session)
    tries = Fallback(session, filename, tell=session.console.detail)
    for place, by_project in index.places():
        with tries.passing_over(shown(place)):
            found = _look_in(session, index, place, project if by_project else "", filename)
            if found.sha256 and found.sha256 != sha256:
                raise IntegrityError(f"{shown(place)} offers another {filename}: sha256 {found.sha256}, not {sha256}")
            got = download_cached(
                session, found.url, sha256=sha256, size=size, title=filename, transport=index.transport(found.url)
            )
            session.console.detail(f"{filename} from {shown(found.url)}")
            return got
    raise _nowhere(session, project, filename, tries.listed)


def _index_settings(options: Mapping[str, str]) -> IndexSettings:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    main = options.get("index-url", "") or PYPI_SIMPLE_ENDPOINT
    extra = options.get("extra-index-url", "").split()
    no_index = options.get("no-index", "").lower() in ("1", "true", "yes", "on")
    return IndexSettings(
        index_urls=() if no_index else (main, *extra),
        find_links=tuple(options.get("find-links", "").split()),
        cert=options.get("cert", ""),
        client_cert=options.get("client-cert", ""),
        proxy=options.get("proxy", ""),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
    )


def _look_in(session: Session, index: IndexSettings, place: str, project: str, filename: str) -> FoundFile:
    """Looks for a file in an index (`project` given) or among find-links (`project` empty).

    Raises NotFoundOnServer when it is not there, and other NetworkErrors.
    """
    folder = _local_path(place)
    if folder is not None:
        found = _look_in_folder(folder / _normal(project) if project else folder, project, filename)
    else:
        found = _look_on_server(session, index, place, project, filename)
    if found is None:
        raise NotFoundOnServer(f"{shown(place)} does not have {filename}")
    return found


def _look_on_server(
    session: Session, index: IndexSettings, place: str, project: str, filename: str
) -> FoundFile | None:
    refuse_offline(session, place)
    transport = index.transport(place)
    with transport.http(session) as http, warnings.catch_warnings():
        if transport.insecure:
            warnings.simplefilter("ignore")
        packages = _ask_index(http, place, project) if project else _ask_page(http, place)
    for package in packages:
        if package.filename == filename:
            return FoundFile(url=_with_login(package.url, place), sha256=(package.digests or {}).get("sha256", ""))
    return None


def _look_in_folder(folder: Path, project: str, filename: str) -> FoundFile | None:
    if (folder / filename).is_file():
        return FoundFile(url=(folder / filename).resolve().as_uri())
    page = folder if folder.is_file() else folder / "index.html"
    if page.is_file():
        for package in _links(page.read_text("utf-8", "replace"), page.resolve().as_uri(), project):
            if package.filename == filename and path_of_file_url(package.url).is_file():
                return FoundFile(url=package.url.partition("#")[0], sha256=(package.digests or {}).get("sha256", ""))
    return None


def _ask_index(http: requests.Session, place: str, project: str) -> Iterable[DistributionPackage]:
    """The files of a project, from the index's JSON or HTML answer (PEP 503, PEP 691)."""
    import requests
    from pypi_simple import NoSuchProjectError, PyPISimple, UnsupportedContentTypeError, UnsupportedRepoVersionError

    _retry(http)
    try:
        return (
            PyPISimple(place, session=http)
            .get_project_page(project, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
            .packages
        )
    except NoSuchProjectError:
        return ()
    except UnsupportedContentTypeError as error:
        raise NetworkError(f"{shown(place)} is not a package index: it answers with {error.content_type}.") from error
    except (requests.RequestException, UnsupportedRepoVersionError) as error:
        raise NetworkError(f"{shown(place)} could not be asked for {project}: {_brief(error)}.") from error


def _ask_page(http: requests.Session, place: str) -> Iterable[DistributionPackage]:
    import requests

    _retry(http)
    try:
        answer = http.get(place, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
        answer.raise_for_status()
    except requests.RequestException as error:
        raise NetworkError(f"{shown(place)} could not be read: {_brief(error)}.") from error
    return _links(answer.text, answer.url, "")


def _links(html: str, base: str, project: str) -> list[DistributionPackage]:
    from pypi_simple import ProjectPage

    return ProjectPage.from_html(project or "any", html, base_url=base).packages


def _retry(http: requests.Session) -> None:
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    healing = (*MAY_HEAL, 500, 502, 503, 504)
    retry = Retry(total=PATIENCE.times, backoff_factor=PATIENCE.pause, status_forcelist=healing)
    adapter = HTTPAdapter(max_retries=retry)
    http.mount("https://", adapter)
    http.mount("http://", adapter)


def _brief(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code} {response.reason}"
    return re.sub(r"//[^/@\s]+@", "//", str(error))[:300]


def _local_path(place: str) -> Path | None:
    """The folder that a place of pip's configuration names, if it is one of this machine."""
    if place.startswith("file:"):
        return path_of_file_url(place)
    return None if re.match(r"[a-z+]+://", place, re.IGNORECASE) else Path(place).expanduser()


def _normal(project: str) -> str:
    """A project's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", project).lower()


def _with_login(url: str, index_url: str) -> str:
    """Carries user name and password of an index over to files on the same host, as pip does."""
    index, file = urlsplit(index_url), urlsplit(url.partition("#")[0])
    login, _, host = index.netloc.rpartition("@")
    if login and file.netloc == host:
        file = file._replace(netloc=f"{login}@{host}")
    return urlunsplit(file)


def _nowhere(session: Session, project: str, filename: str, listed: str) -> OhforgeError:
    if session.settings.offline:
        return Offline(
            f"{filename} is not in the cache and would have to be downloaded, but ohforge.offline forbids it."
        )
    return NoSourceLeft(
        f"{filename} (package {project}) is in none of the places that pip is configured for:{listed}",
        remedy="Name a reachable mirror in pip's configuration (`pip config set global.index-url …`), or put the file "
        "into a folder and name that with PIP_FIND_LINKS.",
    )
