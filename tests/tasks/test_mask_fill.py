"""Filling gaps from the recipe to the verbs, and fine-tuning what was learnt."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.data.batching import Place
from regard.data.named import named_labelled
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError
from regard.looking import draw
from regard.models.bert import BertEmbedder, Config
from regard.recipes import Recipe, from_values, load_recipe, runner
from regard.recipes.jobs import mask_fill
from regard.tasks.mask_filler import MaskFiller, TextEmbedder
from regard.training import checkpoints
from regard.training.run import Run

ANIMALS, PLACES = ("cat", "dog", "bird", "fish"), ("mat", "log", "tree", "lake")
# An animal has a place: what is hidden can be told from what is not.
STORIES = [f"{a} likes {b} . {a} likes {b} .\n\n" for a, b in zip(ANIMALS, PLACES, strict=True)]
SIZES: dict[str, Any] = {"layers": 1, "size": 32, "heads": 2, "hidden_size": 64, "max_length": 32, "dropout": 0.0}
TRAINING: dict[str, Any] = {"learning_rate": 0.003, "warmup": 5, "schedule": "constant", "device": "cpu"} | {
    "label_smoothing": 0.0
}


def recipe(folder: Path, **training: Any) -> Recipe:
    path = folder / "text.txt"
    if not path.exists():
        path.write_text("".join(STORIES * 12))
    values = {"steps": 6, "batch_tokens": 400, "validate_every": 3, "log_every": 1}
    return from_values(
        {
            "task": "mask-fill",
            "data": {"train": str(path), "valid": str(path), "test": str(path), "vocabulary": 200, "max_length": 19}
            | {"masked": 0.3, "short": 0.0},
            "model": {"preset": "bert:tiny", **SIZES},
            "training": {**TRAINING, **values, **training},
        },
        "test",
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mask-fill")
    run, _ = runner.train(recipe(folder, steps=200, validate_every=200), folder / "run")
    return run.folder


@pytest.fixture(scope="module")
def filler(trained: Path) -> MaskFiller:
    loaded: MaskFiller = regard.load(trained, device="cpu")
    return loaded


def test_the_hidden_word_is_found_by_what_stands_on_both_sides(filler: MaskFiller) -> None:
    for animal, place in zip(ANIMALS, PLACES, strict=True):
        for text, word in ((f"[MASK] likes {place} .", animal), (f"{animal} likes [MASK] .", place)):
            (found,) = filler.fill(text)
            assert found.guesses[0][0].word == word
            assert found.text == text.replace("[MASK]", word)


def test_guesses_are_the_best_words_in_order(filler: MaskFiller) -> None:
    texts = ["[MASK] likes its [MASK] .", "the [MASK] stays"]
    found = filler.fill(texts, top=3)
    assert [len(result.guesses) for result in found] == [2, 1]
    tokens = torch.from_numpy(filler.rows([texts[0]])[0])[None]
    gaps = tokens[0] == filler.tokenizer.mask
    chances = filler.model(tokens)[0, gaps].softmax(-1)
    for guesses, row in zip(found[0].guesses, chances, strict=True):
        assert [guess.probability for guess in guesses] == pytest.approx(row.topk(3).values.tolist(), rel=1e-4)
    best = [guesses[0].probability for guesses in found[0].guesses]
    assert found[0].score == pytest.approx(float(np.log(best).sum()), rel=1e-4)
    assert len(found[0].attention) == 1
    assert filler.fill([]) == []


def test_what_cannot_be_filled_is_said(filler: MaskFiller) -> None:
    with pytest.raises(UsageError, match=r"there is no \[MASK\] to fill in 'the cat'"):
        filler.fill("the cat")
    with pytest.raises(UsageError, match="the text has 41 tokens but the model reads 30 at most"):
        filler.fill("cat " * 40 + "[MASK]")
    with pytest.raises(UsageError, match="top is 0"):
        filler.fill("the [MASK]", top=0)
    with pytest.raises(UsageError, match="nothing to look at in an empty text"):
        filler.look("")
    with pytest.raises(UsageError, match="no pooling called 'max'"):
        filler.embed("cat", pooling="max")


def test_an_embedding_is_the_mean_or_the_first_of_the_states_in_any_company(filler: MaskFiller) -> None:
    texts = ["the cat", "the dog sat on the log .", "", "bird " * 60]
    mean, first = filler.embed(texts), filler.embed(texts, pooling="cls")
    for row, text in enumerate(texts):
        tokens = torch.from_numpy(filler.rows([text], cut=True)[0])[None]
        states, _ = filler.model.encoder(tokens)
        np.testing.assert_allclose(mean[row], states[0].mean(0).detach(), atol=1e-5)
        np.testing.assert_allclose(first[row], states[0, 0].detach(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(filler.embed(texts, normalize=True), axis=1), 1.0, atol=1e-5)
    assert filler.embed([]).shape == (0, 32)


def test_looking_shows_every_token_of_a_pair(filler: MaskFiller, tmp_path: Path) -> None:
    (found,) = filler.look(("cat likes", "likes mat ."))
    assert found.queries == ("[CLS]", "cat", "likes", "[SEP]", "likes", "mat", ".", "[SEP]")
    np.testing.assert_allclose(found.weights.sum(-1), 1.0, atol=1e-5)
    assert found.weights.shape == (2, 8, 8)
    for name in ("page.html", "map.svg"):
        assert "wrote" in draw(filler, "the cat", None, None, None, str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 500
    assert "cat" in draw(filler, "the [MASK] cat", None, None, [1], None)


def test_a_saved_filler_and_a_saved_embedder_come_back(filler: MaskFiller, tmp_path: Path) -> None:
    filler.save_pretrained(tmp_path / "saved")
    again = regard.load(tmp_path / "saved", device="cpu")
    np.testing.assert_array_equal(again.embed("the cat"), filler.embed("the cat"))
    embedder = TextEmbedder(BertEmbedder(filler.model.config), filler.tokenizer, _embedder_json(filler.model.config))
    embedder.save_pretrained(tmp_path / "embedder")
    loaded = regard.load(tmp_path / "embedder", device="cpu")
    assert not hasattr(loaded, "fill")
    np.testing.assert_array_equal(loaded.embed("the cat"), embedder.embed("the cat"))
    (tmp_path / "saved" / "tokenizer.json").write_text(Tokenizer.train("bert", ["a b"], 10).to_json())
    with pytest.raises(RegardError, match="do not belong together"):
        regard.load(tmp_path / "saved")


def _embedder_json(config: Config) -> str:
    from regard import families

    return families.config_json("bert-embedder", config, "mask-fill")


def test_the_loss_is_that_of_the_words_and_the_verdicts_and_may_be_split(tmp_path: Path) -> None:
    known = recipe(tmp_path)
    filler, task = mask_fill.prepare(known, Run.create(tmp_path / "run", known.resolved()), None)
    model = filler.model.train()
    batch, _ = next(task.batches(Place()))
    loss = task.loss(model, batch)
    logits = model(batch.tokens)
    states, mask = model.encoder(batch.tokens)
    words = F.cross_entropy(logits[batch.chosen], batch.words, reduction="sum")
    verdicts = F.cross_entropy(model.next_logits(states, mask), batch.verdicts, reduction="sum")
    torch.testing.assert_close(loss.total.float(), words + task.words_per_pair * verdicts)
    torch.testing.assert_close(loss.nll, words)
    assert loss.count == task.count(batch) == len(batch.words)
    plan, items = task.train.pairs(0), list(batch.items)
    parts = [task.loss(model, task.train.batch(plan, 0, part)) for part in (items[:3], items[3:])]
    torch.testing.assert_close(parts[0].total + parts[1].total, loss.total)
    assert "of the epoch" in task.lines(batch)


class StopsAfter:
    def __init__(self, step: int):
        self.step = step

    def stepped(self, progress: Any, record: dict[str, float]) -> None:
        if progress.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_run_is_the_same_run(tmp_path: Path) -> None:
    run, _ = runner.train(recipe(tmp_path), tmp_path / "whole")
    runner.train(recipe(tmp_path), tmp_path / "parts", watcher=StopsAfter(4))
    again, _ = runner.resume(tmp_path / "parts")
    whole, parts = (checkpoints.load_tensors(known.checkpoint("last") / checkpoints.WEIGHTS) for known in (run, again))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert {"valid_nll", "valid_accuracy", "valid_next_accuracy"} <= run.read_metrics()[-1].keys()


def test_words_alone_can_be_learnt(tmp_path: Path) -> None:
    known = recipe(tmp_path, steps=2, validate_every=2)
    known.model["next_sentence"] = False
    run, _ = runner.train(known, tmp_path / "run")
    assert "valid_next_accuracy" not in run.read_metrics()[-1]
    assert "next sentence" not in runner.evaluate(run.folder).told()


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("data", {"max_length": 33}, "data.max_length is 33 but the model has 32 positions"),
        ("data", {"max_length": 4}, "needs at least 8 tokens"),
        ("data", {"masked": 1.5}, "data.masked is 1.5"),
        ("data", {"document_start": "("}, "not a regular expression"),
        ("data", {"train": "nowhere.txt"}, "no such file"),
        ("data", {"tokenizer": "word"}, r"no \[MASK\]"),
        ("model", {"size": 33}, "cannot be split over 2 heads"),
    ],
)
def test_a_wrong_recipe_leaves_nothing_behind(
    tmp_path: Path, section: str, changes: dict[str, Any], message: str
) -> None:
    known = recipe(tmp_path)
    getattr(known, section).update(changes)
    with pytest.raises(RegardError, match=message):
        runner.train(known, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def invoke(*arguments: str, **options: Any) -> str:
    told = CliRunner().invoke(app, list(arguments), catch_exceptions=False, **options)
    assert told.exit_code == 0, told.output
    return told.stdout


def test_the_command_line_fills_embeds_evaluates_and_looks(trained: Path, tmp_path: Path) -> None:
    run = str(trained)
    assert invoke("fill", run, "[MASK] likes mat .").startswith("cat likes mat .\ncat ")
    found = json.loads(invoke("fill", run, "[MASK] likes mat .", "--top", "2", "--json"))
    assert found["guesses"][0][0]["word"] == "cat"
    assert len(found["guesses"][0]) == 2
    (tmp_path / "texts.txt").write_text("the cat\n\nthe dog\n")
    lines = invoke("embed", run, str(tmp_path / "texts.txt")).splitlines()
    assert [len(line.split()) for line in lines] == [32, 32, 32]
    record = json.loads(invoke("embed", run, "--json", "--pooling", "cls", str(tmp_path / "texts.txt")).splitlines()[2])
    assert record["line"] == 3
    invoke("embed", run, str(tmp_path / "texts.txt"), "-o", str(tmp_path / "vectors.npy"), "--normalize")
    assert np.load(tmp_path / "vectors.npy").shape == (3, 32)
    with pytest.raises(UsageError, match=r"must end in \.npy"):
        invoke("embed", run, "-o", "vectors.txt")
    scores = json.loads(invoke("evaluate", run, "--json"))
    assert scores["accuracy"] > 0.5
    assert scores["perplexity"] == pytest.approx(np.exp(scores["nll"]))
    assert "next sentence: accuracy" in invoke("evaluate", run)
    assert "[SEP]" in invoke("look", run, "the cat\tthe mat")
    with pytest.raises(UsageError, match="maskfiller, which has no 'translate'"):
        invoke("translate", run, os.devnull)


# Fine-tuning: does an animal of the first text live at the place of the second?


def pairs(folder: Path) -> str:
    rows = [
        {"a": f"the {animal}", "b": f"its {place}", "label": "right" if i == j else "wrong"}
        for i, animal in enumerate(ANIMALS)
        for j, place in enumerate(PLACES)
        for _ in range(1 + 2 * (i == j))
    ]
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def tuning(folder: Path, start: Path | None, **training: Any) -> Recipe:
    path = pairs(folder)
    values = {"steps": 4, "batch_tokens": 200, "validate_every": 2, "log_every": 1}
    return from_values(
        {
            "task": "classify",
            "start": None if start is None else str(start),
            "data": {"train": path, "valid": path, "test": path, "text_column": "a", "second_column": "b"}
            | {"tokenizer": "bert", "vocabulary": 100, "max_length": 16},
            "model": {"preset": "bert-classifier:tiny", **SIZES},
            "training": {**TRAINING, **values, **training},
        },
        "test",
    )


def test_a_classifier_starts_from_the_pretrained_encoder(trained: Path, tmp_path: Path) -> None:
    run, _ = runner.train(tuning(tmp_path, trained, learning_rate=0.0), tmp_path / "run")
    ours = checkpoints.load_tensors(run.checkpoint("last") / checkpoints.WEIGHTS)
    theirs = checkpoints.load_tensors(Run.open(trained).checkpoint("best") / checkpoints.WEIGHTS)
    shared = ours.keys() & theirs.keys()
    assert ours.keys() - shared == {"label.weight", "label.bias"}
    assert all(torch.equal(ours[name], theirs[name]) for name in shared)
    log = (run.folder / "train.log").read_text()
    assert f"started from {trained}: {len(shared)} of {len(ours)} tensors taken; new here: label.bias, label.w" in log
    assert "left behind: next.bias" in log
    tokenizers = [known.tokenizer.to_json() for known in (regard.load(run.folder), regard.load(trained))]
    assert tokenizers[0] == tokenizers[1]
    assert regard.load(run.folder).model.config.separator == regard.load(run.folder).tokenizer.end


def test_a_run_that_started_elsewhere_is_resumed_without_it(trained: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(trained, tmp_path / "start")
    whole, _ = runner.train(tuning(tmp_path, tmp_path / "start"), tmp_path / "whole")
    runner.train(tuning(tmp_path, tmp_path / "start"), tmp_path / "parts", watcher=StopsAfter(2))
    shutil.rmtree(tmp_path / "start")
    parts, _ = runner.resume(tmp_path / "parts")
    first, second = (
        checkpoints.load_tensors(known.checkpoint("last") / checkpoints.WEIGHTS) for known in (whole, parts)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_start_that_does_not_fit_is_refused_or_told(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such run or checkpoint folder"):
        runner.train(tuning(tmp_path, tmp_path / "nowhere"), tmp_path / "run")
    known = tuning(tmp_path, trained)
    known.model.update(max_length=16, hidden_size=62, size=34)
    with pytest.raises(UsageError, match="has no tensor in common with this model"):
        runner.train(known, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    known = tuning(tmp_path, trained)
    known.model["hidden_size"] = 48
    run, _ = runner.train(known, tmp_path / "run")
    log = (run.folder / "train.log").read_text()
    assert "of another shape: encoder.layers.0.feed_forward.expand.weight (64, 32) for (48, 32)" in log


def test_pairs_are_classified_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    known = tuning(tmp_path, None, steps=120, validate_every=120, learning_rate=0.005)
    run, _ = runner.train(known, tmp_path / "run")
    classifier = regard.load(run.folder, device="cpu")
    found = classifier.classify([("the cat", "its mat"), ("the cat", "its lake"), ("", ""), "the cat"])
    assert [result.label for result in found[:3]] == ["right", "wrong", ""]
    assert (found[0].text, found[0].second) == ("the cat", "its mat")
    assert found[3].label
    assert runner.evaluate(run.folder).accuracy > 0.9
    (tmp_path / "pairs.txt").write_text("the cat\tits mat\nthe cat\tits lake\n\n")
    said = invoke("classify", str(run.folder), str(tmp_path / "pairs.txt")).splitlines()
    assert [line.split("\t")[0] for line in said] == ["right", "wrong", ""]
    table = str(tmp_path / "pairs.jsonl")
    said = invoke("classify", str(run.folder), table, "--text-column", "a", "--second-column", "b").splitlines()
    assert said[0].startswith("right")
    (first, *_) = classifier.look_tokens(("the cat", "its mat"))
    assert first.queries[0] == "[CLS]"
    assert "right" in invoke("look", str(run.folder), "the cat\tits mat")
    page = tmp_path / "why.html"
    why = invoke("classify", str(run.folder), str(tmp_path / "pairs.txt"), "--why", "-o", str(page))
    assert "[SEP]" in why  # a map between tokens: there are no sentences to shade
    assert "its lake" in page.read_text("utf-8")


def test_a_model_that_reads_one_text_refuses_pairs(tmp_path: Path) -> None:
    known = tuning(tmp_path, None)
    known.model.clear()
    known.model.update(preset="han:tiny")
    with pytest.raises(UsageError, match=r"pairs\.jsonl, line 1: a pair of texts needs a model that reads pairs"):
        runner.train(known, tmp_path / "run")
    assert not (tmp_path / "run").exists()


DATA = Path(os.environ.get("REGARD_DATA", "/nowhere"))
needs_glue = pytest.mark.skipif(
    not (DATA / "sst2").is_dir() or not (DATA / "mrpc").is_dir(), reason="SST-2 and MRPC are not in REGARD_DATA"
)


@needs_glue
def test_the_named_sets_have_the_known_sizes() -> None:
    assert [sum(1 for _ in named_labelled("sst2", DATA, split)) for split in ("valid", "test")] == [872, 1821]
    sets = {split: list(named_labelled("mrpc", DATA, split)) for split in ("train", "valid", "test")}
    assert [len(known) for known in sets.values()] == [3676, 400, 1725]
    assert sum(pair.label == "same" for pair in sets["test"]) == 1147
    assert all(pair.second for pair in sets["test"])
    texts = [{(pair.text, pair.second) for pair in sets[split]} for split in ("train", "valid")]
    assert not texts[0] & texts[1]


def test_a_named_set_that_is_missing_says_where_to_put_it(tmp_path: Path) -> None:
    for name, file in (("sst2", "train.tsv.gz"), ("mrpc", "msr_paraphrase_train.txt.gz")):
        with pytest.raises(RegardError, match=f"{file}: no such file; put it there yourself"):
            named_labelled(name, tmp_path, "train")
        with pytest.raises(UsageError, match="unknown split 'dev'"):
            named_labelled(name, tmp_path, "dev")


@pytest.mark.parametrize("name", ["wikitext2-bert", "sst2-bert", "mrpc-bert"])
def test_the_recipes_can_be_built(name: str) -> None:
    from regard import families, settings
    from regard.tasks.classify import ClassificationData
    from regard.tasks.mask_fill import MaskFillData

    known = load_recipe(name)
    families.check(known.model, vocabulary=100)
    section = {"mask-fill": MaskFillData, "classify": ClassificationData}[known.task]
    settings.build(section, known.data, "data")
    assert load_recipe("sst2-bert", ["start=null"]).start is None


def test_the_command_line_says_how_far_8_bits_turn_vectors(trained: Path, tmp_path: Path) -> None:
    run, texts = str(trained), tmp_path / "texts.txt"
    texts.write_text("the cat likes mat .\n\nthe dog\n")
    asked = ("evaluate", run, "--int8", "--texts", str(texts))
    found = json.loads(invoke(*asked, "--json"))
    read = ["the cat likes mat .", "the dog"]  # an empty line has no vector to turn
    whole, int8 = (regard.load(trained, int8=bits).embed(read, normalize=True) for bits in (False, True))
    cosines = (whole * int8).sum(1)
    assert found["texts"] == 2
    assert found["mean_cosine"] == pytest.approx(cosines.mean(), abs=1e-6)
    assert found["smallest_cosine"] == pytest.approx(cosines.min(), abs=1e-6)
    assert 0.9 < found["smallest_cosine"] < 1
    assert found["most_turned"] == read[int(cosines.argmin())]
    assert f"{found['mean_cosine']:.4f} with the whole ones on average" in invoke(*asked)
    texts.write_text("\n\n")
    with pytest.raises(UsageError, match="there is no text in it"):
        invoke(*asked)
    with pytest.raises(UsageError, match="it goes with --int8"):
        invoke("evaluate", run, "--texts", str(texts))
