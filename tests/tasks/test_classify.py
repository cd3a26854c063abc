"""Classification: the task, the verb and the scores, for models that read documents and models that read tokens."""

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import regard
from regard.attention import Attention, Dot, record
from regard.data.batching import Place
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError
from regard.looking import draw
from regard.models.han import Config, HierarchicalAttention
from regard.recipes import from_values, runner
from regard.settings import build
from regard.tasks.classification_scores import classification_scores, wilson
from regard.tasks.classifier import Classifier
from regard.tasks.classify import Classification, ClassificationData, Reading
from regard.training import checkpoints
from regard.training.run import Run

GOOD, BAD = ["fine", "lovely", "superb"], ["awful", "dull", "poor"]
FILLERS = ["the", "film", "was", "a", "story", "and", "it", "we", "saw"]
TEXTS = [
    "The film was lovely. We saw it!",
    "it was a dull story<br />and the film was poor",
    "",
    "...!?",
    "superb",
    "  <br />  ",
    "We saw it. " * 30 + "The story was awful.",
]


def write_texts(path: Path, count: int, seed: int) -> Path:
    """Texts of a few sentences whose one telling word says what they are."""
    draw = np.random.default_rng(seed)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            label = "good" if number % 2 else "bad"
            words = [*draw.choice(FILLERS, draw.integers(4, 15)), draw.choice(GOOD if number % 2 else BAD)]
            draw.shuffle(words)
            middle = len(words) // 2
            text = " ".join(words[:middle]) + ". " + " ".join(words[middle:]) + "."
            file.write(json.dumps({"text": text, "label": label}) + "\n")
    return path


