"""Sources in turn, and how often something is tried again."""

from __future__ import annotations

import pytest

from core.deadline import Deadline
from core.errors import (
    IntegrityError,
    ModelError,
    NoSourceLeft,
    NotFoundOnServer,
    Offline,
    OhforgeError,
    ServerUnreached,
)
from core.fallback import Fallback
from core.patience import Patience
from core.session import Session


def fetch(session: Session, *answers: OhforgeError | str) -> str:
    tries = Fallback(session, "demo 1.0")
    for number, answer in enumerate(answers):
        with tries.passing_over(f"source {number}"):
            if isinstance(answer, OhforgeError):
                raise answer
            return f"{answer}, {tries.why('the first')}"
    raise tries.error("ask somebody")


def test_the_next_source_is_taken_when_one_fails_and_the_user_is_told_why(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(session, "a") == "a, the first"
    assert fetch(session, NotFoundOnServer("not here"), "b") == "b, 1 passed over"
    assert "source 0 is passed over: not here" in capsys.readouterr().out


def test_an_error_that_another_source_would_not_mend_ends_the_search(session: Session) -> None:
    with pytest.raises(ModelError):
        fetch(session, ModelError("no model"), "b")


@pytest.mark.parametrize(
    ("answers", "raised", "text"),
    [
        ((NotFoundOnServer("one"),), NotFoundOnServer, "^one$"),
        ((NotFoundOnServer("one"), ServerUnreached("two\nthree")), NoSourceLeft, r"demo 1\.0.*\n  - one\n  - two\n  three"),
        ((ServerUnreached("one"), ServerUnreached("two")), ServerUnreached, r"demo 1\.0 could be reached:\n  - one\n  - two"),
        ((Offline("one"),), Offline, r"demo 1\.0 would have to be downloaded"),
        ((Offline("one"), NotFoundOnServer("two")), NoSourceLeft, "one\n  - two"),
        ((), NoSourceLeft, r"demo 1\.0"),
    ],
)  # fmt: skip
def test_in_the_end_it_is_said_what_each_source_said(
    session: Session, answers: tuple[OhforgeError, ...], raised: type[OhforgeError], text: str
) -> None:
    with pytest.raises(OhforgeError, match=text) as caught:
        fetch(session, *answers)
    assert type(caught.value) is raised
    assert raised is not NoSourceLeft or caught.value.remedy == "ask somebody"


def test_a_file_that_was_refused_for_its_hash_weighs_more_than_a_server_that_was_not_there(session: Session) -> None:
    refused = IntegrityError("another hash", remedy="compare", expected="12", found="34")
    with pytest.raises(IntegrityError, match="not there\n  - another hash") as caught:
        fetch(session, NotFoundOnServer("not there"), refused)
    assert (caught.value.remedy, caught.value.details) == ("compare", {"expected": "12", "found": "34"})


def test_pauses_grow_and_end() -> None:
    patience = Patience(pause=0.5, growth=2, times=3)
    assert list(patience.pauses()) == [0.5, 1, 2]
    assert [patience.pause_after(failures) for failures in (0, 1, 2, 3, 4)] == [0.5, 0.5, 1, 2, None]
    assert Patience(pause=3).pause_after(1000) == 3


def test_who_waits_looks_once_more_when_the_time_is_over_and_never_waits_longer() -> None:
    slept: list[float] = []
    deadline = Deadline.after(0.05, "a sign")

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        while len(slept) > 2 and not deadline.expired:
            pass

    assert len(list(Patience(pause=0.02).rounds(deadline, sleep))) == len(slept) == 3
    assert max(slept) <= 0.05
    assert not list(Patience(pause=1).rounds(Deadline.after(0, "nothing")))
