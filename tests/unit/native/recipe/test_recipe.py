"""Recipes: what the form allows, what each mistake is told, and what a recipe means for one toolchain."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidData, UnknownName, UsageError
from native.build.ensure import choose_products
from native.build.plan import NO_DATE_FLAGS, explain_difference, make_plan
from native.programs import PROGRAMS
from native.recipe.recipe import list_recipes, load_recipe, recipe_for_model
from native.source.kinds import FolderSource, GithubArchive, PypiSdist, source_pin
from tests.support.build_parts import make_toolchain, small_recipe, write_recipe
from toolchains.arch import ARCHES, ARM32, ARM64, X86_64

LOG = """\
0.00.179.820 I system_info: n_threads = 2 (n_threads_batch = 2) / 2 | CPU : NEON = 1 | ARM_FMA = 1 | REPACK = 1 |
0.21.129.900 I common_perf_print:    sampling time =       8.55 ms
0.21.129.910 I common_perf_print:    samplers time =       4.10 ms /    40 tokens
0.21.129.915 I common_perf_print:        load time =    1400.25 ms
0.21.129.918 I common_perf_print: prompt eval time =    1724.21 ms /     8 tokens (  215.53 ms per token,     4.64 tokens per second)
0.21.130.037 I common_perf_print:        eval time =   15079.74 ms /    31 runs   (  486.44 ms per token,     2.06 tokens per second)
0.21.130.040 I common_perf_print:       total time =   16850.11 ms /    39 tokens
0.21.130.041 I common_perf_print: unaccounted time =      30.40 ms /   0.1 %      (total - sampling - prompt eval - eval) / (total)
0.21.130.042 I common_perf_print:    graphs reused =         30
"""


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_that_comes_with_ohforge_is_whole_and_bears_its_folders_name(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.folder == PROGRAMS / name
    for arch in ARCHES.values():
        for toolchain in ("zig", "ohos"):
            plan = make_plan(recipe, make_toolchain(arch, name=toolchain), "cmake 4")
            assert "{" not in "".join(plan.filled(plan.options.values(), Path("/tree")))


def test_a_recipe_is_found_by_its_file_and_by_its_folder(tmp_path: Path) -> None:
    file = write_recipe(tmp_path / "hello", small_recipe())
    by_file, by_folder = load_recipe(str(file)), load_recipe(str(file.parent))
    assert by_file == by_folder
    assert by_file.sources == (FolderSource(path=file.parent / "src"),)
    assert by_file.products[0].target == "hello"


def test_an_unknown_target_is_told_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="no target 'lama'; did you mean 'llama'"):
        load_recipe("lama")


def test_a_path_without_a_recipe_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no recipe"):
        load_recipe(str(tmp_path / "recipe.yaml"))


def test_models_of_a_kind_find_the_program_that_runs_them() -> None:
    assert recipe_for_model("gguf").name == "llama"
    with pytest.raises(UnknownName, match="'ggml'; did you mean 'gguf'"):
        recipe_for_model("ggml")


def test_llama_names_the_same_commit_in_both_sources() -> None:
    recipe = load_recipe("llama")
    sdist, github = recipe.sources
    assert isinstance(sdist, PypiSdist)
    assert isinstance(github, GithubArchive)
    assert github.ref == recipe.commit
    assert sdist.file == f"llama_cpp_python-{sdist.version}.tar.gz"


def _set(*keys: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(recipe: dict[str, Any]) -> None:
        place: Any = recipe
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return change


MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "unknown key": (_set("product", to=[]), "the file has the unknown key 'product'; did you mean 'products'"),
    "unknown key below": (
        _set("products", 0, "stripp", to=True),
        r"products\[0\] has the unknown key 'stripp'; did you mean 'strip'",
    ),
    "missing key": (lambda recipe: recipe.pop("version"), "the file lacks version"),
    "wrong type": (_set("products", to="hello"), "products: 'hello' is not of type 'array'"),
    "version as a number": (_set("version", to=1.10), "version: 1.1 is not of type 'string'"),
    "unknown build system": (_set("build", "system", to="cmak"), "build.system is 'cmak'; did you mean 'cmake'"),
    "unknown kind of source": (
        _set("sources", 0, "kind", to="pypi"),
        r"sources\[0\].kind is 'pypi'; did you mean 'pypi-sdist'",
    ),
    "source without a hash": (
        _set("sources", 0, to={"kind": "pypi-sdist", "project": "a", "version": "1", "file": "a-1.tar.gz"}),
        r"sources\[0\] lacks sha256",
    ),
    "short hash": (
        _set(
            "sources",
            0,
            to={"kind": "pypi-sdist", "project": "a", "version": "1", "file": "a-1.tar.gz", "sha256": "12ab"},
        ),
        r"sources\[0\].sha256 is '12ab'",
    ),
    "folder that is not there": (
        _set("sources", 0, "path", to="source"),
        r"sources\[0\].path: there is no folder .*/source",
    ),
    "path out of the tree": (_set("products", 0, "path", to="../hello"), r"products\[0\].path is '../hello', but must"),
    "absolute path": (_set("products", 0, "path", to="/bin/sh"), r"products\[0\].path is '/bin/sh', but must"),
    "added source that is not there": (
        _set("products", 0, "add_sources", to=["extra.c"]),
        r"products\[0\].add_sources: there is no file .*extra.c",
    ),
    "two products of one name": (
        lambda recipe: recipe["products"].append(dict(recipe["products"][0])),
        "products: 'hello' is there more than once",
    ),
    "two products in one file": (
        lambda recipe: recipe["products"].append({"name": "other", "path": "lib/hello", "kind": "file"}),
        "products: the file name 'hello' is there more than once",
    ),
    "unknown placeholder": (
        _set("rules", 0, "options", "GREETING", to="{verion}"),
        r"rules\[0\].options.GREETING: .*'verion'; did you mean 'version'",
    ),
    "unknown placeholder in a flag": (
        _set("rules", 0, to={"link_flags": ["-L{sysroot}"]}),
        r"rules\[0\].link_flags: .*'sysroot'",
    ),
    "unknown condition": (
        _set("rules", 0, "when", to={"architecture": "arm32"}),
        r"rules\[0\].when has the unknown key 'architecture'; did you mean 'arch'",
    ),
    "unknown arch in a condition": (
        _set("rules", 0, "when", to={"arch": ["arm32", "amr64"]}),
        r"rules\[0\].when.arch: .*'amr64'; did you mean 'arm64'",
    ),
    "unknown toolchain in a condition": (
        _set("rules", 0, "when", to={"toolchain": "ohso"}),
        r"rules\[0\].when.toolchain: .*'ohso'; did you mean 'ohos'",
    ),
    "run of no product": (
        _set("run", to=[{"model": "gguf", "product": "helo", "arguments": []}]),
        r"run\[0\].product: .*'helo'; did you mean 'hello'",
    ),
    "argument without a value": (
        _set("run", to=[{"model": "gguf", "product": "hello", "arguments": ["{tokens}"]}]),
        r"run\[0\].arguments: .*'tokens'",
    ),
    "pattern that is none": (
        _set("run", to=[{"model": "gguf", "product": "hello", "arguments": [], "complete": ["("]}]),
        r"run\[0\].complete\[0\]: '\(' is not a 'regex'",
    ),
    "metric without a unit": (
        _set(
            "run",
            to=[
                {
                    "model": "gguf",
                    "product": "hello",
                    "arguments": [],
                    "metrics": [{"pattern": "(?P<a>1)(?P<b>2)", "units": {"a": "ms"}}],
                }
            ],
        ),
        r"run\[0\].metrics\[0\]: the pattern's groups \(a, b\)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_file_and_key(mistake: str, tmp_path: Path) -> None:
    change, message = MISTAKES[mistake]
    recipe = small_recipe()
    change(recipe)
    file = write_recipe(tmp_path, recipe)
    with pytest.raises(InvalidData, match=message) as caught:
        load_recipe(str(file))
    assert re.match(rf"{re.escape(str(file))}, line \d+: ", caught.value.message)


def test_the_line_of_a_mistake_is_told(tmp_path: Path) -> None:
    file = write_recipe(tmp_path, small_recipe())
    lines = file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "GREETING" in line)
    lines[at] = lines[at].replace(lines[at].partition("GREETING: ")[2], "'{verion}'")
    file.write_text("\n".join(lines))
    with pytest.raises(InvalidData, match=rf"recipe\.yaml, line {at + 1}: rules\[0\].options.GREETING: "):
        load_recipe(str(file))


@pytest.mark.parametrize("content", ["name: [", "- just\n- a list\n", "", "\x00"])
def test_a_file_that_is_no_recipe_at_all_is_told_so(content: str, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(content)
    with pytest.raises(InvalidData, match=r"recipe\.yaml"):
        load_recipe(str(file))


def test_rules_add_up_and_the_later_one_wins(tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["rules"] = [
        {"options": {"SPEED": "slow", "LOUD": True}, "compile_flags": ["-Da"]},
        {"when": {"arch": ["arm32", "arm64"]}, "options": {"SPEED": "fast"}, "compile_flags": ["-Db"]},
        {"when": {"arch": "arm32", "toolchain": "ohos"}, "options": {"LOUD": False}, "link_flags": ["-Wl,-c"]},
    ]
    loaded = load_recipe(str(write_recipe(tmp_path, recipe)))

    def plan(arch: Any, toolchain: str) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
        made = make_plan(loaded, make_toolchain(arch, name=toolchain), "cmake 4")
        assert made.compile_flags[-len(NO_DATE_FLAGS) :] == NO_DATE_FLAGS
        return dict(made.options), made.compile_flags[: -len(NO_DATE_FLAGS)], made.link_flags

    assert plan(X86_64, "ohos") == ({"SPEED": "slow", "LOUD": "ON"}, ("-Da",), ())
    assert plan(ARM64, "ohos") == ({"SPEED": "fast", "LOUD": "ON"}, ("-Da", "-Db"), ())
    assert plan(ARM32, "zig") == ({"SPEED": "fast", "LOUD": "ON"}, ("-Da", "-Db"), ())
    assert plan(ARM32, "ohos") == ({"SPEED": "fast", "LOUD": "OFF"}, ("-Da", "-Db"), ("-Wl,-c",))


def test_the_key_depends_on_content_and_not_on_where_things_lie(tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["rules"] = [{"compile_flags": ["--include={recipe}/fix.h"]}]
    keys = []
    for place in ("one", "two"):
        file = write_recipe(tmp_path / place, recipe)
        (file.parent / "fix.h").write_text("#define FIXED 1\n")
        keys.append(make_plan(load_recipe(str(file)), make_toolchain(), "cmake 4").key)
    assert keys[0] == keys[1]
    (tmp_path / "two" / "fix.h").write_text("#define FIXED 2\n")
    changed = make_plan(load_recipe(str(tmp_path / "two")), make_toolchain(), "cmake 4")
    assert changed.key != keys[0]
    original = make_plan(load_recipe(str(tmp_path / "one")), make_toolchain(), "cmake 4")
    assert explain_difference(original.inputs, changed.inputs) == "changed beside the recipe: fix.h"


def test_how_a_program_is_run_does_not_change_what_is_built(tmp_path: Path) -> None:
    recipe = small_recipe()
    before = make_plan(load_recipe(str(write_recipe(tmp_path, recipe))), make_toolchain(), "cmake 4").key
    recipe["run"] = [{"model": "gguf", "product": "hello", "arguments": ["{model}"]}]
    after = make_plan(load_recipe(str(write_recipe(tmp_path, recipe))), make_toolchain(), "cmake 4").key
    assert before == after


def test_a_flag_that_names_a_missing_file_of_the_recipe_is_told(tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["rules"] = [{"compile_flags": ["--include={recipe}/gone.h"]}]
    loaded = load_recipe(str(write_recipe(tmp_path, recipe)))
    with pytest.raises(InvalidData, match=r"recipe\.yaml: a rule names .*gone\.h"):
        make_plan(loaded, make_toolchain(), "cmake 4")


def test_a_change_in_the_source_folder_changes_the_pin(tmp_path: Path) -> None:
    recipe = load_recipe(str(write_recipe(tmp_path, small_recipe())))
    before = source_pin(recipe)
    (tmp_path / "src" / "main.c").write_text("int main(void) { return 1; }\n")
    assert source_pin(recipe) != before


def test_llama_is_run_as_a_one_shot_with_a_fixed_seed() -> None:
    words = load_recipe("llama").run_for("gguf").command("/data/m.gguf", {"prompt": "a {b} c", "tokens": "7"})
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    assert words[-1] == "-no-cnv"
    assert pairs["-m"] == "/data/m.gguf"
    assert pairs["-p"] == "a {b} c"
    assert pairs["-n"] == "7"
    assert float(pairs["--temp"]) == 0
    assert "--seed" in pairs


def test_words_whose_value_is_empty_are_left_out() -> None:
    words = load_recipe("llama").run_for("gguf").command("m.gguf", {"prompt": "", "context": ""})
    assert "-p" not in words
    assert "-c" not in words
    assert "-n" in words


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"token": 3}, UnknownName, "no run parameter 'token'; did you mean 'tokens'"),
        ({"tokens": "many"}, UsageError, "tokens must be a whole number, not 'many'"),
        ({"temperature": "warm"}, UsageError, "temperature must be a number, not 'warm'"),
    ],
)
def test_a_wrong_run_parameter_is_told(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_recipe("llama").run_for("gguf").command("m.gguf", parameters)


def test_llamas_log_gives_its_numbers_with_units() -> None:
    spec = load_recipe("llama").run_for("gguf")
    metrics = {name: (metric.value, metric.unit) for name, metric in spec.read_metrics(LOG).items()}
    assert metrics == {
        "load_ms": (1400.25, "ms"),
        "prompt_ms": (1724.21, "ms"),
        "prompt_tokens": (8.0, "tokens"),
        "prompt_tokens_per_second": (4.64, "tokens/s"),
        "generation_ms": (15079.74, "ms"),
        "generation_runs": (31.0, "runs"),
        "generation_tokens_per_second": (2.06, "tokens/s"),
        "total_ms": (16850.11, "ms"),
        "total_tokens": (39.0, "tokens"),
    }
    assert spec.read_facts(LOG) == {"cpu_features": "CPU : NEON = 1 | ARM_FMA = 1 | REPACK = 1"}


def test_a_rate_that_is_no_number_is_no_metric() -> None:
    line = "common_perf_print: prompt eval time =  0.00 ms / 1 tokens ( 0.00 ms per token, inf tokens per second)"
    metrics = load_recipe("llama").run_for("gguf").read_metrics(line)
    assert "prompt_tokens_per_second" not in metrics
    assert metrics["prompt_tokens"].value == 1


def test_output_that_lost_its_last_lines_is_not_taken_for_whole() -> None:
    spec = load_recipe("llama").run_for("gguf")
    assert spec.missing_proof(LOG) == []
    assert len(spec.missing_proof(LOG.rsplit("\n", 2)[0])) == 1
    assert len(spec.missing_proof("Once upon a time there was")) == len(spec.complete)


def test_files_of_the_source_travel_with_a_program(tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["products"][0]["with"] = ["words.txt"]
    recipe["products"].append({"name": "words.txt", "path": "data/words-1.txt", "kind": "file", "from": "source"})
    loaded = load_recipe(str(write_recipe(tmp_path, recipe)))
    program, words = loaded.products
    assert (program.with_files, program.of_source) == (("words.txt",), False)
    assert (words.of_source, words.file, words.path) == (True, "words.txt", "data/words-1.txt")
    assert [spec.name for spec in choose_products(loaded, ["hello"])] == ["hello", "words.txt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[0].update({"from": "source"}), r"products\[0\]\.from: only a product of kind file"),
        (lambda p: p[0].update({"with": ["word.txt"]}), r"products\[0\]\.with: .*did you mean 'words.txt'"),
        (lambda p: p[0].update({"with": ["hello"]}), r"products\[0\]\.with: There is no product of kind file 'hello'"),
        (lambda p: p[1].update({"from": "nowhere"}), r"products\[1\]\.from is 'nowhere'"),
    ],
)
def test_wrong_words_about_files_are_named(change: Any, message: str, tmp_path: Path) -> None:
    recipe = small_recipe()
    recipe["products"].append({"name": "words.txt", "path": "words.txt", "kind": "file", "from": "source"})
    change(recipe["products"])
    with pytest.raises(InvalidData, match=message):
        load_recipe(str(write_recipe(tmp_path, recipe)))


def test_the_second_engine_is_data_alone() -> None:
    assert [path.name for path in (PROGRAMS / "whisper").iterdir()] == ["recipe.yaml"]
