"""`regard classify`, `evaluate` and `look` on a small classifier of pictures."""

import json
from pathlib import Path

import pytest

from regard.recipes import from_values, runner
from tasks.test_classify_images import values, write_bars
from test_cli import Cli, assert_one_line, cli

__all__ = ["cli"]  # the fixture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bars")
    for seed, (split, count) in enumerate({"train": 40, "valid": 4, "test": 3}.items()):
        write_bars(folder / split, count, seed)
    runner.train(from_values(values(folder, steps=40, validate_every=40), "test"), folder / "run")
    return folder


def test_each_picture_gets_a_line_in_order(cli: Cli, folder: Path) -> None:
    one = folder / "test" / "across" / "1.png"
    called = cli("classify", folder / "run", one, folder / "test" / "down")
    assert called.code == 0, called.err
    rows = [line.split("\t") for line in called.out.splitlines()]
    assert [row[0] for row in rows] == ["across", "down", "down", "down"]
    assert rows[0][2] == str(one)
    assert 0.5 <= float(rows[0][1]) <= 1


def test_json_says_everything(cli: Cli, folder: Path) -> None:
    (record,) = map(json.loads, cli("classify", folder / "run", folder / "test/down/1.png", "--json").out.splitlines())
    assert record["label"] == "down"
    assert sum(record["probabilities"].values()) == pytest.approx(1.0)


def test_why_shows_the_patches_below_the_label(cli: Cli, folder: Path) -> None:
    out = cli("classify", folder / "run", folder / "test/down/1.png", "--why").out
    assert len(out.splitlines()) == 5  # the label and four rows of patches
    assert "█" in out
    assert "\x1b" not in out  # not a terminal


def test_a_broken_picture_is_said_and_its_line_has_no_label(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no")
    called = cli("classify", folder / "run", tmp_path / "broken.png", folder / "test/down/1.png")
    assert called.code == 0
    assert called.out.splitlines()[0] == f"\t\t{tmp_path / 'broken.png'}"
    assert called.out.splitlines()[1].startswith("down\t")
    named, counted = called.err.splitlines()
    assert "broken.png: not a readable picture" in named
    assert counted == "regard: 1 of the 2 pictures could not be read"
    alone = cli("classify", folder / "run", tmp_path / "broken.png")
    assert alone.code == 1
    assert alone.err.splitlines()[-1] == "regard: none of the 1 pictures could be read"


@pytest.mark.parametrize("name", ["page.html", "map.svg", "map.png"])
def test_pages_show_all_pictures_and_figures_one(cli: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    called = cli("classify", folder / "run", folder / "test/down/1.png", "-o", tmp_path / name)
    assert called.code == 0, called.err
    assert (tmp_path / name).stat().st_size > 1000
    both = cli("classify", folder / "run", folder / "test", "-o", tmp_path / f"all-{name}")
    if name == "page.html":
        assert (tmp_path / "all-page.html").read_text("utf-8").count("<figure>") == 6
    else:
        assert both.code == 2
        assert_one_line(both, "a figure shows one picture")


def test_look_and_evaluate_know_pictures(cli: Cli, folder: Path, tmp_path: Path) -> None:
    called = cli("look", folder / "run", folder / "test/down/1.png", "--layers", "0", "-o", tmp_path / "a.svg")
    assert called.code == 0, called.err
    assert called.out.startswith("down (")
    assert "layer 1, head 2" in (tmp_path / "a.svg").read_text("utf-8")
    assert "6 pictures" in cli("evaluate", folder / "run").out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "say which pictures to classify"),
        (["nowhere.png"], "nowhere.png: no such file"),
        (["empty"], "say which pictures to classify"),
    ],
)
def test_wrong_use_is_one_line(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    called = cli("classify", folder / "run", *arguments)
    assert called.code == 2
    assert_one_line(called, part)


def test_looking_at_a_picture_that_is_not_there_is_one_line(cli: Cli, folder: Path) -> None:
    called = cli("look", folder / "run", "nowhere.png")
    assert called.code == 2
    assert_one_line(called, "nowhere.png: no such file")
