"""`regard caption`: a line for every picture that can be read, a name for every other, and pages of what was seen."""

import json
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from regard.recipes import from_values, runner
from tasks.test_caption import SMALL, caption_values, region_values, write_pictures
from test_cli import Cli, assert_one_line, cli

__all__ = ["cli"]  # the fixture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("discs")
    for seed, (split, count) in enumerate({"train": 12, "valid": 3, "test": 3}.items()):
        write_pictures(folder / split, count, seed)
    runner.train(from_values(region_values(folder, steps=2), "test"), folder / "regions")
    for name, family, model in (
        ("run", "attend-tell", SMALL),
        ("blind", "show-tell", dict(embedding_size=8, size=8)),
    ):
        runner.train(from_values(caption_values(folder, family, model, steps=3), "test"), folder / name)
    return folder


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.fixture
def mixed(folder: Path, tmp_path: Path) -> Path:
    """Two good pictures among everything a folder may hold."""
    place = tmp_path / "mixed"
    place.mkdir()
    good = (folder / "test" / "0.png").read_bytes()
    (place / "good.png").write_bytes(good)
    Image.open(folder / "test" / "1.png").save(place / "good.jpg")
    (place / "broken.jpg").write_bytes((place / "good.jpg").read_bytes()[:300])
    Image.new("RGB", (1, 1), (9, 9, 9)).save(place / "one.png")
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0))
    (place / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))))
    (place / "text.jpg").write_text("dear diary")
    (place / "notes.txt").write_text("not a picture, and not named like one")
    return place


def test_good_pictures_are_captioned_and_others_are_named_and_counted(cli: Cli, folder: Path, mixed: Path) -> None:
    called = cli("caption", folder / "run", mixed)
    assert called.code == 0
    lines = [line.split("\t") for line in called.out.splitlines()]
    assert [Path(line[2]).name for line in lines] == ["good.jpg", "good.png", "one.png"]
    assert all(float(line[1]) < 0 for line in lines)
    for name, part in (("broken.jpg", "not a readable"), ("bomb.png", "pixels"), ("text.jpg", "of no known kind")):
        assert any(name in line and part in line for line in called.err.splitlines()), called.err
    assert called.err.splitlines()[-1] == "regard: 3 of the 6 pictures could not be read"
    assert "Traceback" not in called.err
    alone = cli("caption", folder / "run", mixed / "broken.jpg", "-o", mixed / "page.html")
    assert (alone.code, alone.out, (mixed / "page.html").exists()) == (1, "", False)
    assert alone.err.splitlines()[-1] == "regard: none of the 1 pictures could be read"


def test_json_says_where_every_word_looked(cli: Cli, folder: Path) -> None:
    called = cli("caption", folder / "run", folder / "test", "--json", "--nbest", "2")
    assert called.code == 0, called.err
    records = list(map(json.loads, called.out.splitlines()))
    assert len(records) == 6
    assert records[0]["image"] == records[1]["image"]
    assert records[0]["score"] >= records[1]["score"]
    for record in records:
        assert record["grid"] == [2, 2]
        assert " ".join(word["word"] for word in record["words"]) == record["text"]


@pytest.mark.parametrize("name", ["page.html", "map.svg", "map.png"])
def test_pages_show_all_pictures_and_figures_one(cli: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    called = cli("caption", folder / "run", folder / "test" / "0.png", "-o", tmp_path / name)
    assert called.code == 0, called.err
    assert (tmp_path / name).stat().st_size > 1000
    both = cli("caption", folder / "run", folder / "test", "-o", tmp_path / f"all-{name}")
    if name == "page.html":
        assert (tmp_path / "all-page.html").read_text("utf-8").count("<figure>") == 3
    else:
        assert both.code == 2
        assert_one_line(both, "a figure shows one picture")


@pytest.mark.parametrize(
    ("run", "arguments", "code", "part"),
    [
        ("run", ["nowhere.png"], 2, "nowhere.png: no such file"),
        ("run", ["empty"], 2, "there are no pictures"),
        ("run", ["picture.png", "-o", "a.jpg"], 2, "must end in .html, .svg or .png"),
        ("blind", ["picture.png", "-o", "a.svg"], 2, "ShowTell has no attention"),
        ("regions", ["picture.png"], 2, "has no 'caption'"),
    ],
)
def test_wrong_use_is_one_line(
    cli: Cli,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: str,
    arguments: list[str],
    code: int,
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("picture.png").write_bytes((folder / "test" / "0.png").read_bytes())
    called = cli("caption", folder / run, *arguments)
    assert called.code == code
    assert_one_line(called, part)


def test_evaluate_and_look_know_captions(cli: Cli, folder: Path, tmp_path: Path) -> None:
    assert "CIDEr-D" in cli("evaluate", folder / "run").out
    assert "mean average precision" in cli("evaluate", folder / "regions").out
    called = cli("look", folder / "run", folder / "test/0.png", "--target", "a red disc", "-o", tmp_path / "a.svg")
    assert called.code == 0, called.err
    assert called.out.startswith("a red disc")
