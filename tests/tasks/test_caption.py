"""Captioning from tables of pictures to an encoder, a captioner, its scores and its verb, and back after a stop."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import regard
from regard.data.batching import Place
from regard.errors import RegardError, UsageError
from regard.looking import draw
from regard.recipes import from_values, load_recipe, names, runner
from regard.recipes.jobs import caption as job
from regard.recipes.jobs import regions as regions_job
from regard.tasks.caption import Captioning
from regard.tasks.captioner import Captioner
from regard.tasks.regions import word_scores
from regard.training import checkpoints
from regard.training.run import Run

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (40, 60, 230)}
SIDES = {"left": 0, "right": 16}


def write_pictures(folder: Path, count: int, seed: int) -> None:
    """A coloured disc on the left or the right of noise, and two captions that say so."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    rows = ["file\tcaption"]
    for number in range(count):
        colour = list(COLOURS)[random.integers(3)]
        side = list(SIDES)[random.integers(2)]
        image = Image.fromarray(random.integers(0, 80, (32, 32, 3), dtype=np.uint8))
        left, top = SIDES[side] + int(random.integers(0, 4)), int(random.integers(2, 18))
        ImageDraw.Draw(image).ellipse((left, top, left + 12, top + 12), fill=COLOURS[colour])
        image.save(folder / f"{number}.png")
        rows += [f"{number}.png\tA {colour} disc on the {side} .", f"{number}.png\t{colour} on the {side}"]
    (folder / "captions.tsv").write_text("\n".join(rows) + "\n")


def section(folder: Path, **more: Any) -> dict[str, Any]:
    return {**{split: str(folder / split / "captions.tsv") for split in ("train", "valid", "test")}, **more}


def training(**changes: Any) -> dict[str, Any]:
    fixed = dict(warmup=10, validate_every=30, log_every=10, device="cpu", schedule="cosine", optimizer="adamw")
    return {**fixed, **dict(steps=60, batch_tokens=128, learning_rate=1e-2, label_smoothing=0.0), **changes}


def region_values(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "task": "regions",
        "data": section(folder, words=20, frequent=5, augment={"shift": 1}),
        "model": {"preset": "image-words:small", "backbone": "tiny_cnn", "image_size": 32, "dropout": 0.0},
        "training": training(**changes),
    }


def caption_values(folder: Path, family: str, model: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "task": "caption",
        "start": str(folder / "regions"),
        "data": section(folder, cache=str(folder / "cache")),
        "model": {"preset": f"{family}:small", "backbone": "tiny_cnn", "image_size": 32, "dropout": 0.0, **model},
        "training": training(**changes),
        "decoding": {"num_beams": 2, "max_new_tokens": 10},
    }


