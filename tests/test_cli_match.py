"""`regard match`: labels from a few examples, and one clear line for every wrong use."""

import json
from pathlib import Path

import pytest

from fewshot_folders import values, write_signs, write_splits
from regard.recipes import from_values, runner
from test_cli import Cli, assert_one_line, cli

__all__ = ["cli"]  # the fixture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signs")
    write_splits(folder)
    runner.train(from_values(values(folder, steps=2, validate_every=2), "test"), folder / "run")
    write_signs(folder / "examples", range(40, 43), 2)
    write_signs(folder / "queries", range(40, 42), 1)
    return folder


def test_each_picture_gets_a_line_with_all_probabilities(cli: Cli, folder: Path) -> None:
    called = cli("match", folder / "run", folder / "examples", folder / "queries")
    assert called.code == 0, called.err
    rows = [line.split("\t") for line in called.out.splitlines()]
    assert [row[2] for row in rows] == [str(folder / "queries" / f"sign{kind}" / "0.png") for kind in (40, 41)]
    for label, chance, _, ranked in rows:
        assert ranked.startswith(f"{label} {chance}  ")
        assert sorted(part.split(" ")[0] for part in ranked.split("  ")) == ["sign40", "sign41", "sign42"]


def test_json_says_everything(cli: Cli, folder: Path) -> None:
    query = folder / "queries" / "sign40" / "0.png"
    (record,) = map(
        json.loads, cli("match", folder / "run", folder / "examples", query, "--why", "--json").out.splitlines()
    )
    assert sum(record["probabilities"].values()) == pytest.approx(1.0)
    assert list(record["examples"])[:2] == ["sign40/0.png", "sign40/1.png"]
    assert 0 < sum(record["examples"].values()) < 1


def test_why_names_the_examples_below_the_label(cli: Cli, folder: Path) -> None:
    query = folder / "queries" / "sign40" / "0.png"
    lines = cli("match", folder / "run", folder / "examples", query, "--why").out.splitlines()
    assert len(lines) == 4
    assert all(line.strip().endswith(".png") for line in lines[1:])


@pytest.mark.parametrize("name", ["page.html", "match.svg", "match.png"])
def test_pages_show_all_pictures_and_figures_one(cli: Cli, folder: Path, tmp_path: Path, name: str) -> None:
    query = folder / "queries" / "sign40" / "0.png"
    called = cli("match", folder / "run", folder / "examples", query, "-o", tmp_path / name)
    assert called.code == 0, called.err
    assert (tmp_path / name).stat().st_size > 1000
    both = cli("match", folder / "run", folder / "examples", folder / "queries", "-o", tmp_path / f"all-{name}")
    if name == "page.html":
        assert (tmp_path / "all-page.html").read_text("utf-8").count("<figure>") == 2
    else:
        assert both.code == 2
        assert_one_line(both, "a figure shows one picture")


def test_a_broken_query_is_named_and_the_others_are_labelled(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no")
    query = folder / "queries" / "sign40" / "0.png"
    called = cli("match", folder / "run", folder / "examples", tmp_path / "broken.png", query)
    assert called.code == 0
    assert called.out.splitlines()[0] == f"\t\t{tmp_path / 'broken.png'}\t"
    assert called.out.splitlines()[1].startswith("sign4")
    assert "broken.png: not a readable picture" in called.err
    assert called.err.splitlines()[-1] == "regard: 1 of the 2 pictures could not be read"
    alone = cli("match", folder / "run", folder / "examples", tmp_path / "broken.png")
    assert alone.code == 1
    assert alone.err.splitlines()[-1] == "regard: none of the 1 pictures could be read"


def test_wrong_use_is_one_line(cli: Cli, folder: Path, tmp_path: Path) -> None:
    query = folder / "queries" / "sign40" / "0.png"
    write_signs(tmp_path / "many", range(40, 44), 1)
    write_signs(tmp_path / "hollow", range(40, 42), 1)
    (tmp_path / "hollow" / "zebra").mkdir()
    wrong = [
        ([tmp_path / "many", query], "4 labels, but this run tells apart 2 to 3"),
        ([tmp_path / "hollow", query], "zebra: no pictures"),
        ([tmp_path / "nowhere", query], "no such folder"),
        ([folder / "examples", "nowhere.png"], "nowhere.png: no such file"),
        ([folder / "examples", tmp_path / "hollow" / "zebra"], "say which pictures to label"),
        ([folder / "examples", query, "-o", "page.pdf"], "must end in .html, .svg or .png"),
    ]
    for arguments, part in wrong:
        called = cli("match", folder / "run", *arguments)
        assert called.code == 2, part
        assert_one_line(called, part)


def test_another_kind_of_run_has_no_match_and_a_matcher_has_no_look(cli: Cli, folder: Path) -> None:
    called = cli("look", folder / "run", "a")
    assert called.code == 2
    assert_one_line(called, "which has no 'look'")


def test_evaluate_knows_few_shot_runs(cli: Cli, folder: Path) -> None:
    record = json.loads(cli("evaluate", folder / "run", "--split", "valid", "--json").out)
    assert (record["ways"], record["shots"], record["split"]) == (3, 1, "valid")
