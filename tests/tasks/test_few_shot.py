"""Few-shot learning from folders of signs to a run, its scores, its verb, and back after an interruption."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from fewshot_folders import sign, values, write_signs, write_splits
from regard.data.episodes_fewshot import HELD_OUT, EpisodeDraws, Shape
from regard.data.images import ImageSet
from regard.errors import RegardError, UsageError
from regard.recipes import from_values, load_recipe, runner
from regard.tasks.matcher import Matcher, labelled_folder
from regard.training.run import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signs")
    write_splits(folder)
    (folder / "train" / "sign3" / "broken.png").write_bytes(b"not a picture")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    settings = dict(steps=110, batch_tokens=192, learning_rate=8e-3, validate_every=110)
    trained, _ = runner.train(from_values(values(folder, **settings), "test"), folder / "run")
    return trained.folder


@pytest.fixture(scope="module")
def matcher(run: Path) -> Matcher:
    loaded = regard.load(run)
    assert isinstance(loaded, Matcher)
    return loaded


def some_signs(kinds: tuple[int, ...] = (40, 41, 42), count: int = 1) -> dict[str, list[Any]]:
    return {f"sign{kind}": [sign(kind, number) for number in range(count)] for kind in kinds}


def test_it_learns_to_compare_signs_it_never_saw(run: Path) -> None:
    scores = runner.evaluate(run)
    assert scores.accuracy > 0.6  # chance: one third
    low, high = scores.accuracy_interval
    assert low < scores.accuracy < high
    assert (scores.ways, scores.shots, scores.episodes) == (3, 1, 1000)
    assert "3-way 1-shot: accuracy" in scores.told()
    assert not (run / "data" / "test").exists()  # an evaluation leaves nothing behind


def test_the_log_names_the_broken_picture(run: Path) -> None:
    log = (run / "train.log").read_text("utf-8")
    assert "broken.png: not a readable picture" in log
    assert "train: 24 classes, 120 kept, 1 unreadable" in log


def test_a_query_gets_the_label_of_its_like(matcher: Matcher) -> None:
    examples = matcher.examples(some_signs(count=2))
    queries = [sign(kind, 7) for kind in (40, 41, 42) for _ in range(1)]
    results = matcher.match(examples, queries)
    assert [result.name for result in results] == ["picture 1", "picture 2", "picture 3"]
    for result in results:
        assert sum(result.probabilities.values()) == pytest.approx(1.0)
        assert result.probability == max(result.probabilities.values())
    assert sum(result.label == f"sign{kind}" for result, kind in zip(results, (40, 41, 42), strict=True)) >= 2


def test_company_changes_no_result(matcher: Matcher) -> None:
    examples, queries = matcher.examples(some_signs()), [sign(kind, 8) for kind in (40, 41, 42, 43)]
    together = matcher.match(examples, queries)
    for query, result in zip(queries, together, strict=True):
        (alone,) = matcher.match(some_signs(), query)
        assert alone.probabilities == pytest.approx(result.probabilities, abs=1e-5)


@pytest.mark.parametrize("counts", [(1, 3, 1), (5, 1, 2), (1, 1), (4, 2)])
def test_any_number_of_examples_and_labels_is_defined(matcher: Matcher, counts: tuple[int, ...]) -> None:
    examples = {f"label {number}": [sign(50 + number, each) for each in range(n)] for number, n in enumerate(counts)}
    (result,) = matcher.match(examples, sign(50, 9))
    assert list(result.probabilities) == list(examples)
    assert sum(result.probabilities.values()) == pytest.approx(1.0)
    assert result.attention.weights.shape == (2, sum(counts) + 1)
    np.testing.assert_allclose(result.attention.weights.sum(1), 1.0, atol=1e-5)


def test_examples_of_a_label_take_turns(matcher: Matcher) -> None:
    examples = matcher.examples({"a": [sign(50, each) for each in range(5)], "b": [sign(51, 0)], "c": [sign(52, 0)]})
    shown, numbers = matcher._rounds(examples, 8)
    times = np.bincount(shown.ravel(), minlength=7)
    assert sorted(times[:5]) == [1, 1, 2, 2, 2]
    assert times[5:].tolist() == [8, 8]
    assert all(sorted(row) == [0, 1, 2] for row in numbers.tolist())


def test_more_examples_than_it_learnt_with_are_matched_in_rounds(matcher: Matcher, run: Path) -> None:
    images = ImageSet(run / "data" / "valid")
    one, three = matcher.evaluate(images, "valid", 200), matcher.evaluate(images, "valid", 200, shots=3)
    assert (one.shots, three.shots) == (1, 3)
    assert three.accuracy > one.accuracy
    assert three.nll < one.nll
    right = []
    for number in range(2):  # by hand: each episode as somebody would type it
        drawn = EpisodeDraws(images.labels, Shape(3, 3)).draw(HELD_OUT["valid"], number, 1)
        pixels = images.batch(np.concatenate([drawn.examples[0], drawn.queries[0]]))[0].numpy()[:, 0]
        by_label = {str(label): list(pixels[:9][drawn.labels[0] == label]) for label in range(3)}
        said = [int(known.label) for known in matcher.match(by_label, list(pixels[9:]))]
        right.append(np.mean(said == drawn.answers[0]))
    assert matcher.evaluate(images, "valid", 2, shots=3).accuracy == pytest.approx(np.mean(right))


@pytest.mark.parametrize("shots", [None, 2])
def test_one_episode_says_nothing_of_the_spread(matcher: Matcher, run: Path, shots: int | None) -> None:
    images = ImageSet(run / "data" / "valid")
    scores = matcher.evaluate(images, "valid", 1, shots=shots)
    assert scores.accuracy_interval == (0.0, 1.0)
    assert "[0.00, 100.00]" in scores.told()
    low, high = matcher.evaluate(images, "valid", 20, shots=shots).accuracy_interval
    assert 0 <= low < high <= 1
    assert high - low < 1
    with pytest.raises(UsageError, match=r"^episodes is 0 but must be at least 1"):
        matcher.evaluate(images, "valid", 0, shots=shots)


def test_looking_does_not_change_what_is_said(matcher: Matcher) -> None:
    (result,) = matcher.match(some_signs(), sign(41, 3))
    seen = result.attention
    assert (seen.label, seen.probability) == (result.label, result.probability)
    assert seen.labels == ["sign40", "sign41", "sign42"]
    assert "&lt;img" in result._repr_html_()


@pytest.mark.parametrize(
    ("examples", "error", "told"),
    [
        ({"a": [sign(1, 1)]}, UsageError, "1 labels, but this run tells apart 2 to 3"),
        (some_signs((1, 2, 3, 4)), UsageError, "4 labels, but this run tells apart 2 to 3"),
        ({"a": [sign(1, 1)], "b": []}, RegardError, "no example of 'b': it has no picture"),
    ],
)
def test_examples_that_cannot_be_used_are_refused(
    matcher: Matcher, examples: Any, error: type[RegardError], told: str
) -> None:
    with pytest.raises(error, match=told):
        matcher.match(examples, sign(1, 2))


def test_a_broken_picture_is_heard_of_and_left_out(matcher: Matcher, tmp_path: Path) -> None:
    write_signs(tmp_path, range(60, 62), 2)
    (tmp_path / "sign60" / "1.png").write_bytes(b"no")
    heard: list[str] = []
    query = tmp_path / "query.png"
    query.write_bytes(b"no")
    results = matcher.match(tmp_path, [query, sign(60, 5)], unreadable=lambda error: heard.append(str(error)))
    assert [bool(result.label) for result in results] == [False, True]
    assert ["1.png" in heard[0], "query.png" in heard[1]] == [True, True]
    assert len(results[1].attention.labels) == 3
    with pytest.raises(UsageError, match="nothing to look at"):
        matcher.why(results[0])
    with pytest.raises(RegardError, match=r"1.png: not a readable picture"):
        matcher.match(tmp_path, sign(60, 5))
    (tmp_path / "sign60" / "0.png").write_bytes(b"no")
    with pytest.raises(RegardError, match="no example of 'sign60': none of its 2 pictures can be read"):
        matcher.match(tmp_path, sign(60, 5), unreadable=lambda error: None)


def test_an_empty_label_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(UsageError, match=r"/a: no pictures"):
        labelled_folder(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        labelled_folder(tmp_path / "nowhere")


def test_a_saved_matcher_says_the_same(matcher: Matcher, tmp_path: Path) -> None:
    matcher.save_pretrained(tmp_path / "saved")
    again = regard.load(tmp_path / "saved")
    assert again.preprocessing == matcher.preprocessing
    (before,), (after,) = (each.match(some_signs(), sign(42, 4)) for each in (matcher, again))
    assert before.probabilities == after.probabilities


def test_interrupted_and_resumed_is_bitwise_the_uninterrupted(folder: Path, tmp_path: Path) -> None:
    class Stop:
        def stepped(self, progress: Any, record: dict[str, float]) -> None:
            if progress.step == 3:
                signal.raise_signal(signal.SIGINT)

    recipe = from_values(values(folder, steps=5, validate_every=5), "test")
    runner.train(recipe, tmp_path / "whole")
    _, outcome = runner.train(recipe, tmp_path / "parts", watcher=Stop())
    assert outcome.reason == "stopped"
    runner.resume(tmp_path / "parts")
    whole, parts = (
        regard.load(tmp_path / name / "checkpoints" / "last").model.state_dict() for name in ("whole", "parts")
    )
    for name, tensor in whole.items():
        assert torch.equal(parts[name], tensor), name


def test_coloured_pictures_are_taken_as_they_are(folder: Path, tmp_path: Path) -> None:
    recipe = values(folder, steps=1)
    recipe["data"] |= {"drawings": False, "mean": [0.5], "std": [0.5]}
    recipe["model"] |= {"channels": 3}
    runner.train(from_values(recipe, "test"), tmp_path / "run")
    red = Image.new("RGB", (9, 9), (255, 0, 0))
    pixels = regard.load(tmp_path / "run").preprocessing.pixels(red)
    assert (pixels[0] == 255).all()
    assert (pixels[1:] == 0).all()


@pytest.mark.parametrize(
    ("section", "changes", "told"),
    [
        ("data", {"ways": 1}, "cannot have 1 ways"),
        ("data", {"ways": 7, "rotations": False}, "an episode of 7 classes with 2 pictures each cannot be drawn"),
        ("data", {"shots": 9}, "0 of 24 classes have so many pictures"),
        ("data", {"valid": None}, "no folder for the valid split"),
        ("data", {"name": "omniglot"}, "both the data set 'omniglot' and a folder"),
        ("model", {"channels": 3}, "set data.drawings=false"),
        ("model", {"preset": "vit:grey28"}, "read by a snail, not by a vit"),
        ("model", {"blocks": ["tc"]}, "write att KEYS VALUES"),
    ],
)
def test_wrong_sections_are_refused_and_leave_no_folder(
    folder: Path, tmp_path: Path, section: str, changes: dict[str, Any], told: str
) -> None:
    recipe = values(folder, steps=1)
    recipe[section] |= changes
    with pytest.raises(UsageError, match=told):
        runner.train(from_values(recipe, "test"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_class_in_two_splits_is_refused(folder: Path, tmp_path: Path) -> None:
    recipe = values(folder)
    recipe["data"]["valid"] = recipe["data"]["train"]
    with pytest.raises(UsageError, match="the class 'sign0' is in both"):
        runner.train(from_values(recipe, "test"), tmp_path / "run")


@pytest.mark.real_data
def test_the_recipe_trains_on_the_real_set(real_data: Path, tmp_path: Path) -> None:
    small = ["model.filters=4", "model.blocks=[att 4 4, tc 4]", "training.steps=1", "training.batch_tokens=40"]
    run, _ = runner.train(load_recipe("omniglot-snail", small), tmp_path / "run", real_data)
    assert "train: 1100 classes, 22000 kept" in (Run.open(run.folder).folder / "train.log").read_text("utf-8")
