"""Folders for `transformers`: loaded there they say the same, and they come back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

import regard
from export import tiny_runs
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError
from regard.export import export_run, hf
from regard.export.hf import renumbered
from regard.models.gpt2 import to_public_config
from regard.models.transformer import Transformer

ENCODERS: dict[str, dict[str, Any]] = {
    "bert": {},
    "bert without next sentence": dict(next_sentence=False, activation="gelu_tanh"),
    "bert-classifier": {},
    "bert-tagger": {},
    "bert-embedder": {},
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": dict(pre_norm=True, activation="gelu"),
    "with a bias": dict(output_bias=True, scaled=False),
}
pytestmark = pytest.mark.filterwarnings("ignore:builtin type .* has no __module__ attribute:DeprecationWarning")


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers, the reference, is not installed")


def exported(tmp_path: Path) -> list[str]:
    report = export_run(tmp_path / "run", "hf", tmp_path / "copy")
    assert report.holds
    return [finding.what for finding in report.findings]


@pytest.mark.parametrize("kind", ENCODERS)
def test_encoders_are_the_same_and_come_back(kind: str, tmp_path: Path, transformers: Any) -> None:
    verbs = tiny_runs.encoder(kind.split()[0], tmp_path / "run", **ENCODERS[kind])
    assert exported(tmp_path)[:2] == ["tensors", "tokens"]
    again = regard.load(tmp_path / "copy", device="cpu")
    assert type(again) is type(verbs)
    tokens = torch.tensor([[verbs.tokenizer.start, 7, 8, verbs.tokenizer.end]])
    assert torch.equal(again.model(tokens), verbs.model(tokens))
    assert getattr(again, "labels", None) == getattr(verbs, "labels", None)


def test_an_embedder_pools_as_before(tmp_path: Path, transformers: Any) -> None:
    verbs = tiny_runs.encoder("bert-embedder", tmp_path / "run", pooling="cls", normalize=True)
    exported(tmp_path)
    again = regard.load(tmp_path / "copy", device="cpu")
    np.testing.assert_allclose(again.embed("the dogs"), verbs.embed("the dogs"), atol=1e-6)


@pytest.mark.parametrize("kind", ["bytes", "char", "bpe"])
def test_gpt2_says_the_same_and_comes_back(kind: str, tmp_path: Path, transformers: Any) -> None:
    verbs = tiny_runs.language_model(tmp_path / "run", kind)
    assert exported(tmp_path) == ["tensors", "tokens", "logits", "greedy"]
    again = regard.load(tmp_path / "copy", device="cpu")
    assert again.generate("the man", max_new_tokens=8)[0].text == verbs.generate("the man", max_new_tokens=8)[0].text


def test_a_gpt2_with_an_output_matrix_of_its_own_comes_back(tmp_path: Path, transformers: Any) -> None:
    verbs = tiny_runs.language_model(tmp_path / "run", tied=False)
    assert exported(tmp_path) == ["tensors", "tokens", "logits", "greedy"]
    again = regard.load(tmp_path / "copy", device="cpu")
    tokens = torch.arange(12)[None]
    assert not again.model.config.tied
    assert torch.equal(again.model(tokens), verbs.model(tokens))


def test_a_gpt2_of_whole_words_without_a_token_for_the_start_comes_back(tmp_path: Path, transformers: Any) -> None:
    words = ["[UNK]", "<eos>", *dict.fromkeys(" ".join(tiny_runs.PLAIN).split())]
    backend = Backend(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    verbs = tiny_runs.language_model_of(Tokenizer(backend), tmp_path / "run")
    assert exported(tmp_path) == ["tensors", "tokens", "logits", "greedy"]
    again = regard.load(tmp_path / "copy", device="cpu")
    assert again.generate("a man", max_new_tokens=8)[0].text == verbs.generate("a man", max_new_tokens=8)[0].text


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_translators_say_the_same(kind: str, tmp_path: Path, transformers: Any) -> None:
    verbs = tiny_runs.translator(tmp_path / "run", **TRANSLATORS[kind])
    assert exported(tmp_path) == ["tensors", "tokens", "logits", "greedy"]
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "copy")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "copy")
    source = tokenizer(["two dogs !"], return_tensors="pt")
    said = theirs.generate(source.input_ids, num_beams=1, max_new_tokens=6, max_length=None)
    ours = verbs.translate("two dogs !", num_beams=1, max_new_tokens=6)[0].text
    assert tokenizer.decode(said[0], skip_special_tokens=True).strip() == ours


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")  # which transformers asks for and never calls
def test_marian_comes_back_whole(tmp_path: Path, transformers: Any) -> None:
    verbs = tiny_runs.marian(tmp_path / "run")
    assert exported(tmp_path) == ["tensors", "tokens", "logits", "greedy"]
    again = regard.load(tmp_path / "copy", device="cpu")
    assert again.decoding == verbs.decoding
    assert again.translate("a man in a hat")[0].text == verbs.translate("a man in a hat")[0].text


@pytest.mark.parametrize("shape", [(8, 8), (12, 16)])
def test_pictures_are_seen_the_same_and_keep_their_labels(
    shape: tuple[int, int], tmp_path: Path, transformers: Any
) -> None:
    verbs = tiny_runs.pictures(tmp_path / "run", shape)
    assert exported(tmp_path) == ["tensors", "logits"]
    again = regard.load(tmp_path / "copy", device="cpu")
    assert (again.labels, again.preprocessing) == (verbs.labels, verbs.preprocessing)


def test_a_wrong_tensor_is_noticed_and_nothing_is_left(
    tmp_path: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_runs.encoder("bert-classifier", tmp_path / "run")
    right = hf.public_tensors

    def wrong(subject: Any) -> dict[str, torch.Tensor]:
        tensors = right(subject)
        return tensors | {"classifier.bias": tensors["classifier.bias"] + 0.01}

    monkeypatch.setattr(hf, "public_tensors", wrong)
    with pytest.raises(RegardError, match=r"was not written.*logits"):
        export_run(tmp_path / "run", "hf", tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_gguf_file_is_read_by_transformers_as_the_same_model(tmp_path: Path, transformers: Any) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    verbs = tiny_runs.language_model(tmp_path / "run")
    config = verbs.model.config
    assert export_run(tmp_path / "run", "gguf", tmp_path / "copy").holds
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**to_public_config(config))).eval()
    read = load_gguf_checkpoint(tmp_path / "copy" / "model.gguf", return_tensors=True, model_to_load=theirs)
    assert read["config"]["n_layer"] == config.layers
    assert read["config"]["n_ctx"] == config.context
    theirs.load_state_dict(read["tensors"])
    tokens = torch.tensor([verbs.tokenizer.encode("the dogs are tired")])
    torch.testing.assert_close(theirs(tokens).logits, verbs.model(tokens), atol=1e-4, rtol=1e-4)


def test_learned_positions_have_no_counterpart(tmp_path: Path) -> None:
    tiny_runs.translator(tmp_path / "run", positions="learned")
    with pytest.raises(UsageError, match=r"learned positions.*--to ctranslate2 or onnx"):
        export_run(tmp_path / "run", "hf", tmp_path / "copy")


def test_the_numbers_of_all_states_may_be_renumbered(tmp_path: Path) -> None:
    model = tiny_runs.translator(tmp_path / "run", positions="learned", pre_norm=True).model
    order = torch.randperm(model.config.size, generator=torch.Generator().manual_seed(1))
    other = Transformer(model.config).eval()
    other.load_state_dict(renumbered(model.state_dict(), order))
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]])
    torch.testing.assert_close(other(source, target), model(source, target), atol=1e-5, rtol=1e-5)
    assert not torch.equal(other.embedding.weight, model.embedding.weight)
