"""A folder in Hugging Face layout opens as what it was saved from, whichever habits its writer had."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_checkpoints import (
    BERT_TEXTS,
    TEXTS,
    bert_folder,
    bert_tokenizer,
    change,
    gpt2_folder,
    gpt2_tokenizer,
    vit_folder,
    write,
    write_json,
)
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers
from torch import Tensor

import regard
from regard.data.frames import Frame
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError
from regard.recipes import from_values, runner
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageClassifier, ImageEmbedder
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import MaskFiller, TextEmbedder
from regard.tasks.token_tagger import TokenTagger

VERBS = {
    "bert": MaskFiller,
    "bert-classifier": Classifier,
    "bert-tagger": TokenTagger,
    "bert-embedder": TextEmbedder,
}


def load(folder: Path) -> Any:
    return regard.load(folder, device="cpu")


def same_weights(loaded: Any, model: Any) -> None:
    expected = model.state_dict()
    found = loaded.model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("family", VERBS)
def test_each_head_of_bert_opens_with_its_verbs_and_its_weights(family: str, tmp_path: Path) -> None:
    model, _ = bert_folder(tmp_path, family)
    loaded = load(tmp_path)
    assert type(loaded) is VERBS[family]
    assert loaded.model.config == model.config
    same_weights(loaded, model)
    assert not loaded.model.training
    assert all(parameter.requires_grad for parameter in loaded.model.parameters())


def test_gpt2_opens_as_a_language_model(tmp_path: Path) -> None:
    model, _ = gpt2_folder(tmp_path)
    loaded = load(tmp_path)
    assert isinstance(loaded, LanguageModel)
    same_weights(loaded, model)
    assert loaded.decoding.num_beams == 1
    assert loaded.generate("the cat", max_new_tokens=3)[0].text.startswith("the cat")


def test_vit_opens_with_its_labels_and_its_way_to_read_pictures(tmp_path: Path) -> None:
    model, _ = vit_folder(tmp_path)
    change(tmp_path / "config.json", id2label={"2": "eel", "0": "cat", "1": "dog"})
    loaded = load(tmp_path)
    assert type(loaded) is ImageClassifier
    assert loaded.labels == ("cat", "dog", "eel")
    assert loaded.preprocessing.mean == (0.4, 0.5, 0.6)
    same_weights(loaded, model)


def test_a_vit_without_a_head_embeds_and_can_be_looked_at(tmp_path: Path) -> None:
    model, tensors = vit_folder(tmp_path, labels=0)
    bare = {name.removeprefix("vit."): tensor for name, tensor in tensors.items()}
    extra = {"pooler.dense.weight": torch.zeros(8, 8), "pooler.dense.bias": torch.zeros(8)}
    write(tmp_path, json.loads((tmp_path / "config.json").read_text()) | {"architectures": ["ViTModel"]}, bare | extra)
    loaded = load(tmp_path)
    assert type(loaded) is ImageEmbedder
    assert not hasattr(loaded, "classify")
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    pixels = (torch.from_numpy(picture).permute(2, 0, 1) / 255 - torch.tensor([0.4, 0.5, 0.6])[:, None, None]) / (
        torch.tensor([0.2, 0.3, 0.2])[:, None, None]
    )
    np.testing.assert_allclose(loaded.embed([picture])[0], model.states(pixels[None])[0, 0].detach(), atol=1e-5)
    assert loaded.look(picture).weights.shape == (1, 2, 2, 2)
    loaded.save_pretrained(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert type(again) is ImageEmbedder
    np.testing.assert_array_equal(again.embed([picture]), loaded.embed([picture]))


# The habits of those who write checkpoints.


def renamed(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def rewritten(folder: Path, tensors: dict[str, Tensor]) -> None:
    write(folder, json.loads((folder / "config.json").read_text()), tensors)


def test_the_prefix_of_the_trunk_may_be_there_or_not(tmp_path: Path) -> None:
    model, tensors = gpt2_folder(tmp_path / "gpt2")
    rewritten(tmp_path / "gpt2", renamed(tensors, "transformer."))
    same_weights(load(tmp_path / "gpt2"), model)
    model, tensors = bert_folder(tmp_path / "bert", "bert-embedder")
    rewritten(tmp_path / "bert", {f"bert.{name}": tensor for name, tensor in tensors.items()})
    same_weights(load(tmp_path / "bert"), model)


def test_layer_norms_may_be_called_gamma_and_beta(tmp_path: Path) -> None:
    model, tensors = bert_folder(tmp_path)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    assert old.keys() != tensors.keys()
    rewritten(tmp_path, old)
    same_weights(load(tmp_path), model)


def test_masks_counts_and_repeated_tensors_are_no_surprise(tmp_path: Path) -> None:
    model, tensors = gpt2_folder(tmp_path / "gpt2")
    buffers = {f"transformer.h.{n}.attn.bias": torch.ones(1, 1, 24, 24) for n in range(2)}
    buffers |= {f"transformer.h.{n}.attn.masked_bias": torch.tensor(-1e4) for n in range(2)}
    rewritten(tmp_path / "gpt2", tensors | buffers | {"lm_head.weight": tensors["transformer.wte.weight"]})
    same_weights(load(tmp_path / "gpt2"), model)
    model, tensors = bert_folder(tmp_path / "bert")
    tied = {
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": tensors.pop("cls.predictions.bias"),  # of two twins, one is enough
        "bert.embeddings.position_ids": torch.arange(32)[None],
    }
    rewritten(tmp_path / "bert", tensors | tied)
    same_weights(load(tmp_path / "bert"), model)


def test_twins_that_differ_are_refused(tmp_path: Path) -> None:
    _, tensors = gpt2_folder(tmp_path)
    rewritten(tmp_path, tensors | {"lm_head.weight": tensors["transformer.wte.weight"] + 1})
    with pytest.raises(RegardError, match=r"lm_head.weight is not the same as transformer.wte.weight"):
        load(tmp_path)


def test_a_filler_of_gaps_comes_with_or_without_the_next_sentence(tmp_path: Path) -> None:
    model, tensors = bert_folder(tmp_path)
    change(tmp_path / "config.json", architectures=["BertForMaskedLM"])
    same_weights(load(tmp_path), model)  # as bert-base-uncased is saved
    half = {name: tensor for name, tensor in tensors.items() if "seq_relationship" not in name}
    rewritten(tmp_path, half)
    loaded = load(tmp_path)
    assert loaded.model.config.next_sentence is False
    assert loaded.fill("the [MASK] sat")[0].guesses
    change(tmp_path / "config.json", architectures=["BertForPreTraining"])
    with pytest.raises(RegardError, match=r"lacks cls.seq_relationship.bias, cls.seq_relationship.weight$"):
        load(tmp_path)


def test_a_pooler_that_the_head_does_not_use_is_left(tmp_path: Path) -> None:
    model, tensors = bert_folder(tmp_path, "bert-tagger")
    pooler = {"bert.pooler.dense.weight": torch.zeros(8, 8), "bert.pooler.dense.bias": torch.zeros(8)}
    rewritten(tmp_path, tensors | pooler)
    same_weights(load(tmp_path), model)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_any_precision_are_read_as_single_precision(kind: torch.dtype, tmp_path: Path) -> None:
    _, tensors = gpt2_folder(tmp_path)
    rewritten(tmp_path, {name: tensor.to(kind) for name, tensor in tensors.items()})
    loaded = load(tmp_path)
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    expected = tensors["transformer.wte.weight"].to(kind).float()
    assert torch.equal(loaded.model.embedding.weight, expected)


def test_a_checkpoint_that_does_not_say_what_it_is_is_told_by_its_tensors(tmp_path: Path) -> None:
    for family in ("bert", "bert-embedder"):
        model, _ = bert_folder(tmp_path / family, family)
        change(tmp_path / family / "config.json", architectures=None)
        same_weights(load(tmp_path / family), model)
    bert_folder(tmp_path / "either", "bert-tagger")
    change(tmp_path / "either" / "config.json", architectures=None)
    with pytest.raises(UsageError, match="does not say what the classifier labels; add"):
        load(tmp_path / "either")


def test_shards_are_put_together_and_the_old_format_is_read(tmp_path: Path) -> None:
    model, tensors = bert_folder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    halves = list(tensors)[::2], list(tensors)[1::2]
    for suffix, saved in (("safetensors", save_file), ("bin", torch.save)):
        stem = "model" if suffix == "safetensors" else "pytorch_model"
        names = [f"{stem}-0000{n}-of-00002.{suffix}" for n in (1, 2)]
        for half, name in zip(halves, names, strict=True):
            saved({each: tensors[each].clone() for each in half}, tmp_path / name)
        places = {each: name for half, name in zip(halves, names, strict=True) for each in half}
        write_json(tmp_path / f"{stem}.{suffix}.index.json", {"weight_map": places})
        same_weights(load(tmp_path), model)
        (tmp_path / f"{stem}.{suffix}.index.json").unlink()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    same_weights(load(tmp_path), model)
    torch.save(tensors, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    same_weights(load(tmp_path), model)


# Tokenizers.


def test_the_vocabulary_files_of_older_checkpoints_give_the_same_tokens(tmp_path: Path) -> None:
    bert_folder(tmp_path / "bert")
    whole = load(tmp_path / "bert").tokenizer
    vocabulary = json.loads(bert_tokenizer().to_json())["model"]["vocab"]
    lines = sorted(vocabulary, key=vocabulary.get)  # type: ignore[arg-type]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "bert" / "tokenizer.json").unlink()
    parts = load(tmp_path / "bert").tokenizer
    assert [parts.encode(text) for text in BERT_TEXTS] == [whole.encode(text) for text in BERT_TEXTS]
    assert parts.decode(parts.encode(BERT_TEXTS[0])) == whole.decode(whole.encode(BERT_TEXTS[0]))
    write_json(tmp_path / "bert" / "tokenizer_config.json", {"do_lower_case": False})
    cased = load(tmp_path / "bert").tokenizer
    assert cased.encode("The")[0] == cased.unknown
    assert cased.encode("the") == whole.encode("The")

    gpt2_folder(tmp_path / "gpt2")
    whole = load(tmp_path / "gpt2").tokenizer
    model = json.loads(gpt2_tokenizer().to_json())["model"]
    write_json(tmp_path / "gpt2" / "vocab.json", model["vocab"])
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (tmp_path / "gpt2" / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", "utf-8")
    (tmp_path / "gpt2" / "tokenizer.json").unlink()
    parts = load(tmp_path / "gpt2").tokenizer
    assert parts.encode(" the  cat\nsät") == whole.encode(" the  cat\nsät")
    assert (parts.end, parts.pad) == (whole.end, -1)


def test_a_tokenizers_own_padding_and_cutting_are_switched_off(tmp_path: Path) -> None:
    bert_folder(tmp_path, "bert-embedder")
    tokenizer = bert_tokenizer()
    tokenizer.backend.enable_truncation(4)
    tokenizer.backend.enable_padding(length=4)
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json())
    loaded = load(tmp_path).tokenizer
    assert len(loaded.encode("the cat sat on the mat")) == 6
    assert len(loaded.encode("cat")) == 1


def test_rows_beyond_the_vocabulary_are_allowed_and_never_read(tmp_path: Path) -> None:
    bert_folder(tmp_path / "padded", padding=3)
    loaded = load(tmp_path / "padded")
    assert len(loaded.tokenizer) == len(bert_tokenizer()) + 3
    spelt = loaded.tokenizer.pieces([len(loaded.tokenizer) - 1])[0]
    assert len(loaded.tokenizer.encode(spelt)) > 1
    loaded.save_pretrained(tmp_path / "saved")
    np.testing.assert_array_equal(load(tmp_path / "saved").embed(BERT_TEXTS), loaded.embed(BERT_TEXTS))


def test_a_text_that_spells_a_special_token_is_text(tmp_path: Path) -> None:
    gpt2_folder(tmp_path)
    loaded = load(tmp_path)
    assert loaded.tokenizer.end not in loaded.tokenizer.encode("a<|endoftext|>b")


# What sentence-transformers adds.


def sentence_folder(folder: Path, pooling: dict[str, Any], kinds: tuple[str, ...] = ("Transformer", "Pooling")) -> Any:
    model, _ = bert_folder(folder, "bert-embedder")
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    types = [{"type": f"sentence_transformers.models.{kind}", "path": paths.get(kind, f"2_{kind}")} for kind in kinds]
    write_json(folder / "modules.json", types)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    return model


@pytest.mark.parametrize(
    ("pooling", "name"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
def test_vectors_are_pooled_as_the_checkpoint_does(pooling: dict[str, Any], name: str, tmp_path: Path) -> None:
    sentence_folder(tmp_path, pooling)
    loaded = load(tmp_path)
    other = "cls" if name == "mean" else "mean"
    np.testing.assert_array_equal(loaded.embed(BERT_TEXTS), loaded.embed(BERT_TEXTS, pooling=name))
    assert not np.allclose(loaded.embed(BERT_TEXTS), loaded.embed(BERT_TEXTS, pooling=other))


def test_vectors_are_normalised_and_texts_cut_as_the_checkpoint_does(tmp_path: Path) -> None:
    model = sentence_folder(tmp_path, {"pooling_mode": "mean"}, ("Transformer", "Pooling", "Normalize"))
    write_json(tmp_path / "sentence_bert_config.json", {"max_seq_length": 6, "do_lower_case": False})
    loaded = load(tmp_path)
    np.testing.assert_allclose(np.linalg.norm(loaded.embed(BERT_TEXTS), axis=1), 1.0, atol=1e-6)
    assert not np.allclose(np.linalg.norm(loaded.embed(BERT_TEXTS, normalize=False), axis=1), 1.0)
    long = "the cat sat on the mat on the mat"
    row = Frame(loaded.tokenizer, 6).encode(long)[0].tokens
    assert len(row) == 6
    expected = torch.nn.functional.normalize(model(torch.from_numpy(row)[None]), dim=-1)[0].detach()
    np.testing.assert_allclose(loaded.embed(long)[0], expected, atol=1e-6)
    np.testing.assert_allclose(loaded.model(torch.from_numpy(row)[None])[0].detach(), expected, atol=1e-6)
    loaded.save_pretrained(tmp_path / "saved")
    np.testing.assert_array_equal(load(tmp_path / "saved").embed([long, "cat"]), loaded.embed([long, "cat"]))


@pytest.mark.parametrize(
    ("pooling", "kinds", "told"),
    [
        ({"pooling_mode_max_tokens": True}, ("Transformer", "Pooling"), "the pooling 'pooling_mode_max_tokens'"),
        ({"pooling_mode": "lasttoken"}, ("Transformer", "Pooling"), "the pooling 'lasttoken' is not known"),
        ({"pooling_mode": "mean"}, ("Transformer", "Pooling", "Dense"), "the module 'Dense' is not known here"),
    ],
)
def test_vectors_that_would_be_others_are_refused(
    pooling: dict[str, Any], kinds: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    sentence_folder(tmp_path, pooling, kinds)
    with pytest.raises(UsageError, match=told):
        load(tmp_path)


# Labels, decoding, verbs.


def test_labels_that_share_a_name_get_their_numbers(tmp_path: Path) -> None:
    bert_folder(tmp_path, "bert-classifier")
    change(tmp_path / "config.json", id2label={"0": "crane", "1": "heron", "2": "crane"})
    result = load(tmp_path).classify("the cat")[0]
    assert list(result.probabilities) == ["crane (0)", "heron", "crane (2)"]
    assert sum(result.probabilities.values()) == pytest.approx(1.0)


def test_the_tagger_labels_each_word_by_its_first_piece_however_long_the_sentence(tmp_path: Path) -> None:
    model, _ = bert_folder(tmp_path, "bert-tagger")
    change(tmp_path / "config.json", id2label={"0": "O", "1": "B-ANIMAL", "2": "I-ANIMAL"})
    tagger = load(tmp_path)
    words = ["the", "unchased", "cat", "sat", "."]
    pieces = [tagger.tokenizer.encode(word) for word in words]
    assert max(map(len, pieces)) > 1
    row = [tagger.tokenizer.start, *(piece for word in pieces for piece in word), tagger.tokenizer.end]
    firsts = [1 + sum(map(len, pieces[:number])) for number in range(len(words))]
    expected = model(torch.tensor([row]))[0].softmax(-1)[firsts]
    result, empty = tagger.tag([words, ""])
    assert result.words == tuple(words)
    assert result.tags == tuple(tagger.tags[number] for number in expected.argmax(-1))
    np.testing.assert_allclose(result.probabilities, expected.max(-1).values.detach(), atol=1e-5)
    assert empty.words == empty.tags == ()
    many = tagger.tag([words * 20])[0]
    assert len(many.tags) == 100
    tagger.save_pretrained(tmp_path / "saved")
    assert load(tmp_path / "saved").tag([words, ""])[0] == result


def test_the_checkpoint_says_how_it_wants_to_generate(tmp_path: Path) -> None:
    gpt2_folder(tmp_path)
    change(tmp_path / "config.json", do_sample=True, top_k=0)
    assert load(tmp_path).decoding.do_sample
    assert load(tmp_path).decoding.top_k is None
    write_json(tmp_path / "generation_config.json", {"num_beams": 3, "length_penalty": 0.5, "eos_token_id": 0})
    decoding = load(tmp_path).decoding
    assert (decoding.num_beams, decoding.length_penalty, decoding.do_sample) == (3, 0.5, False)
    write_json(tmp_path / "generation_config.json", {"num_beams": "many"})
    with pytest.raises(UsageError, match=r"generation_config.json.num_beams is 'many'"):
        load(tmp_path)


@pytest.mark.parametrize("family", VERBS)
def test_what_is_saved_again_says_the_same(family: str, tmp_path: Path) -> None:
    bert_folder(tmp_path / "theirs", family)
    loaded = load(tmp_path / "theirs")
    loaded.save_pretrained(tmp_path / "ours")
    again = load(tmp_path / "ours")
    assert type(again) is type(loaded)
    same_weights(again, loaded.model)
    if family == "bert":
        said, repeated = (one.fill("the [MASK] sat on the [MASK]")[0].guesses for one in (loaded, again))
        assert said == repeated
    if family == "bert-classifier":
        pairs = [("the cat", "a dog"), "the mat"]
        np.testing.assert_array_equal(again.probabilities(pairs), loaded.probabilities(pairs))


def test_a_language_model_and_a_classifier_of_pictures_saved_again_say_the_same(tmp_path: Path) -> None:
    gpt2_folder(tmp_path / "gpt2")
    vit_folder(tmp_path / "vit")
    model, pictures = load(tmp_path / "gpt2"), load(tmp_path / "vit")
    model.save_pretrained(tmp_path / "ours")
    said, repeated = (one.generate("a", num_beams=2, max_new_tokens=4)[0] for one in (model, load(tmp_path / "ours")))
    assert (repeated.text, repeated.score) == (said.text, said.score)
    pictures.save_pretrained(tmp_path / "again")
    picture = np.random.default_rng(1).integers(0, 256, (10, 9, 3)).astype(np.uint8)
    found, expected = (one.classify([picture])[0] for one in (load(tmp_path / "again"), pictures))
    assert found.probabilities == expected.probabilities


def test_a_training_can_start_from_a_public_checkpoint(tmp_path: Path) -> None:
    model, _ = bert_folder(tmp_path / "theirs", "bert-embedder", padding=2)
    lines = "text\tlabel\nthe cat sat\t1\na red mat\t0\nthe dog\t1\nthe mat was red\t0\n"
    (tmp_path / "texts.tsv").write_text(lines)
    sizes = {"size": 8, "hidden_size": 12, "heads": 2, "layers": 2, "max_length": 32}
    recipe = {
        "task": "classify",
        "start": str(tmp_path / "theirs"),
        "data": {"train": [str(tmp_path / "texts.tsv")], "valid": [str(tmp_path / "texts.tsv")], "max_length": 16},
        "model": {"preset": "bert-classifier:minilm", **sizes},
        "training": {"steps": 1, "batch_tokens": 64, "learning_rate": 0.0, "device": "cpu"},
    }
    run, _ = runner.train(from_values(recipe, "test"), tmp_path / "run")
    told = "29 of 33 tensors taken; new here: label.bias, label.weight, pooler.dense.bias, pooler.dense.weight"
    assert told in (run.folder / "train.log").read_text()
    trained = load(run.folder)
    assert isinstance(trained, Classifier)
    assert torch.equal(trained.model.encoder.embedding.weight, model.encoder.embedding.weight)
    assert isinstance(trained.tokenizer, Tokenizer)
    assert trained.tokenizer.encode("the cat") == load(tmp_path / "theirs").tokenizer.encode("the cat")


def test_a_gpt2_whose_output_matrix_is_its_own_must_bring_it(tmp_path: Path) -> None:
    gpt2_folder(tmp_path)
    change(tmp_path / "config.json", tie_word_embeddings=False)
    with pytest.raises(RegardError, match=r"lacks lm_head\.weight"):
        load(tmp_path)
    change(tmp_path / "config.json", tie_word_embeddings="sometimes")
    with pytest.raises(RegardError, match="sometimes"):
        load(tmp_path)


def word_level(folder: Path, *specials: str, unk_token: str = "[UNK]") -> None:
    """In the place of a folder's tokenizer one of whole words, with special tokens of no known custom."""
    words = [*specials, *dict.fromkeys(" ".join(TEXTS).split())]
    backend = Backend(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=unk_token))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.save(str(folder / "tokenizer.json"))


