"""What is read from a dry run of an install step."""

from __future__ import annotations

from pathlib import Path

import pytest

from native.build.make import find_place_outside

TREE = Path("/builds/x/tree")
STAGING = TREE / "staging"
COPIES = f"install -m644 libx.a {STAGING}/usr/local/lib\n"


@pytest.mark.parametrize(
    ("told", "inside"),
    {
        "copies": (COPIES, True),
        "an install step that heeds no DESTDIR": ("install -m644 libx.a /usr/local/lib\n", False),
        "one that heeds it in part": (f"{COPIES}install x.h /usr/local/include\n", False),
        "one that writes a path into a file": (f"{COPIES}echo 'libdir='/usr/local/lib > \"{STAGING}/x.pc\"\n", True),
        "one that tells what it does": (f"{COPIES}echo 'into /opt/x, as you like'\n", True),
        "one that prints into a file elsewhere": (f"{COPIES}echo libdir=/x > /usr/local/lib/x.pc\n", False),
        "one that prints and then does": (f"{COPIES}echo done; ldconfig /etc/ld.so.conf\n", False),
        "one that writes a path by sed": (f"{COPIES}sed -e 's|@prefix@|/usr/local|g' x.pc.in > {STAGING}/x.pc\n", True),
        "one that does so without quotes": (f"{COPIES}sed s:@prefix@:/usr/local: x.pc.in > {STAGING}/x.pc\n", True),
        "one that writes by sed elsewhere": (f"{COPIES}sed 's|@p@|/x|' x.pc.in > /usr/local/lib/x.pc\n", False),
        "one that changes a file elsewhere by sed": (f"{COPIES}sed -i 's|a|b|' /etc/ld.so.conf\n", False),
        "nothing": ("", False),
    }.values(),
)
def test_an_install_step_is_done_when_it_writes_nothing_outside_of_destdir(told: str, inside: bool) -> None:
    assert (find_place_outside(told, STAGING, TREE) == "") == inside


def test_the_command_that_names_a_place_outside_is_shown() -> None:
    told = f"{COPIES}install -m644   x.h /usr/local/include\nldconfig\n"
    assert find_place_outside(told, STAGING, TREE).endswith("outside of DESTDIR: install -m644 x.h /usr/local/include")
