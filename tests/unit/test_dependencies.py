"""What pyproject.toml declares is what the code imports, and the other way round."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions

from core.session import PROJECT

PRODUCT = ("core", "toolchains", "native", "deploy", "bench", "commands")
TESTS = ("tests", "scripts", "benchmarks")
OWN = {*PRODUCT, *TESTS, "tasks", *(path.stem for path in (PROJECT / "scripts").glob("*.py"))}

RUN_AS_PROGRAMS = {
    "meson": "builds users' projects",
    "ziglang": "is the host toolchain zig",
}
TEST_TOOLS = {
    "import-linter": "`lint-imports` of `make lint`",
    "mypy": "`make lint`",
    "ruff": "`make lint`",
    "pytest-rerunfailures": "an option of `make test`",
    "pytest-timeout": "the setting `timeout` of pytest",
    "pytest-xdist": "an option of `make test`",
    "hdctool": "somebody else's hdc client, by `pytest.importorskip`",
    "types-pyyaml": "types for mypy",
    "types-requests": "types for mypy",
    "types-paramiko": "types for mypy",
    "types-jsonschema": "types for mypy",
}
NOT_DECLARED = {
    "hatchling": "is there while the editable install is made",
    "mindspore_lite": "made by a person with the real converter: tests/support/convert_mobilenet.py",
    "onnx": "made by a person with the real converter: tests/support/convert_mobilenet.py",
    "typing_extensions": "types for mypy, which brings it along",
}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: Iterable[str]) -> set[str]:
    return {normalised(re.split(r"[><=!~;\[ ]", requirement)[0]) for requirement in requirements}


def imported(folders: Iterable[str]) -> set[str]:
    """The distributions of all modules that are imported below `folders`, ours and Python's own left out."""
    modules: set[str] = set()
    for file in (file for folder in folders for file in (PROJECT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules.add(str(node.module).partition(".")[0])
    distributions = packages_distributions()
    foreign = modules - OWN - set(sys.stdlib_module_names) - set(NOT_DECLARED)
    return {
        normalised(distributions[module][0]) if module in distributions else normalised(module) for module in foreign
    }


PROJECT_TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
NEEDED = declared(PROJECT_TABLE["dependencies"])
NEEDED_BY_TESTS = declared(PROJECT_TABLE["optional-dependencies"]["test"])
EXTRAS = {"math-verify": {"math-verify"}, "spread": {"distributed"}, "lab": {"labgrid", "grpcio", "attrs"}}
"""What a user installs for one flag of one task, or for one kind of board, and the distributions that bring it."""
FOR_A_TASK = set().union(*EXTRAS.values())


def test_the_product_imports_what_is_declared_and_nothing_else() -> None:
    assert imported(PRODUCT) == NEEDED - set(RUN_AS_PROGRAMS) | FOR_A_TASK


def test_the_tests_import_what_is_declared_for_them_and_what_the_product_has() -> None:
    used = imported(TESTS)
    assert used - NEEDED == NEEDED_BY_TESTS - set(TEST_TOOLS)


def test_no_name_stands_on_a_list_of_exceptions_for_nothing() -> None:
    assert set(RUN_AS_PROGRAMS) <= NEEDED
    assert set(TEST_TOOLS) <= NEEDED_BY_TESTS
    assert set(PROJECT_TABLE["optional-dependencies"]) == {"test", *EXTRAS}
    for name, needed in EXTRAS.items():
        assert declared(PROJECT_TABLE["optional-dependencies"][name]) == needed
