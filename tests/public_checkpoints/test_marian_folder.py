"""A Marian checkpoint in Hugging Face layout translates here as it does in `transformers`, and can be kept as ours."""

import json
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from marian_checkpoint import SOURCES, TARGETS, marian_folder
from regard.cli import main
from regard.data.marian_tokenizer import MarianTokenizer
from regard.decoding.settings import Decoding
from regard.errors import RegardError, UsageError
from regard.models import transformer
from regard.public.marian import public_decoding
from regard.recipes import from_values, runner
from regard.tasks.translator import Translator

LINES = [*SOURCES, "", ">>deu<< the old house", "a ☃ stands"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("opus")
    return folder, marian_folder(folder)


@pytest.fixture(scope="module")
def translator(saved: tuple[Path, Any]) -> Translator:
    return regard.load(saved[0], device="cpu")


@pytest.fixture
def folder(saved: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy to be broken."""
    return Path(shutil.copytree(saved[0], tmp_path / "opus"))


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **values}), "utf-8")


def test_it_opens_as_a_translator_with_its_own_search(translator: Translator) -> None:
    assert isinstance(translator, Translator)
    assert isinstance(translator.tokenizer, MarianTokenizer)
    assert translator.model.config.starts_with_pad
    # max_length 12 counts the start and the forced end
    assert translator.decoding == Decoding(num_beams=3, max_new_tokens=10, renormalize_logits=True)


@pytest.mark.parametrize("beams", [1, 3])
def test_texts_are_those_of_transformers(saved: tuple[Path, Any], translator: Translator, beams: int) -> None:
    transformers = pytest.importorskip("transformers")
    folder, model = saved
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    texts = [line for line in LINES if line]
    with torch.no_grad():
        said = model.generate(**tokenizer(texts, return_tensors="pt", padding=True), num_beams=beams)
    ours = translator.translate(texts, num_beams=beams)
    expected = [[token for token in row[1:].tolist() if token not in (0, tokenizer.pad_token_id)] for row in said]
    assert [result.tokens for result in ours] == expected
    known = [row for row in range(len(texts)) if translator.tokenizer.unknown not in expected[row]]
    decoded = tokenizer.batch_decode(said, skip_special_tokens=True)
    assert known
    assert [ours[row].text for row in known] == [decoded[row] for row in known]


def test_attention_and_alignments_are_there(translator: Translator) -> None:
    (result,) = translator.translate(["the old house"])
    assert {known.kind for known in result.attention} == {"encoder", "decoder", "cross"}
    cross = next(known for known in result.attention if known.kind == "cross")
    assert cross.keys[-1] == "</s>"
    np.testing.assert_allclose(cross.weights.sum(-1), 1.0, atol=1e-5)
    ((links,),) = translator.links([result])
    assert all(0 <= int(link.split("-")[0]) < 3 for link in links.split())
    told = translator.look(SOURCES[0], TARGETS[0])
    pieces = translator.tokenizer.pieces(translator.tokenizer.target.encode(TARGETS[0]))
    assert list(next(known for known in told if known.kind == "cross").queries) == [*pieces, "</s>"]


def test_saved_as_ours_it_translates_the_same(translator: Translator, tmp_path: Path) -> None:
    translator.save_pretrained(tmp_path / "ours")
    again = regard.load(tmp_path / "ours", device="cpu")
    assert again.decoding == translator.decoding
    assert again.model.config == translator.model.config
    for one, other in zip(translator.translate(LINES), again.translate(LINES), strict=True):
        assert (one.text, one.score, one.tokens) == (other.text, other.score, other.tokens)


def test_the_command_line_translates_a_public_folder(
    saved: tuple[Path, Any],
    translator: Translator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    monkeypatch.setattr(
        sys, "argv", ["regard", "translate", str(saved[0]), str(tmp_path / "lines.txt"), "--alignments"]
    )
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    said = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [result.text for result in translator.translate(LINES)]


def test_a_recipe_starts_from_it_and_learns_on(saved: tuple[Path, Any], tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{a}\t{b}\n" for a, b in zip(SOURCES, TARGETS, strict=True)), "utf-8")
    values = dict(
        task="translate",
        start=str(saved[0]),
        data=dict(train=[str(table)], valid=[str(table)]),
        model=dict(
            preset="transformer:opus", size=16, hidden_size=24, heads=4, encoder_layers=2, decoder_layers=2, dropout=0.0
        ),
        training=dict(steps=8, batch_tokens=200, validate_every=8, log_every=4, learning_rate=0.01, device="cpu"),
    )
    runner.train(from_values(values, "marian"), tmp_path / "run", None)
    tuned = regard.load(tmp_path / "run", device="cpu")
    assert tuned.model.config.starts_with_pad
    log = (tmp_path / "run" / "train.log").read_text("utf-8")
    tensors = len(tuned.model.state_dict())
    assert f"{tensors} of {tensors} tensors taken" in log
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kept", [*transformer.PUBLIC_TIED, "model.shared.weight"])
def test_the_embedding_may_stand_under_any_of_its_names(folder: Path, translator: Translator, kept: str) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in (*transformer.PUBLIC_TIED, "model.shared.weight"):
        tensors.pop(name, None)
    save_file({**tensors, kept: translator.model.embedding.weight.detach()}, path)
    loaded = regard.load(folder, device="cpu")
    assert torch.equal(loaded.model.embedding.weight, translator.model.embedding.weight)


def test_without_a_generation_config_the_older_place_is_read(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    values = dict(num_beams=6, max_length=512, bad_words_ids=[[9]], forced_eos_token_id=0)
    expected = Decoding(num_beams=6, max_new_tokens=510)
    assert public_decoding(folder, values, 9) == expected
    assert public_decoding(folder, {**values, "forced_eos_token_id": None}, 9) == replace(expected, max_new_tokens=511)
    assert public_decoding(folder, {}, 9) == Decoding(num_beams=1)


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("generation_config.json", dict(no_repeat_ngram_size=3), "no_repeat_ngram_size is 3"),
        ("generation_config.json", dict(bad_words_ids=[[4, 5]]), "bad_words_ids"),
        ("generation_config.json", dict(bad_words_ids=3), "cannot be understood"),
        ("generation_config.json", dict(num_beams=0), "num_beams is 0"),
        ("config.json", dict(share_encoder_decoder_embeddings=False), "share_encoder_decoder_embeddings"),
        ("config.json", dict(architectures=["MarianForCausalLM"]), "MarianForCausalLM"),
        ("config.json", dict(d_model="16"), "config.json.*size"),
        ("config.json", dict(d_model=32), r"k_proj.bias \(16,\) instead of \(32,\)"),
        ("config.json", dict(vocab_size=7, decoder_vocab_size=7), "do not belong together"),
        ("config.json", dict(eos_token_id=1), "</s> is token 0 in vocab.json but 1 in config.json"),
    ],
)
def test_what_does_not_fit_is_one_line(folder: Path, file: str, values: dict[str, Any], said: str) -> None:
    change(folder / file, **values)
    with pytest.raises(RegardError, match=said) as caught:
        regard.load(folder, device="cpu")
    assert "\n" not in str(caught.value)


def test_a_folder_without_its_pieces_is_refused(folder: Path) -> None:
    (folder / "target.spm").unlink()
    with pytest.raises(RegardError, match=r"target.spm: No such file"):
        regard.load(folder, device="cpu")


def test_a_tokenizer_that_does_not_fit_our_checkpoint_is_refused(translator: Translator, tmp_path: Path) -> None:
    translator.save_pretrained(tmp_path / "ours")
    path = tmp_path / "ours" / "tokenizer.json"
    vocabulary = {"</s>": 0, "<unk>": 1, "<pad>": 2}
    change(path, vocabulary=vocabulary)
    with pytest.raises(RegardError, match="they do not belong together"):
        regard.load(tmp_path / "ours", device="cpu")


def test_sampling_settings_matter_only_where_they_are_used(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps(dict(do_sample=True, temperature=0.7, top_k=5)))
    assert public_decoding(folder, {}, 9) == Decoding(num_beams=1, do_sample=True, temperature=0.7, top_k=5)
    (folder / "generation_config.json").write_text(json.dumps(dict(temperature=0.7, top_k=0, num_beams=2)))
    assert public_decoding(folder, {}, 9) == Decoding(num_beams=2)
    with pytest.raises(UsageError, match="early_stopping"):
        public_decoding(folder, change(folder / "generation_config.json", early_stopping=True) or {}, 9)
