"""Descriptions of networks for the program nnrt: YAML and JSON, and everything that can be wrong with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InvalidData, UsageError
from core.session import Session
from deploy.launch import launch
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from native.models.networks import SCHEMA_FILE, prepare_network
from native.programs import PROGRAMS

EXAMPLES = PROGRAMS / "nnrt" / "examples"
TEXT = (EXAMPLES / "conv_relu_softmax.yaml").read_text(encoding="utf-8")


def described(folder: Path, text: str | bytes, name: str = "net.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read_back(folder: Path, text: str, name: str = "net.yaml") -> dict[str, object]:
    made = prepare_network(described(folder, text, name), folder / "made")
    assert made.name == f"{Path(name).stem}.json"
    value: dict[str, object] = json.loads(made.read_text(encoding="utf-8"))
    return value


def test_the_example_says_the_same_in_yaml_and_in_json(tmp_path: Path) -> None:
    example = (EXAMPLES / "conv_relu_softmax.json").read_text(encoding="utf-8")
    assert read_back(tmp_path, TEXT) == read_back(tmp_path, example, "net.json") == json.loads(example)
    assert read_back(tmp_path, TEXT, "net.YML") == json.loads(example)


def test_numbers_with_an_exponent_are_numbers_whatever_yaml_1_1_says(tmp_path: Path) -> None:
    content = read_back(tmp_path, TEXT.replace("[0.1, -0.2, 0.3, 0]", "[1e-3, -2E2, +.5e1, 4.e0]"))
    assert content["layers"][0]["bias"]["values"] == [0.001, -200.0, 5.0, 4.0]  # type: ignore[index]


def test_two_descriptions_of_one_name_do_not_take_each_others_place(tmp_path: Path) -> None:
    first = prepare_network(described(tmp_path, TEXT), tmp_path / "made")
    before = first.read_bytes()
    second = prepare_network(described(tmp_path, TEXT.replace("seed: 7", "seed: 8")), tmp_path / "made")
    assert (second.name, second != first, first.read_bytes()) == (first.name, True, before)


def test_the_schema_knows_the_layers_that_the_program_knows() -> None:
    source = (PROGRAMS / "nnrt" / "src" / "network.cpp").read_text(encoding="utf-8")
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    layer = schema["$defs"]["layer"]
    known = re.findall(r'\{"(\w+)", OH_NN_OPS_\w+\}', source)
    assert sorted(layer["properties"]["op"]["enum"]) == sorted(known)
    # Every kind has a rule for its keys, so that none is passed over in silence.
    kinds = [rule["if"]["properties"]["op"] for rule in layer["allOf"]]
    assert sorted(name for kind in kinds for name in kind.get("enum", [kind.get("const")])) == sorted(known)
    assert all(rule["then"]["additionalProperties"] is False for rule in layer["allOf"])


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("op: relu,", "op: rleu,", 15, "layers[1].op is 'rleu'; did you mean 'relu'?"),
        ("strides:", "stride:", 7, "layers[0] has the unknown key 'stride'; did you mean 'strides'?"),
        ("axis: -1", "axes: -1", 16, "layers[2] has the unknown key 'axes'"),
        ("    bias: {", "    # {", 7, "layers[0] lacks bias"),
        ("outputs: [probabilities]", "", 3, "the file lacks outputs"),
        ("[4, 3, 3, 3]", "[4, 0, 3, 3]", 10, "layers[0].weights.shape[1]: 0 is less than"),
        ("[4, 3, 3, 3]", "[4, 1.5, 3, 3]", 10, "1.5 is not of type 'integer'"),
        ("seed: 11", "seed: -1", 10, "layers[0].weights.seed: -1 is less than"),
        ("strides: [2, 2]", "strides: [2]", 12, "layers[0].strides: [2] is too short"),
        ("padding: same", "padding: reflect", 13, "layers[0].padding is 'reflect'; known: same, valid"),
        ("0.3, 0]", "0.3]", 11, "bias has 3 values, but its shape 4 needs 4"),
        ("0.3, 0]", "0.3, .nan]", 11, "bias has a value that is not a number (NaN)"),
        ("0.3, 0]", "0.3, .inf]", 11, "inf is greater than"),
        ("0.3, 0]", "0.3, 1e99]", 11, "1e+99 is greater than"),
        ("0.3, 0]", "0.3, x]", 11, "'x' is not of type 'number'"),
        ("0.3, 0]", "0.3, 0], seed: 3", 11, "bias has values and a seed"),
        ("name: positive", "name: on", 15, "layers[1].name: True is not of type 'string'"),
        ("name: positive", "name: features", 15, "The name 'features' is given twice"),
        ("name: positive", 'name: "a\\nb"', 15, "does not have the form"),
        ("input: features", "input: feature", 15, "nothing before it has that name; did you mean 'features'?"),
        ("input: features", "input: probabilities", 15, "positive takes 'probabilities', but nothing before it"),
        ("outputs: [probabilities]", "outputs: [image]", 18, "The output 'image' is none of the layers"),
        ("op: relu,", "op: add, other: imago,", 15, "takes 'imago'"),
        ("op: relu,", "op: add, other: {shape: [2], values: [1]},", 15, "other has 1 values, but its shape 2 needs 2"),
        ("op: relu,", "op: add, other: [1],", 15, "[1] is not of type 'string', 'object'"),
        ("seed: 11", "seed: 11, seed: 12", 10, "the key 'seed' is there twice"),
        ("- op: conv2d", "  op: conv2d", 15, "is not YAML"),
        ("padding: same", "padding: &same same\n    activation: *same", 14, "aliases (*name) are not taken"),
        ("padding: same", "padding: !!python/name:os.system x", 13, "tags (!name) are not taken"),
        ("padding: same", "padding: !!timestamp x", 13, "tags (!name) are not taken"),
        ("padding: same", "? [1]\n    : 2", 13, "a key must be text"),
    ],
)
def test_what_is_wrong_in_a_description_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, sentence: str
) -> None:
    assert TEXT.count(old) >= 1
    path = described(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(InvalidData) as caught:
        prepare_network(path, tmp_path / "made")
    assert caught.value.message.startswith(str(path))
    assert sentence in caught.value.message
    assert f"line {line}:" in caught.value.message
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("net.yaml", b"", "None is not of type 'object'"),
        ("net.yaml", b"- 1\n", "is not of type 'object'"),
        ("net.yaml", b"\xff\xfe", "is not YAML: 'utf-8' codec can't decode"),
        ("net.yaml", b"a: \0", "is not YAML: unacceptable character"),
        ("net.yaml", b"[" * 3000, "nested too deeply"),
        ("net.yaml", b"a: 1\n---\nb: 2\n", "is not YAML: line 2"),
        ("net.json", b"", "is not JSON: Expecting value: line 1"),
        ("net.json", b'{"inputs": [}', "is not JSON: Expecting value: line 1 column 13"),
        ("net.json", b'{"a": 1, "a": 2}', "is not JSON: the key 'a' is there twice"),
        ("net.json", b"[" * 100_000, "nested too deeply"),
        ("net.json", b'{"inputs": [], "layers": [], "outputs": []}', "[] should be non-empty"),
        ("net.json", b'{"inputs": [{"name": "\\ud800", "shape": [1]}], "layers": [], "outputs": []}', "have the form"),
        ("net.json", TEXT.encode(), "is not JSON"),
        ("net", TEXT.encode(), "is not JSON"),
    ],
)
def test_what_is_no_description_is_refused(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    if b"ud800" in content:
        layer = b'{"op": "relu", "name": "y", "input": "x"}'
        content = content.replace(b'"layers": []', b'"layers": [' + layer + b"]").replace(b'puts": []', b'puts": ["y"]')
    with pytest.raises(InvalidData, match=re.escape(sentence)):
        prepare_network(described(tmp_path, content, name), tmp_path / "made")


FRAGMENTS = [
    *(
        "!!bool x",
        "!!int ''",
        "!!timestamp x",
        "&a",
        "*a",
        "<<: {a: 1}",
        "? ",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "|",
        ">",
        "%",
        "@",
    ),
    *(
        "2020-13-45",
        "190:20:30",
        "0x1F",
        "1e999",
        "-.inf",
        ".nan",
        "~",
        "=",
        "yes",
        "'",
        '"',
        '"\\ud800"',
        "\\",
        "#",
        ",",
    ),
    *("\t", "\n", "\n  ", "\n---\n", "\n...\n", "\0", "\x85", "\u2028", "\ufeff", "1" * 5000, "[" * 400, "name: x\n"),
]


@settings(max_examples=400)
@given(
    ending=st.sampled_from(["yaml", "json"]),
    changes=st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 12), st.sampled_from(FRAGMENTS) | st.text()), max_size=4
    ),
)
def test_whatever_is_done_to_a_description_it_is_taken_or_refused_with_a_sentence(
    tmp_path: Path, ending: str, changes: list[tuple[int, int, str]]
) -> None:
    text = (EXAMPLES / f"conv_relu_softmax.{ending}").read_text(encoding="utf-8")
    for at, removed, put in changes:
        at %= len(text) + 1
        text = text[:at] + put + text[at + removed :]
    path = described(tmp_path, text.encode("utf-8", "surrogatepass"), f"net.{ending}")
    try:
        made = prepare_network(path, tmp_path / "made")
    except InvalidData as error:
        assert error.message.startswith(str(path))
    else:
        assert set(json.loads(made.read_text(encoding="utf-8"))) == {"inputs", "layers", "outputs"}


def test_a_description_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises(UsageError, match="There is no description"):
            prepare_network(path, tmp_path / "made")
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    with pytest.raises(InvalidData, match="larger than"):
        prepare_network(large, tmp_path / "made")


def test_a_wrong_description_is_found_before_a_board_is_looked_for(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "choose_board", lambda *_: pytest.fail("a board was looked for"))
    wrong = str(described(tmp_path, TEXT.replace("op: relu", "op: rleu")))
    with pytest.raises(InvalidData, match="rleu"):
        run_program(session, LaunchRequest(program="nnrt", given={"net": wrong}))
    with pytest.raises(UsageError, match="--net is not for --program llama-bench"):
        run_program(session, LaunchRequest(program="llama-bench", given={"net": wrong}))