SMALL = dict(embedding_size=16, size=16, alignment_size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, and an encoder that has learnt to see them."""
    folder = tmp_path_factory.mktemp("discs")
    for seed, (split, count) in enumerate({"train": 90, "valid": 10, "test": 10}.items()):
        write_pictures(folder / split, count, seed)
    (folder / "train" / "3.png").write_text("no picture")
    runner.train(from_values(region_values(folder, steps=90), "test"), folder / "regions")
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    values = caption_values(folder, "attend-tell", SMALL, steps=90)
    runner.train(from_values(values, "test"), folder / "attend")
    return folder / "attend"


def test_the_encoder_learns_to_see_from_captions(folder: Path) -> None:
    scores = runner.evaluate(folder / "regions")
    assert scores.mean_precision > scores.base_precision + 0.1
    assert "mean average precision" in scores.told()
    assert "left out: 3.png: not a readable picture" in (folder / "regions" / "train.log").read_text("utf-8")
    finder = regard.load(folder / "regions")
    found = finder.find(folder / "test" / "0.png", top=3)
    assert set(found) <= set(finder.words)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_word_scores_by_hand() -> None:
    """Ranked by the first word: right, wrong, right: (1 + 2 / 3) / 2. The second word is said of nothing."""
    shares = np.array([[0.5, 0.0], [0.0, 0.0], [1.0, 0.0]])
    logits = np.array([[3.0, -9.0], [2.0, -9.0], [1.0, -9.0]])
    scores = word_scores(logits, shares)
    assert scores.mean_precision == pytest.approx(5 / 6)
    assert scores.base_precision == pytest.approx(2 / 3)
    chance = 1 / (1 + np.exp(-logits))
    by_hand = -(shares * np.log(chance) + (1 - shares) * np.log(1 - chance)).sum() / 3
    assert scores.nll == pytest.approx(by_hand)


def test_a_captioner_learns_to_say_what_it_sees(folder: Path, run: Path) -> None:
    found = runner.evaluate(run)
    assert found.scores.cider > 1.0
    assert found.scores.count == 10
    assert found.nll < 1.0
    assert json.loads(json.dumps(found.as_dict()))["bleu"]["1"] == found.scores.bleu["1"]
    assert "perplexity" in found.told()


def test_the_encoder_stays_as_the_start_had_it_and_runs_share_what_it_sees(folder: Path, run: Path) -> None:
    theirs = regard.load(folder / "regions").model.state_dict()
    ours = regard.load(run).model.state_dict()
    shared = [name for name in theirs if name.startswith("encoder")]
    assert shared
    for name in shared:
        assert torch.equal(ours[name], theirs[name]), name
    before = {path: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()}
    assert len(before) == 4  # training and validation pictures
    values = caption_values(folder, "show-tell", dict(embedding_size=8, size=8), steps=2)
    runner.train(from_values(values, "test"), folder / "show")
    assert {path: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()} == before


def test_captions_come_with_scores_hypotheses_and_regions(folder: Path, run: Path) -> None:
    captioner: Captioner = regard.load(run)
    paths = [folder / "test" / f"{number}.png" for number in range(3)]
    results = captioner.caption(paths, num_beams=3, num_return_sequences=2)
    for path, result in zip(paths, results, strict=True):
        (alone,) = captioner.caption(path, num_beams=3)
        assert (alone.text, alone.name) == (result.text, str(path))
        assert alone.score == pytest.approx(result.score, abs=1e-5)
        assert len(result.nbest) == 2
        assert result.nbest[0].score >= result.nbest[1].score
        assert [known["word"] for known in result.regions] == result.text.split()
        for known in result.regions:
            assert np.shape(known["weights"]) == (2, 2)
            assert np.sum(known["weights"]) == pytest.approx(1.0, abs=1e-3)
            left, top, right, bottom = known["box"]
            assert 0 <= left < right <= 1
            assert 0 <= top < bottom <= 1
    sampled = [captioner.caption(paths, do_sample=True, seed=3)[2].text for _ in range(2)]
    assert sampled[0] == captioner.caption(paths[2], do_sample=True, seed=3, first_number=2)[0].text == sampled[1]
    assert "<iframe" in results[0]._repr_html_()
    with pytest.raises(UsageError, match="need as many beams"):
        captioner.caption(paths, num_beams=1, num_return_sequences=2)
    with pytest.raises(UsageError, match="do_sample needs num_beams=1, but num_beams is 3"):
        captioner.caption(paths, num_beams=3, do_sample=True)


def test_looking_replays_any_caption(folder: Path, run: Path, tmp_path: Path) -> None:
    captioner, picture = regard.load(run), str(folder / "test" / "0.png")
    attention = captioner.look(picture, "a red disc")
    assert attention.words == ("a", "red", "disc")
    assert attention.image.shape == (32, 32, 3)
    assert "row" in draw(captioner, picture, None, None, None, None)
    said = draw(captioner, picture, "a blue disc", None, None, str(tmp_path / "a.html"))
    assert said.startswith("a blue disc")
    assert "a blue disc" in (tmp_path / "a.html").read_text("utf-8")
    with pytest.raises(UsageError, match="the caption is empty"):
        captioner.look(picture, "")


def test_a_model_without_attention_captions_but_cannot_be_looked_into(folder: Path, tmp_path: Path) -> None:
    values = caption_values(folder, "show-tell", dict(embedding_size=8, size=8), steps=2)
    runner.train(from_values(values, "test"), tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    (result,) = captioner.caption(folder / "test" / "0.png")
    assert result.attention is None
    assert result.regions == []
    assert "<p>" in result._repr_html_()
    with pytest.raises(UsageError, match="ShowTell has no attention"):
        captioner.look(folder / "test" / "0.png")


@pytest.mark.parametrize(
    ("family", "model"),
    [
        ("attend-tell", {**SMALL, "align": "hard"}),
        ("caption-transformer", dict(size=16, hidden_size=16, heads=2, layers=2)),
    ],
)
def test_other_captioners_train_save_and_attend(
    folder: Path, tmp_path: Path, family: str, model: dict[str, Any]
) -> None:
    values = caption_values(folder, family, model, steps=4, validate_every=4)
    values["data"]["mirror"] = True
    runner.train(from_values(values, "test"), tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    captioner.save_pretrained(tmp_path / "saved")
    picture = folder / "test" / "1.png"
    (result,), (again,) = captioner.caption(picture), regard.load(tmp_path / "saved").caption(picture)
    assert (again.text, again.score) == (result.text, result.score)
    attention = captioner.look(picture, "a red disc")
    assert attention.hard == (model.get("align") == "hard")
    np.testing.assert_allclose(attention.weights.sum((1, 2)), 1.0, atol=1e-5)


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = caption_values(folder, "attend-tell", {**SMALL, "align": "hard"}, steps=6, validate_every=3, log_every=1)
    values["data"]["mirror"] = True
    straight, _ = runner.train(from_values(values, "test"), tmp_path / "straight")
    plain, steps = Captioning.loss, iter(range(100))

    def stopping(self: Captioning, model: Any, batch: Any) -> Any:
        if next(steps) == 3:
            signal.raise_signal(signal.SIGINT)
        return plain(self, model, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Captioning, "loss", stopping)
        _, outcome = runner.train(from_values(values, "test"), tmp_path / "stopped")
    assert outcome.reason == "stopped"
    resumed, _ = runner.resume(tmp_path / "stopped")
    curves = [[(row["step"], row["loss"]) for row in known.read_metrics()] for known in (straight, resumed)]
    assert curves[0] == curves[1]


def test_batches_depend_on_seed_and_place_alone_and_leave_out_what_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    recipe = from_values(caption_values(folder, "attend-tell", SMALL), "test")
    batches = []
    for name in ("one", "two"):
        _, task = job.prepare(recipe, Run.create(tmp_path / name, recipe.resolved()), None)
        stream = task.batches(Place())
        batches.append([next(stream) for _ in range(40)])
    for (first, place), (second, other) in zip(*batches, strict=True):
        assert place == other
        assert torch.equal(first.told, second.told)
        assert torch.equal(first.regions, second.regions)
        assert 3 not in first.items
    assert "0.png" in task.lines(batches[0][0][0]) or ".png" in task.lines(batches[0][0][0])


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"start": None}, "start: a run of the task `regions`"),
        ({"data": {"weights": "w.safetensors"}}, "data.weights is for backbones of timm"),
        ({"data": {"train": "nowhere.tsv"}}, "nowhere.tsv: no such file"),
        ({"data": {"colour": 1}}, "no key 'colour'"),
        ({"data": {"mean": [0.1, 0.2]}}, "one number, or three"),
        ({"data": {"name": "flickr9k", "train": None, "valid": None}}, "unknown data set 'flickr9k'"),
        ({"model": {"backbone": "vgg"}}, "no backbone called 'vgg'"),
        ({"model": {"align": "local_m"}}, "must be soft or hard"),
    ],
)
def test_a_wrong_recipe_costs_no_run_folder(folder: Path, tmp_path: Path, change: dict[str, Any], part: str) -> None:
    values = caption_values(folder, "attend-tell", SMALL)
    for key, value in change.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    with pytest.raises(UsageError, match=part):
        runner.train(from_values(values, "test"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_words_too_rare_for_a_recipe_are_refused(folder: Path, tmp_path: Path) -> None:
    values = region_values(folder)
    values["data"]["frequent"] = 1000
    with pytest.raises(UsageError, match=r"lower data\.frequent"):
        runner.train(from_values(values, "test"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_of_another_model_is_refused(run: Path, tmp_path: Path) -> None:
    captioner = regard.load(run)
    captioner.save_pretrained(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text("utf-8"))
    assert config["task"] == "caption"
    from regard.data.tokenizer import Tokenizer

    other = Tokenizer.train("word", ["other words"], 50).to_json()
    (tmp_path / "saved" / "tokenizer.json").write_text(other, "utf-8")
    with pytest.raises(RegardError, match="do not belong together"):
        regard.load(tmp_path / "saved")


def test_the_flickr8k_recipes_fit_their_models() -> None:
    """Wrong keys and sizes would show here, without data."""
    from regard import families, settings
    from regard.tasks.caption_data import CaptionData, WordData

    known = [name for name in names() if name.startswith("flickr8k")]
    assert len(known) == 5
    for name in known:
        recipe = load_recipe(name)
        kind, given = (WordData, {"labels": 9}) if recipe.task == "regions" else (CaptionData, {"vocabulary": 9})
        families.check(recipe.model, **given)
        settings.build(kind, recipe.data, "data").preprocessing(128)
    assert regions_job.TASK == "regions"


def test_a_backbone_of_timm_gets_all_its_weights_from_a_file(tmp_path: Path) -> None:
    network = torch.nn.Linear(2, 3)
    wanted = {"weight": torch.ones(3, 2), "bias": torch.zeros(3), "head.weight": torch.ones(9, 3)}
    checkpoints.save_tensors(wanted, tmp_path / "w.safetensors")
    job._fill(network, str(tmp_path / "w.safetensors"))
    assert torch.equal(network.weight, wanted["weight"])
    checkpoints.save_tensors({"weight": torch.ones(3, 2)}, tmp_path / "half.safetensors")
    with pytest.raises(RegardError, match="lacks 1 tensors of the backbone, such as bias"):
        job._fill(network, str(tmp_path / "half.safetensors"))
