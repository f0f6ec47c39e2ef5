"""Daily builds of the ohos-sdk: the service of the project's continuous integration knows where the newest one lies.

Its request and answer are those that public clients of it use; docs/sdk.md says what that means.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.addresses import shown
from core.errors import NotFoundOnServer, NotTheFile
from core.http import post_json
from core.session import Session
from toolchains.catalogue import read_catalogue

DAILY = "daily:"
COMPONENT = "ohos-sdk-public"
KEPT = timedelta(days=30)
"""Files of older builds are removed, although the service still lists them."""
UNUSED = ("deviceLevel", "sortType", "sortField", "hardwareBoard", "buildFailReason")


def find_daily_build(session: Session, branch: str) -> str:
    """The address of the newest good build of `branch` (empty: ``master``).

    Raises NotFoundOnServer when there is none that is still kept, NotTheFile for an answer of another form.
    """
    branch = branch or "master"
    url = session.settings.sdk_daily or read_catalogue().daily_url
    status, answer = post_json(session, url, _question(branch))
    try:
        builds = answer["data"]["list"]["dataList"]  # type: ignore[index]
        addresses = [str(build.get("obsPath") or "") for build in builds]
    except (KeyError, TypeError, AttributeError) as error:
        raise NotTheFile(
            f"{shown(url)}: HTTP {status}, and the answer is no list of builds: {str(answer)[:200]}"
        ) from error
    found = next((address for address in addresses if address.startswith(("http://", "https://"))), "")
    if not found:
        raise NotFoundOnServer(
            f"{shown(url)} has no build of {COMPONENT} on branch {branch!r} from the last {KEPT.days} days.",
            remedy="Look at the branch's name, or take a release: `ohforge sdk.list` shows them.",
        )
    session.console.chosen("daily build", shown(found), f"the newest of branch {branch}")
    return found


def _question(branch: str) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "projectName": "openharmony",
        "branch": branch,
        "component": COMPONENT,
        "pageNum": 1,
        "pageSize": 10,
        "type": 1,
        "startTime": f"{now - KEPT:%Y%m%d%H%M%S}",
        "endTime": f"{now:%Y%m%d%H%M%S}",
        "buildStatus": "success",
        "withDomain": 1,
        **dict.fromkeys(UNUSED, ""),
    }
