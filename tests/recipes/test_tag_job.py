"""From a text to an ELMo, from an ELMo and a treebank to a tagger, and back from their folders."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import regard
from regard import families
from regard.cli import app
from regard.data.conllu import read_conllu
from regard.errors import RegardError, UsageError
from regard.recipes import from_values, runner
from regard.tasks.bidirectional_lm import BidirectionalLM
from regard.tasks.tagger import Tagger

NOUNS, VERBS = ("dog", "cat", "car", "house"), ("sees", "hears", "likes")
TRAINING = dict(steps=40, batch_tokens=128, learning_rate=0.02, warmup=5, label_smoothing=0.0, validate_every=20)
TRAINING |= dict(device="cpu", schedule="constant")
ELMO_SIZES = dict(size=8, cell_size=12, char_size=4, filters=[8, 8], highways=0, max_chars=10, dropout=0.0)
TAGGER_SIZES = dict(embedding_size=8, filters=[8, 8], spelling_size=8, size=12, cell_size=16, dropout=0.0)


def sentences(seed: int, count: int = 60) -> list[list[tuple[str, str]]]:
    draw = np.random.default_rng(seed)

    def phrase() -> list[tuple[str, str]]:
        return [("the", "DET"), (str(draw.choice(NOUNS)), "NOUN")]

    return [[*phrase(), (str(draw.choice(VERBS)), "VERB"), *phrase(), (".", "PUNCT")] for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("treebank")
    for seed, split in enumerate(("train", "valid", "test")):
        known = sentences(seed)
        rows = ["".join(row(*numbered) for numbered in enumerate(each, 1)) for each in known]
        (folder / f"{split}.conllu").write_text("\n".join(rows), "utf-8")
        text = "\n".join(" ".join(word for word, _ in each) for each in known)
        (folder / f"{split}.txt").write_text(text + "\n\n", "utf-8")
    return folder


def row(number: int, tagged: tuple[str, str]) -> str:
    return f"{number}\t{tagged[0]}\t_\t{tagged[1]}\t_\t_\t_\t_\t_\t_\n"


def files(folder: Path, ending: str) -> dict[str, Any]:
    return {split: str(folder / f"{split}.{ending}") for split in ("train", "valid", "test")}


def elmo_recipe(folder: Path, **training: Any) -> Any:
    values = {
        "task": "bidirectional-lm",
        "data": {**files(folder, "txt"), "vocabulary": 30},
        "model": {"preset": "elmo:tiny", **ELMO_SIZES},
        "training": {**TRAINING, **training},
    }
    return from_values(values, "test")


def tagger_recipe(folder: Path, elmo: str | None, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "task": "tag",
        "data": {**files(folder, "conllu"), "vocabulary": 12, "elmo": elmo},
        "model": {"preset": "tagger:tiny", **TAGGER_SIZES},
        "training": dict(TRAINING),
    }
    for section, changed in changes.items():
        values[section] |= changed
    return from_values(values, "test")


@pytest.fixture(scope="module")
def elmo(folder: Path) -> Path:
    return runner.train(elmo_recipe(folder), folder / "elmo")[0].folder


@pytest.fixture(scope="module")
def tagger(folder: Path, elmo: Path) -> Path:
    return runner.train(tagger_recipe(folder, str(elmo)), folder / "tagger")[0].folder


def test_a_bidirectional_language_model_learns_from_both_sides(folder: Path, elmo: Path) -> None:
    found = runner.evaluate(elmo, "test")
    assert (found.sentences, found.words) == (60, 60 * 7)
    for way in ("forward_perplexity", "backward_perplexity"):
        assert found.as_dict()[way] < 4  # of 14 words and marks
    assert "forward" in found.told()


def test_a_trained_elmo_embeds_words_each_sentence_by_itself(elmo: Path) -> None:
    loaded = regard.load(elmo, "cpu")
    assert isinstance(loaded, BidirectionalLM)
    short, empty, long = loaded.embed([["the", "dog"], "", "the dog sees the zebra ."])
    assert (short.shape, empty.shape, long.shape) == ((3, 2, 16), (3, 0, 16), (3, 6, 16))
    np.testing.assert_allclose(loaded.embed([["the", "dog"]])[0], short, atol=1e-6)


def test_the_command_line_says_that_vectors_of_an_elmo_are_of_words(elmo: Path) -> None:
    with pytest.raises(UsageError, match="has vectors for words, not for texts"):
        CliRunner().invoke(app, ["embed", str(elmo)], input="the dog\n", catch_exceptions=False)


def test_an_elmo_survives_saving(elmo: Path, tmp_path: Path) -> None:
    loaded = regard.load(elmo, "cpu")
    loaded.save_pretrained(tmp_path / "saved")
    again = regard.load(tmp_path / "saved", "cpu")
    assert np.array_equal(again.embed(["the dog"])[0], loaded.embed(["the dog"])[0])


def test_an_interrupted_elmo_goes_on_the_same(folder: Path, tmp_path: Path) -> None:
    whole, _ = runner.train(elmo_recipe(folder, steps=4, validate_every=2), tmp_path / "whole")
    cut, _ = runner.train(elmo_recipe(folder, steps=4, validate_every=2), tmp_path / "cut")
    for name in ("4", "last", "best"):
        path = cut.folder / "checkpoints" / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    (cut.folder / "checkpoints" / "last").symlink_to("2")
    runner.resume(cut.folder)
    weights = [regard.load(run.folder / "checkpoints" / "4", "cpu").model.state_dict() for run in (whole, cut)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_tagger_learns_with_and_without_elmo(folder: Path, tagger: Path) -> None:
    plain, _ = runner.train(tagger_recipe(folder, None), folder / "plain")
    for run in (tagger, plain.folder):
        assert runner.evaluate(run, "test").accuracy > 0.95


def test_the_elmo_inside_stays_as_it_was(elmo: Path, tagger: Path) -> None:
    inside = regard.load(tagger, "cpu").model.elmo.state_dict()
    outside = regard.load(elmo, "cpu").model.reader.state_dict()
    assert inside.keys() == outside.keys()
    assert all(torch.equal(inside[name], outside[name]) for name in inside)


def test_a_tuned_elmo_does_not(folder: Path, elmo: Path, tmp_path: Path) -> None:
    recipe = tagger_recipe(folder, str(elmo), model=dict(tune=True, elmo_layer=1), training=dict(steps=2))
    run, _ = runner.train(recipe, tmp_path / "tuned")
    inside = regard.load(run.folder, "cpu").model.elmo.state_dict()
    outside = regard.load(elmo, "cpu").model.reader.state_dict()
    assert not any(name.startswith("layers.1") for name in inside)
    assert not torch.equal(inside["layers.0.weight"], outside["layers.0.weight"])


def test_a_tagger_can_go_on_when_its_elmo_is_gone(folder: Path, elmo: Path, tmp_path: Path) -> None:
    shutil.copytree(elmo, tmp_path / "elmo", symlinks=True)
    run, _ = runner.train(tagger_recipe(folder, str(tmp_path / "elmo"), training=dict(steps=2)), tmp_path / "run")
    shutil.rmtree(tmp_path / "elmo")
    runner.resume(run.folder)
    assert runner.evaluate(run.folder, "test").sentences == 60


def test_a_tagger_tags_texts_and_lists_in_order(tagger: Path) -> None:
    loaded = regard.load(tagger, "cpu")
    assert isinstance(loaded, Tagger)
    first, empty, second = loaded.tag(["the dog sees the cat .", "", ["the", "cat"]])
    assert first.text == "the/DET dog/NOUN sees/VERB the/DET cat/NOUN ./PUNCT"
    assert (empty.words, empty.tags, empty.text) == ((), (), "")
    assert second.words == ("the", "cat")
    assert all(0 < chance <= 1 for chance in second.probabilities)
    assert loaded.tag("the dog")[0].words == ("the", "dog")


def test_company_changes_no_tag(tagger: Path) -> None:
    loaded = regard.load(tagger, "cpu")
    together = loaded.probabilities([["the", "dog"], ["the", "cat", "sees", "the", "dog", "."]])
    np.testing.assert_allclose(together[0], loaded.probabilities([["the", "dog"]])[0], atol=1e-6)


def test_scores_count_known_and_unknown_words_and_faultless_sentences(folder: Path, tagger: Path) -> None:
    loaded = regard.load(tagger, "cpu")
    known = list(read_conllu(folder / "test.conllu"))
    scores = loaded.evaluate(known)
    gold = [tag for sentence in known for tag in sentence.tags]
    said = [tag for tagged in loaded.tag([sentence.words for sentence in known]) for tag in tagged.tags]
    right = [a == b for a, b in zip(gold, said, strict=True)]
    assert scores.accuracy == pytest.approx(np.mean(right))
    vocabulary = loaded.tokenizer.backend.get_vocab()
    held = [word in vocabulary for sentence in known for word in sentence.words]
    assert scores.known_count == sum(held)
    assert 0 < scores.known_count < len(gold)
    assert scores.known_accuracy == pytest.approx(np.mean(np.array(right)[held]))
    assert scores.unknown_accuracy == pytest.approx(np.mean(np.array(right)[~np.array(held)]))
    assert scores.whole_sentences == pytest.approx(np.mean([all(right[at : at + 6]) for at in range(0, 360, 6)]))
    assert json.loads(json.dumps(scores.as_dict()))["unknown_count"] == len(gold) - sum(held)
    assert "unknown words" in scores.told()


def test_a_tag_that_was_never_learnt_counts_as_a_mistake(folder: Path, tagger: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.conllu"
    path.write_text(row(1, ("the", "DET")) + row(2, ("dog", "BEAST")), "utf-8")
    scores = regard.load(tagger, "cpu").evaluate(list(read_conllu(path)))
    assert scores.accuracy == 0.5
    assert scores.words.labels["BEAST"].recall == 0


def test_a_published_elmo_serves_too(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    from models.test_elmo import published

    published(tmp_path)
    run, _ = runner.train(tagger_recipe(folder, str(tmp_path), training=dict(steps=2)), tmp_path / "run")
    assert regard.load(run.folder, "cpu").model.config.elmo["size"] == 4


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (dict(data=dict(elmo="no/such/run")), "no such run"),
        (dict(data=dict(column="lemma")), "data.column is 'lemma'"),
        (dict(data=dict(train="none.conllu")), "none.conllu: no such file"),
        (dict(data=dict(name="ewt")), "names both"),
        (dict(data=dict(train=[])), "no files for the train split"),
        (dict(model=dict(elmo={"size": 3})), "name its run in data.elmo"),
        (dict(model=dict(siz=3)), "did you mean 'size'"),
    ],
)
def test_a_wrong_recipe_leaves_no_folder_behind(
    folder: Path, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        runner.train(tagger_recipe(folder, None, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_kind_of_run_is_no_elmo(folder: Path, tagger: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="family 'tagger', not an ELMo"):
        runner.train(tagger_recipe(folder, str(tagger)), tmp_path / "run")


def test_a_text_without_words_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n", "utf-8")
    recipe = elmo_recipe(folder)
    recipe.data["valid"] = str(tmp_path / "empty.txt")
    with pytest.raises(RegardError, match="valid has no word"):
        runner.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["elmo", "tagger"])
def test_files_that_do_not_belong_together_are_refused(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    loaded = regard.load(request.getfixturevalue(name), "cpu")
    config = type(loaded.model.config)(**{**vars(loaded.model.config), "vocabulary": 99})
    loaded.model = families.build_model(name, config)
    loaded.config_json = families.config_json(name, config, "tag" if name == "tagger" else "bidirectional-lm")
    loaded.save_pretrained(tmp_path / "mixed")
    with pytest.raises(RegardError, match="do not belong together"):
        regard.load(tmp_path / "mixed", "cpu")
