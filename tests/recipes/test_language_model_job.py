"""A language model from its recipe to its verbs, on a few lines of text."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.errors import RegardError, UsageError
from regard.recipes import from_values, load_recipe, runner
from regard.training import checkpoints

LINES = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw a dog .", ""] * 5


def recipe(folder: Path, **model: Any):
    (folder / "text.txt").write_text("\n".join(LINES) + "\n")
    path = str(folder / "text.txt")
    return from_values(
        {
            "task": "language-model",
            "data": {"train": path, "valid": path, "test": [path, path], "vocabulary": 50, "chunk": 6, "context": 4},
            "model": {"preset": "lstmn:tiny", "size": 8, "embedding_size": 8, "span": 4, "dropout": 0.2, **model},
            "training": {
                "steps": 6,
                "batch_tokens": 24,
                "learning_rate": 0.01,
                "warmup": 1,
                "validate_every": 3,
                "log_every": 1,
                "label_smoothing": 0.0,
                "device": "cpu",
            },
            "decoding": {"num_beams": 1, "max_new_tokens": 5},
        },
        "test",
    )


class StopsAfter:
    def __init__(self, step: int):
        self.step = step

    def stepped(self, progress: Any, record: dict[str, float]) -> None:
        if progress.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("intra_attention", [True, False])
def test_an_interrupted_run_is_the_same_run(intra_attention: bool, tmp_path: Path) -> None:
    wanted = recipe(tmp_path, intra_attention=intra_attention)
    run, outcome = runner.train(wanted, tmp_path / "whole")
    assert outcome.reason == "steps"
    _, stopped = runner.train(wanted, tmp_path / "parts", watcher=StopsAfter(4))
    assert stopped.reason == "stopped"
    again, outcome = runner.resume(tmp_path / "parts")
    assert outcome.reason == "steps"
    whole, parts = (checkpoints.load_tensors(known.checkpoint("last") / checkpoints.WEIGHTS) for known in (run, again))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    curves = [
        [(row["step"], row["loss"], row.get("valid_word_perplexity")) for row in known.read_metrics()]
        for known in (run, again)
    ]
    assert curves[0] == curves[1]
    assert len(curves[0]) == 6


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language-model")
    run, _ = runner.train(recipe(folder), folder / "run")
    return run.folder


def test_a_run_is_evaluated_on_its_splits(trained: Path) -> None:
    found = json.loads(CliRunner().invoke(app, ["evaluate", str(trained), "--json"]).stdout)
    words = 2 * sum(len(line.split()) + 1 for line in LINES)
    assert found["words"] == words
    assert found["split"] == "test"
    assert "per word" in CliRunner().invoke(app, ["evaluate", str(trained), "--split", "valid"]).stdout


def test_a_run_generates(trained: Path) -> None:
    told = CliRunner().invoke(app, ["generate", str(trained), "the cat"])
    assert told.exit_code == 0
    assert told.stdout.startswith("the cat")
    arguments = ["generate", str(trained), "", "--sample", "--seed", "3", "--top-p", "0.9", "--json"]
    first, again = (json.loads(CliRunner().invoke(app, arguments).stdout) for _ in range(2))
    assert first == again
    assert first["prompt"] == ""


def test_a_run_is_looked_into(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    assert CliRunner().invoke(app, ["look", str(trained), "the cat sat", "-o", str(path)]).exit_code == 0
    assert "the" in path.read_text()
    with pytest.raises(UsageError, match="empty text"):
        CliRunner().invoke(app, ["look", str(trained), " "], catch_exceptions=False)


def test_a_run_has_no_verbs_of_other_tasks(trained: Path) -> None:
    with pytest.raises(UsageError, match="languagemodel, which has no 'translate'"):
        CliRunner().invoke(app, ["translate", str(trained), os.devnull], catch_exceptions=False)


@pytest.mark.parametrize("content", ["", "\n\n \n"], ids=["empty", "empty lines"])
def test_a_text_without_words_is_refused_and_no_run_folder_stays(content: str, tmp_path: Path) -> None:
    wanted = recipe(tmp_path)
    (tmp_path / "text.txt").write_text(content)
    with pytest.raises(RegardError, match="has no word"):
        runner.train(wanted, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_text_of_a_single_word_can_be_learnt(tmp_path: Path) -> None:
    wanted = recipe(tmp_path)
    (tmp_path / "text.txt").write_text("hello\n")
    run, _ = runner.train(wanted, tmp_path / "run")
    assert regard.load(run.folder).generate("hel")[0].text.startswith("hel")


def test_a_missing_file_costs_no_run_folder(tmp_path: Path) -> None:
    wanted = recipe(tmp_path)
    (tmp_path / "text.txt").unlink()
    with pytest.raises(UsageError, match="no such file"):
        runner.train(wanted, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_of_another_model_is_refused(trained: Path, tmp_path: Path) -> None:
    model = regard.load(trained)
    model.save_pretrained(tmp_path / "saved")
    from regard.data.tokenizer import Tokenizer

    (tmp_path / "saved" / "tokenizer.json").write_text(Tokenizer.train("word", ["a b"], 10).to_json())
    with pytest.raises(RegardError, match="do not belong together"):
        regard.load(tmp_path / "saved")


def test_the_recipe_is_complete() -> None:
    known = load_recipe("wikitext2-lstmn")
    assert known.task == "language-model"
    assert known.training_settings().label_smoothing == 0.0


def gpt2_recipe(folder: Path, **data: Any):
    values = recipe(folder).resolved()
    values["data"] |= {"tokenizer": "char", "chunk": 8, "context": 0, **data}
    values["model"] = {"preset": "gpt2:tiny", "size": 8, "hidden_size": 16, "heads": 2, "layers": 1, "context": 8}
    return from_values(values, "test")


def test_a_gpt2_goes_from_its_recipe_to_its_verbs_and_an_interruption_changes_nothing(tmp_path: Path) -> None:
    wanted = gpt2_recipe(tmp_path)
    run, _ = runner.train(wanted, tmp_path / "whole")
    runner.train(wanted, tmp_path / "parts", watcher=StopsAfter(4))
    again, _ = runner.resume(tmp_path / "parts")
    whole, parts = (checkpoints.load_tensors(known.checkpoint("last") / checkpoints.WEIGHTS) for known in (run, again))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    evaluated = [
        json.loads(CliRunner().invoke(app, ["evaluate", str(run.folder), "--json", *stride]).stdout)
        for stride in ([], ["--stride", "4"], ["--stride", "1"])
    ]
    assert evaluated[0] == evaluated[1] != evaluated[2]
    assert evaluated[0]["tokens"] == 2 * len("\n".join(LINES) + "\n")  # every character of two files, and nothing else
    assert CliRunner().invoke(app, ["generate", str(run.folder), "the  cat"]).stdout.startswith("the  cat")


def test_a_training_example_must_fit_into_the_context(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"data\.chunk 8 make 9 tokens, but the model holds 8"):
        runner.train(gpt2_recipe(tmp_path, context=1), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_stride_is_not_for_models_that_read_on(trained: Path) -> None:
    with pytest.raises(UsageError, match="leave it out"):
        runner.evaluate(trained, stride=3)


@pytest.mark.parametrize("name", ["shakespeare-gpt2", "wikitext2-gpt2"])
def test_the_gpt2_recipes_fill_their_windows(name: str) -> None:
    from regard.families import resolve

    known = load_recipe(name)
    _, config = resolve(known.model, vocabulary=100)
    assert known.data["chunk"] + known.data["context"] == config.context
    assert known.training_settings().label_smoothing == 0.0