def values(folder: Path, preset: str = "han:tiny", **training: Any) -> dict[str, Any]:
    files = {split: str(folder / f"{split}.jsonl") for split in ("train", "valid", "test")}
    settings = {
        "steps": 40, "batch_tokens": 300, "learning_rate": 0.02, "warmup": 5, "validate_every": 20, "device": "cpu",
        "label_smoothing": 0.0,
    }  # fmt: skip
    model = {"preset": preset, "embedding_size": 8, "size": 6, "context_size": 6}
    return {"task": "classify", "data": files, "model": model, "training": {**settings, **training}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("texts")
    for seed, (split, count) in enumerate({"train": 120, "valid": 20, "test": 40}.items()):
        write_texts(place / f"{split}.jsonl", count, seed)
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    trained, _ = runner.train(from_values(values(folder), "test"), folder / "run")
    return trained


@pytest.fixture(scope="module")
def classifier(run: Run) -> Classifier:
    return regard.load(run.folder, device="cpu")


def test_a_short_training_finds_the_telling_words(run: Run, classifier: Classifier) -> None:
    scores = runner.evaluate(run.folder)
    assert scores.accuracy > 0.9
    assert scores.count == 40
    assert classifier.labels == ("bad", "good")
    first, second = classifier.classify(TEXTS[:2])
    assert (first.label, second.label) == ("good", "bad")
    words = [word for sentence in first.sentences for word in sentence.words]
    assert max(words, key=lambda word: word.weight * len(words)).text in ("lovely", "!", ".", "film")
    assert "valid_accuracy" in run.read_metrics()[-1]


def test_probabilities_are_of_all_labels_and_sum_to_one(classifier: Classifier) -> None:
    for text, result in zip(TEXTS, classifier.classify(TEXTS), strict=True):
        assert result.text == text
        if text.replace("<br />", "").strip():
            assert result.probabilities.keys() == {"good", "bad"}
            assert math.isclose(sum(result.probabilities.values()), 1.0)
            assert result.probability == max(result.probabilities.values())
        else:
            assert (result.label, result.probabilities, result.probability) == ("", {}, 0.0)


def test_company_does_not_change_a_result(classifier: Classifier) -> None:
    together = classifier.probabilities(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(classifier.probabilities([text])[0], row, atol=1e-6)


def test_looking_shows_the_weights_the_model_used(classifier: Classifier) -> None:
    text = TEXTS[0]
    found = classifier.classify(text)[0].attention
    document = classifier.read(text)
    tokens = torch.tensor([classifier.tokenizer.encode(" ".join(document.words()[0]))])
    with record(classifier.model) as tape, torch.inference_mode():
        classifier.model(tokens[None])
    np.testing.assert_allclose(found.word_weights[0], tape["words.pooling.attention"][0, 0, 0], atol=1e-6)
    assert math.isclose(found.sentence_weights.sum(), 1.0, abs_tol=1e-5)
    assert [sentence.text for sentence in classifier.classify(text)[0].sentences] == [
        "The film was lovely.",
        "We saw it!",
    ]
    assert found.label == "good"


def test_a_very_long_document_is_classified_and_looked_at(classifier: Classifier, monkeypatch: Any) -> None:
    monkeypatch.setattr("regard.models.han.WORDS_AT_ONCE", 300)
    text = "We saw it. " * 1000 + "The story was awful."
    found = classifier.look(text)
    assert len(found.sentences) == len(found.word_weights) == 1001
    assert [len(row) for row in found.word_weights[-2:]] == [4, 5]
    np.testing.assert_allclose([row.sum() for row in found.word_weights], 1.0, atol=1e-5)


def test_a_subword_tokenizer_gives_words_the_sum_of_their_pieces(folder: Path) -> None:
    tokenizer = Tokenizer.train("bpe", FILLERS, 40)
    torch.manual_seed(0)
    model = HierarchicalAttention(Config(len(tokenizer), 2, embedding_size=4, size=3, context_size=4))
    small = Classifier(model, tokenizer, ["a", "b"])
    found = small.look("thewasfilm story")
    assert len(small.encode(small.read("thewasfilm story")).tokens) > 2
    assert len(found.word_weights[0]) == 2
    assert math.isclose(found.word_weights[0].sum(), 1.0, abs_tol=1e-5)


def test_what_cannot_be_looked_at_says_so(classifier: Classifier) -> None:
    with pytest.raises(UsageError, match="nothing to look at in a text without a word"):
        classifier.look("<br />")
    average = HierarchicalAttention(Config(len(classifier.tokenizer), 2, 4, 3, 4, pooling="average"))
    with pytest.raises(UsageError, match="pools without attention"):
        Classifier(average, classifier.tokenizer, ["a", "b"]).look("word")


def test_a_saved_classifier_comes_back(classifier: Classifier, tmp_path: Path) -> None:
    classifier.save_pretrained(tmp_path / "saved")
    again = regard.load(tmp_path / "saved", device="cpu")
    np.testing.assert_array_equal(again.probabilities(TEXTS), classifier.probabilities(TEXTS))
    assert again.reading == classifier.reading
    (tmp_path / "saved" / "labels.json").write_text('{"labels": ["one"]}')
    with pytest.raises(RegardError, match=r"1 labels lie beside a model of .* they do not belong together"):
        regard.load(tmp_path / "saved", device="cpu")


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(folder: Path, run: Run, tmp_path: Path) -> None:
    # Half a run that then learns it has the other half before it: the default schedule does not know its end.
    half, _ = runner.train(from_values(values(folder, steps=20), "test"), tmp_path / "run")
    (half.folder / "config.yaml").write_text((run.folder / "config.yaml").read_text())
    place = half.checkpoint("last")
    checkpoints.save_progress(place, replace(checkpoints.load_progress(place), finished=None))
    resumed, _ = runner.resume(half.folder)
    ours, theirs = resumed.read_metrics()[-1], run.read_metrics()[-1]
    assert (ours["step"], ours["loss"], ours["valid_nll"]) == (theirs["step"], theirs["loss"], theirs["valid_nll"])


@dataclass(frozen=True)
class FlatConfig:
    vocabulary: int
    labels: int
    pad: int = 0


class Flat(nn.Module):
    """The smallest model that reads tokens: the mean of their embeddings."""

    reads = "tokens"

    def __init__(self, config: FlatConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.labels)

    def forward(self, tokens: Tensor) -> Tensor:
        real = (tokens != self.config.pad).unsqueeze(-1)
        return (self.embedding(tokens) * real).sum(1) / real.sum(1)


def flat_task(folder: Path, place: Path) -> tuple[Flat, Classification]:
    from regard import families
    from regard.recipes.jobs import classify

    recipe = from_values(values(folder), "test")
    recipe.data["max_length"] = 6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "resolve", lambda section, offered, **known: ("flat", FlatConfig(**known)))
        patch.setattr(families, "build_model", lambda family, config: Flat(config))
        classifier, task = classify.prepare(recipe, Run.create(place, recipe.resolved()), None)
    assert isinstance(classifier.model, Flat)
    return classifier.model.train(), task


def test_a_model_that_reads_tokens_gets_rows_cut_to_length(folder: Path, tmp_path: Path) -> None:
    model, task = flat_task(folder, tmp_path / "run")
    planned, _ = next(task.batches(Place()))
    batch = planned.made()
    assert batch.inputs.dim() == 2
    assert batch.inputs.shape[1] <= 6
    assert task.count(planned) == len(batch.labels) == len(batch.inputs)
    assert "cut to 6 tokens" in (tmp_path / "run" / "train.log").read_text()
    loss = task.loss(model, batch)
    expected = -model(batch.inputs).log_softmax(-1)[torch.arange(len(batch.labels)), batch.labels].sum()
    torch.testing.assert_close(loss.nll, expected)
    metrics = task.validate(model)
    assert metrics.keys() == {"nll", "accuracy"}
    flat = Classifier(model, task.tokenizer, ["bad", "good"], Reading(max_length=6))
    assert len(flat.encode(flat.read("the film was a story and it was dull")).tokens) == 6
    assert [result.label != "" for result in flat.classify(TEXTS)] == [True, True, False, True, True, False, True]
    with pytest.raises(UsageError, match="no sentences to weigh"):
        flat.look("the film")


class FlatAttention(Flat):
    """Tokens that look at one another."""

    def __init__(self, config: FlatConfig):
        super().__init__(config)
        self.attention = Attention(Dot(config.labels, config.labels))

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.embedding(tokens)
        return self.attention(states, self.attention.remember(states)).context.mean(1)


def test_a_model_that_reads_tokens_is_looked_at_token_by_token(classifier: Classifier, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = FlatAttention(FlatConfig(len(classifier.tokenizer), 2))
    flat = Classifier(model, classifier.tokenizer, ["bad", "good"])
    (found,) = flat.look_tokens("The film was lovely.")
    assert found.queries == found.keys == ("the", "film", "was", "lovely", ".")
    states = model.embedding(torch.tensor(classifier.tokenizer.encode("the film was lovely .")))
    np.testing.assert_allclose(found.weights[0], (states @ states.T).softmax(-1).detach(), atol=1e-6)
    assert "wrote" in draw(flat, "The film was lovely.", None, None, None, str(tmp_path / "map.svg"))
    assert "wrote" in draw(flat, "The film was lovely.", None, None, None, str(tmp_path / "page.html"))
    assert "lovely" in draw(flat, "The film was lovely.", None, None, None, None)
    with pytest.raises(UsageError, match="nothing to look at"):
        draw(flat, " <br /> ", None, None, None, None)
    without = Classifier(Flat(model.config), classifier.tokenizer, ["bad", "good"])
    with pytest.raises(UsageError, match="has no attention"):
        without.look_tokens("The film")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "nowhere.jsonl"}, r"nowhere\.jsonl: no such file"),
        ({"valid": []}, "no files for the valid split"),
        ({"name": "imdb"}, "names both the data set 'imdb' and files"),
        ({"vocab": 5}, "data has no key 'vocab'"),
        ({"max_words": 0}, "data.max_words is 0 but must be at least 1"),
    ],
)
def test_a_wrong_data_section_is_refused_before_a_folder_is_made(
    folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    recipe = from_values(values(folder), "test")
    recipe.data.update(changes)
    with pytest.raises(UsageError, match=message):
        runner.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_data_set_without_labels_is_refused(tmp_path: Path) -> None:
    section = build(ClassificationData, {"name": "reversal"}, "data")
    with pytest.raises(UsageError, match="unknown data set 'reversal'; those with labelled texts are imdb"):
        list(section.texts("valid", None))
    with pytest.raises(UsageError, match="no split called 'dev'"):
        section.texts("dev", None)


def test_one_label_alone_is_nothing_to_learn_and_a_new_one_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"text": "a", "label": 1}\n' * 3)
    recipe = from_values(values(folder), "test")
    recipe.data["train"] = str(tmp_path / "one.jsonl")
    with pytest.raises(UsageError, match="all training texts have the label '1'"):
        runner.train(recipe, tmp_path / "run")
    (tmp_path / "new.jsonl").write_text('{"text": "a", "label": "good"}\n{"text": "b", "label": "odd"}\n')
    recipe = from_values(values(folder), "test")
    recipe.data["valid"] = str(tmp_path / "new.jsonl")
    with pytest.raises(RegardError, match=r"new\.jsonl, line 2: the label 'odd' is not one of"):
        runner.train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_that_are_numbers_keep_their_order(folder: Path, tmp_path: Path) -> None:
    rows = [{"text": "a b c", "label": number} for number in (10, 9, 1, 2)] * 3
    (tmp_path / "stars.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = from_values(values(folder, steps=1), "test")
    recipe.data.update(train=str(tmp_path / "stars.jsonl"), valid=str(tmp_path / "stars.jsonl"))
    made, _ = runner.train(recipe, tmp_path / "run")
    assert regard.load(made.folder).labels == ("1", "2", "9", "10")


def test_scores_are_counted_by_hand() -> None:
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    scores = classification_scores(probabilities, [0, 1, 1, 1], ["a", "b", "c"])
    assert scores.accuracy == 0.75
    assert scores.confusion == {
        "a": {"a": 1, "b": 0, "c": 0},
        "b": {"a": 1, "b": 2, "c": 0},
        "c": {"a": 0, "b": 0, "c": 0},
    }
    assert scores.labels["b"].precision == 1.0
    assert scores.labels["b"].recall == pytest.approx(2 / 3)
    assert scores.macro_f1 == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)
    assert scores.nll == pytest.approx(-np.log([0.7, 0.8, 0.3, 0.7]).mean())
    assert Counter(scores.as_dict()).keys() >= {"accuracy", "macro_f1", "confusion", "nll"}
    assert "accuracy 75.00 %" in scores.told()
    assert "of which 1 as a" in scores.told()


def test_wilsons_interval_is_the_textbooks() -> None:
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson(10, 10)[1] == pytest.approx(1.0)
    assert wilson(0, 10)[0] == pytest.approx(0.0)
