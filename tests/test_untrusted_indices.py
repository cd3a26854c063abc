"""Numbers from files that are used as indices are checked against what they index when they are loaded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from export import tiny_runs
from fuzz import examples
from regard.data.index_checks import AT_ONCE, check_range
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.recipes import load_recipe, runner
from training import tiny_recipes

# The files that a run keeps of its data.


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tiny_recipes.write_recipes(tmp_path_factory.mktemp("recipes"))


@pytest.mark.parametrize(
    ("name", "file", "kind", "value"),
    [
        ("transformer", "train/source.tokens", np.uint32, 60),
        ("transformer", "train/target.tokens", np.uint32, 2**32 - 1),
        ("transformer", "valid/source.tokens", np.uint32, 10**6),
        ("gpt2", "train/tokens", np.uint32, 60),
        ("bert", "train/tokens", np.uint32, 60),
        ("han", "train/tokens", np.uint32, 60),
        ("han", "train/labels", np.int64, 2),
        ("han", "train/labels", np.int64, -100),
        ("bert-classifier", "valid/tokens", np.uint32, 60),
        ("vit", "train/labels", np.int64, 4),
        ("image-words", "train/labels", np.int64, 1 << 40),
    ],
)
def test_stored_data_beyond_the_vocabulary_or_the_labels_is_refused(
    name: str, file: str, kind: type, value: int, recipes: dict[str, Path], tmp_path: Path
) -> None:
    recipe = load_recipe(str(recipes[name]), ["training.steps=1", "training.validate_every=1"])
    run, _ = runner.train(recipe, tmp_path / "run")
    path = run.folder / "data" / file
    values = np.fromfile(path, dtype=kind)
    values[-1] = value
    values.tofile(path)
    with pytest.raises(RegardError, match=rf"has the value {value} but must lie in 0 \.\.\. \d+; delete") as caught:
        runner.resume(run.folder)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_run_whose_stored_data_is_whole_goes_on(recipes: dict[str, Path], tmp_path: Path) -> None:
    for name in ("transformer", "gpt2", "bert", "han", "vit", "image-words"):
        recipe = load_recipe(str(recipes[name]), ["training.steps=1", "training.validate_every=1"])
        run, _ = runner.train(recipe, tmp_path / name)
        assert runner.resume(run.folder)[1].reason == "steps"


@pytest.mark.parametrize("content", ["{}", '{"labels": 3}', '{"labels": [1, 2]}'])
def test_labels_of_a_run_that_are_no_names_are_refused(content: str, recipes: dict[str, Path], tmp_path: Path) -> None:
    run, _ = runner.train(load_recipe(str(recipes["han"]), ["training.steps=1"]), tmp_path / "run")
    (run.folder / "data" / "labels.json").write_text(content)
    with pytest.raises(RegardError, match=r"labels\.json: labels is .* but must be a list of texts"):
        runner.resume(run.folder)


def test_a_range_is_checked_piece_by_piece_to_the_end() -> None:
    path = Path("folder/tokens")
    values = np.zeros(AT_ONCE + 3, dtype=np.uint32)
    check_range(values, 1, path)
    check_range(values[:0], 1, path)
    values[-1] = 7
    check_range(values, None, path)
    check_range(values, 8, path)
    with pytest.raises(RegardError, match=r"folder/tokens: has the value 7 but must lie in 0 \.\.\. 6; delete"):
        check_range(values, 7, path)
    with pytest.raises(RegardError, match="has the value -1 but"):
        check_range(np.array([3, -1, 2]), 7, path)


# The files of a checkpoint.


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


PADDING = {
    "strategy": {"Fixed": 12},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 99_999,
    "pad_type_id": 0,
    "pad_token": "x",
}
TRUNCATION = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}


@pytest.mark.parametrize(
    "text", [examples.word_tokenizer(), examples.bpe_tokenizer(), examples.bert_tokenizer(), examples.byte_tokenizer()]
)
def test_a_tokenizer_neither_pads_nor_truncates(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    wanted = Tokenizer.load(path).encode("the cat sat")
    edited(path, padding=PADDING, truncation=TRUNCATION)
    tokenizer = Tokenizer.load(path)
    assert tokenizer.encode("the cat sat") == wanted
    assert list(tokenizer.encode_all(["the cat sat"])) == [wanted]
    assert max(wanted) < len(tokenizer)


def test_a_checkpoint_whose_tokenizer_pads_beyond_the_vocabulary_is_used_without(tmp_path: Path) -> None:
    tiny_runs.encoder("bert-classifier", tmp_path / "run")
    wanted = regard.load(tmp_path / "run").classify(["a man"])[0].probabilities
    edited(tmp_path / "run" / "tokenizer.json", padding=PADDING)
    assert regard.load(tmp_path / "run").classify(["a man"])[0].probabilities == wanted


@pytest.mark.parametrize(("name", "token"), [("pad", 99_999), ("pad", -5), ("separator", 99_999), ("separator", -2)])
def test_a_special_token_beyond_the_vocabulary_is_refused(name: str, token: int, tmp_path: Path) -> None:
    tiny_runs.encoder("bert-classifier", tmp_path / "run")
    edited(tmp_path / "run" / "config.json", **{name: token})
    with pytest.raises(RegardError, match=rf"config\.json: {name} is {token} but must be one of the \d+ tokens, or -1"):
        regard.load(tmp_path / "run")


def test_a_padding_token_that_starts_sentences_must_be_in_the_vocabulary(tmp_path: Path) -> None:
    """`nn.Embedding` has an assertion for it, which is not an error of one line."""
    tiny_runs.translator(tmp_path / "run")
    edited(tmp_path / "run" / "config.json", pad=99_999, starts_with_pad=True)
    with pytest.raises(RegardError, match=r"pad is 99999 but must be one of"):
        regard.load(tmp_path / "run")


def test_a_model_without_a_padding_token_is_loaded(tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["pad"] == -1
    assert regard.load(tmp_path / "run").generate(["two"], max_new_tokens=1)