def test_a_gpt2_of_whole_words_needs_only_the_end_of_a_text(tmp_path: Path) -> None:
    gpt2_folder(tmp_path)
    word_level(tmp_path, "[UNK]", "<eos>")
    loaded = load(tmp_path)
    assert (loaded.tokenizer.end, loaded.tokenizer.unknown) == (1, 0)
    (found,) = loaded.generate("the cat", max_new_tokens=3)
    assert found.text.startswith("the cat")
    loaded.save_pretrained(tmp_path / "saved")
    assert load(tmp_path / "saved").generate("the cat", max_new_tokens=3)[0].text == found.text
    assert load(tmp_path / "saved").score("the dog sat")[0].tokens == 4
    word_level(tmp_path, "[UNK]")
    with pytest.raises(RegardError, match=r"has no end token, which this model needs: add one of </s>, \[SEP\], <eos>"):
        load(tmp_path)


def test_a_bert_of_whole_words_embeds_without_padding_and_fills_no_gap_without_a_mask(tmp_path: Path) -> None:
    bert_folder(tmp_path)
    word_level(tmp_path, "[UNK]", "[CLS]", "[SEP]")
    loaded = load(tmp_path)
    texts = ["the cat", "a dog chased the cat", "strange"]
    together, alone = loaded.embed(texts), [loaded.embed(text)[0] for text in texts]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    with pytest.raises(RegardError, match=r"no mask token, which this model needs: add one of \[MASK\], <mask>"):
        loaded.fill("the [MASK]")
    word_level(tmp_path, "[UNK]", "[PAD]", "[SEP]")
    with pytest.raises(RegardError, match="has no start token"):
        load(tmp_path)
