"""Image classification from folders of pictures to a run, its scores, its verbs, and back after an interruption."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.data.batching import Place
from regard.errors import RegardError, UsageError
from regard.looking import draw
from regard.recipes import from_values, load_recipe, runner
from regard.recipes.jobs import classify_images as job
from regard.tasks.image_classifier import ImageClassifier
from regard.training.run import Run

BARS = ("across", "down")


def bar(kind: str, draw: np.random.Generator) -> np.ndarray:
    """A bright bar on dark noise, lying or standing, somewhere."""
    image = draw.integers(0, 60, (9, 9), dtype=np.uint8)
    place = draw.integers(1, 7)
    image[place : place + 2] = 230
    return image if kind == "across" else image.T


def write_bars(folder: Path, count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    for kind in BARS:
        (folder / kind).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(bar(kind, draw)).save(folder / kind / f"{number}.png")


def values(folder: Path, **training: Any) -> dict[str, Any]:
    return {
        "task": "classify-images",
        "data": {**{split: str(folder / split) for split in ("train", "valid", "test")}, "augment": {"shift": 1}},
        "model": {
            "preset": "vit:grey28",
            **dict(image_size=8, patch_size=2, size=16, hidden_size=32, heads=2, layers=2),
        },
        "training": {
            **dict(steps=60, batch_tokens=17 * 16, warmup=10, validate_every=20, log_every=10, device="cpu"),
            **dict(learning_rate=3e-3, schedule="cosine", optimizer="adamw"),
            **training,
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bars")
    for seed, (split, count) in enumerate({"train": 60, "valid": 12, "test": 12}.items()):
        write_bars(folder / split, count, seed)
    (folder / "train" / "down" / "broken.png").write_bytes(b"not a picture")
    (folder / "test" / "down" / "broken.jpg").write_bytes(b"\xff\xd8 not a picture")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    trained, _ = runner.train(from_values(values(folder), "test"), folder / "run")
    return trained.folder


@pytest.fixture(scope="module")
def classifier(run: Path) -> ImageClassifier:
    loaded = regard.load(run)
    assert isinstance(loaded, ImageClassifier)
    return loaded


def test_it_learns_to_tell_bars_apart(run: Path) -> None:
    scores = runner.evaluate(run)
    assert scores.count == 24  # the broken one is left out
    assert scores.accuracy > 0.9
    assert "24 pictures" in scores.told()


def test_what_was_left_out_is_in_the_log(run: Path) -> None:
    log = (run / "train.log").read_text("utf-8")
    assert "broken.png: not a readable picture" in log
    assert "train: 120 kept, 1 unreadable" in log


def test_interrupted_and_resumed_is_bitwise_the_uninterrupted(folder: Path, tmp_path: Path) -> None:
    class Stop:
        def stepped(self, progress: Any, record: dict[str, float]) -> None:
            if progress.step == 3:
                signal.raise_signal(signal.SIGINT)

    recipe = from_values(values(folder, steps=6, validate_every=2), "test")
    runner.train(recipe, tmp_path / "whole")
    _, outcome = runner.train(recipe, tmp_path / "parts", watcher=Stop())
    assert outcome.reason == "stopped"
    runner.resume(tmp_path / "parts")
    whole, parts = (
        regard.load(tmp_path / name / "checkpoints" / "last").model.state_dict() for name in ("whole", "parts")
    )
    for name, tensor in whole.items():
        assert torch.equal(parts[name], tensor), name


def test_a_batch_depends_on_its_place_alone(folder: Path, run: Path) -> None:
    _, task = job.prepare(from_values(values(folder), "test"), Run.open(run), None)
    batches = task.batches(Place())
    (first, after), (second, _) = next(batches), next(batches)
    assert first.images.shape == (16, 1, 8, 8)
    again, _ = next(task.batches(after))
    assert torch.equal(again.images, second.images)
    assert "the training pictures " in task.lines(first)


def test_each_picture_gets_the_same_answer_alone_and_in_company(
    classifier: ImageClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(5)
    pictures: list[Any] = [bar(kind, draw) for kind in BARS * 3]
    together = classifier.classify(pictures)
    assert [result.label for result in together] == list(BARS * 3)
    assert together[1].name == "picture 2"
    for picture, result in zip(pictures, together, strict=True):
        (alone,) = classifier.classify(Image.fromarray(picture))
        assert alone.probabilities == pytest.approx(result.probabilities, abs=1e-5)
        assert sum(result.probabilities.values()) == pytest.approx(1.0)
    monkeypatch.setattr("regard.tasks.image_classifier.TOKENS_AT_ONCE", 40)
    few = classifier.classify(pictures)
    assert [result.probability for result in few] == pytest.approx([known.probability for known in together], abs=1e-5)


def test_nothing_to_classify_is_no_answer(classifier: ImageClassifier) -> None:
    assert classifier.classify([]) == []


def test_an_unreadable_picture_is_an_error_unless_somebody_hears_of_it(
    classifier: ImageClassifier, folder: Path
) -> None:
    paths = [str(folder / "test" / "down" / name) for name in ("broken.jpg", "1.png")]
    with pytest.raises(RegardError, match=r"broken\.jpg: not a readable picture"):
        classifier.classify(paths)
    heard: list[RegardError] = []
    broken, whole = classifier.classify(paths, unreadable=heard.append)
    assert (broken.label, broken.probabilities, broken.probability) == ("", {}, 0.0)
    assert "could not be read" in broken._repr_html_()
    assert whole.label == "down"
    assert len(heard) == 1


def test_looking_shows_what_the_class_token_paid_to_each_patch(classifier: ImageClassifier) -> None:
    picture = bar("down", np.random.default_rng(1))
    seen = classifier.look(picture, layers=[0, -1], heads=[1])
    assert seen.weights.shape == (2, 1, 4, 4)
    assert (seen.layers, seen.heads, seen.patch_size) == ((1, 2), (2,), 2)
    assert np.array_equal(seen.image, classifier.preprocessing.pixels(picture)[0])
    pixels = torch.from_numpy(classifier.preprocessing.pixels(picture).copy())[None]
    with torch.inference_mode(), regard.record(classifier.model) as tape:
        classifier.model(classifier.preprocessing.normalise(pixels))
    np.testing.assert_array_equal(seen.weights[0, 0].flatten(), tape["layers.0.self_attention"][0, 1, 0, 1:])
    assert seen.rollout.sum() < 1  # the rest stays with the class token
    assert seen.label == classifier.classify(picture)[0].label
    assert classifier.look(picture).weights.shape == (1, 2, 4, 4)


@pytest.mark.parametrize(("choice", "told"), [({"layers": [2]}, "no layer 2"), ({"heads": [-3]}, "no head -3")])
def test_layers_and_heads_that_are_not_there_are_named(
    classifier: ImageClassifier, choice: dict[str, list[int]], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        classifier.look(np.zeros((8, 8), np.uint8), **choice)


@pytest.mark.parametrize("name", ["page.html", "map.svg", "map.png"])
def test_look_draws_a_picture(classifier: ImageClassifier, folder: Path, tmp_path: Path, name: str) -> None:
    path = str(folder / "test" / "down" / "1.png")
    assert draw(classifier, path, None, [0, 1], None, str(tmp_path / name)).startswith("down (")
    assert (tmp_path / name).stat().st_size > 1000
    assert "\n\n" in draw(classifier, path, None, None, None, None)


def test_a_notebook_shows_the_picture(classifier: ImageClassifier, folder: Path) -> None:
    assert "data:image/png" in classifier.classify(str(folder / "test" / "down" / "1.png"))[0]._repr_html_()


def test_a_saved_classifier_says_the_same(classifier: ImageClassifier, tmp_path: Path) -> None:
    picture = bar("across", np.random.default_rng(2))
    classifier.save_pretrained(tmp_path / "saved")
    again = regard.load(tmp_path / "saved")
    assert again.classify(picture)[0].probabilities == classifier.classify(picture)[0].probabilities


def test_labels_of_another_model_are_told(classifier: ImageClassifier, tmp_path: Path) -> None:
    classifier.save_pretrained(tmp_path / "saved")
    (tmp_path / "saved" / "labels.json").write_text(json.dumps({"labels": ["a", "b", "c"]}))
    with pytest.raises(RegardError, match="3 labels lie beside a model of 2"):
        regard.load(tmp_path / "saved")
    (tmp_path / "saved" / "labels.json").write_text(json.dumps({"labels": ["a", "b"]}))
    (tmp_path / "saved" / "preprocessor_config.json").write_text('{"size": []}')
    with pytest.raises(RegardError, match=r"preprocessor_config.json: cannot be understood"):
        regard.load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("section", "change", "told"),
    [
        ("data", {"train": "nowhere"}, "nowhere: no such folder"),
        ("data", {"valid": None}, "no folder for the valid split"),
        ("data", {"name": "fashion_mnist"}, "names both the data set"),
        ("data", {"name": "mnist", "train": None, "valid": None}, "unknown data set 'mnist'"),
        ("data", {"augment": {"rotate": 3}}, "data.augment has no key 'rotate'"),
        ("data", {"mean": [0.1, 0.2]}, "must have one number, or 1"),
        ("data", {"text_column": "a"}, "no key 'text_column'"),
        ("model", {"preset": "vit:b99"}, "choose one of vit:grey28"),
        ("model", {"patch_size": 9}, "patches of 9 pixels do not fit"),
        ("model", {"preset": "han:tiny"}, "model has no key"),
    ],
)
def test_wrong_sections_are_refused_and_leave_no_folder(
    folder: Path, tmp_path: Path, section: str, change: dict[str, Any], told: str
) -> None:
    changed = values(folder)
    changed[section] = {**changed[section], **change}
    with pytest.raises(UsageError, match=told):
        runner.train(from_values(changed, "test"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_single_label_is_nothing_to_learn(tmp_path: Path, folder: Path) -> None:
    changed = values(folder)
    write_bars(tmp_path / "one", 2, 0)
    for path in (tmp_path / "one" / "down").iterdir():
        path.unlink()
    changed["data"]["train"] = str(tmp_path / "one")
    with pytest.raises(UsageError, match="all training pictures have the label 'across'"):
        runner.train(from_values(changed, "test"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_label_training_never_saw_is_told_with_its_picture(tmp_path: Path, folder: Path) -> None:
    changed = values(folder)
    write_bars(tmp_path / "odd", 1, 0)
    (tmp_path / "odd" / "down").rename(tmp_path / "odd" / "up")
    changed["data"]["valid"] = str(tmp_path / "odd")
    with pytest.raises(RegardError, match=r"up/0\.png: the label 'up' is not one of"):
        runner.train(from_values(changed, "test"), tmp_path / "run")


def test_the_recipe_is_whole() -> None:
    recipe = load_recipe("fashion-vit")
    assert recipe.task == "classify-images"
    assert recipe.training_settings().batch_tokens % 50 == 0  # 49 patches and the class token: whole pictures


@pytest.mark.real_data
def test_the_recipe_trains_on_the_real_set(real_data: Path, tmp_path: Path) -> None:
    if not (real_data / "fashion_mnist").is_dir():
        pytest.skip("REGARD_DATA holds no fashion_mnist")
    small = ["model.layers=1", "model.size=8", "model.heads=1", "model.hidden_size=8"]
    recipe = load_recipe(
        "fashion-vit", [*small, "training.steps=1", "training.batch_tokens=100", "training.device=cpu"]
    )
    run, _ = runner.train(recipe, tmp_path / "run", real_data)
    assert len(regard.load(run.folder).labels) == 10
