"""`regard.look` at models of transformers, through tokenizers of theirs."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors
from torch import nn

import regard
from regard.errors import UsageError
from regard.public.elsewhere import word_numbers
from tiny_transformers import transformers, twins

WORDS = ["the", "cat", "sat", "un", "think", "able", "mat", "."]
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]  # the numbers that the tiny models' configs give them


def fast(backend: Backend, **more: Any) -> Any:
    names = dict(pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names, **more)


def wordpiece() -> Any:
    """As BERT's: pieces of a word go on with ##, and special tokens stand around the text."""
    pieces = SPECIALS + WORDS + [f"##{word}" for word in WORDS]
    backend = Backend(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="<unk>"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return fast(backend)


def sentencepiece() -> Any:
    """As T5's and Marian's: a mark in front of a word, and the end of the text behind it."""
    pieces = SPECIALS + [f"▁{word}" for word in WORDS] + WORDS
    backend = Backend(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return fast(backend)


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    return twins("bert")[0]


def test_an_encoder_is_looked_at_token_by_token_and_word_by_word(bert: nn.Module, tmp_path: Path) -> None:
    tokenizer = wordpiece()
    look = regard.look(bert, tokenizer, "the unthinkable mat .")
    assert look.tokens == ("<s>", "the", "un", "##think", "##able", "mat", ".", "</s>")
    assert look.view[0].key_words == (0, 1, 2, 2, 2, 3, 4, 5)
    assert [known.kind for known in look.view] == ["encoder", "encoder"]
    with torch.inference_mode():
        eager = twins("bert")[1](**tokenizer("the unthinkable mat .", return_tensors="pt"), output_attentions=True)
    for weights, theirs in zip(look.weights.values(), eager.attentions, strict=True):
        np.testing.assert_allclose(weights, theirs[0].numpy(), atol=1e-5)
    assert look._repr_html_().startswith("<iframe")
    for name in ("page.html", "map.svg", "map.png"):
        assert look.save(tmp_path / name).stat().st_size > 1000


def test_a_pair_of_texts_is_one_row(bert: nn.Module) -> None:
    look = regard.look(bert, wordpiece(), ("the cat", "sat ."))
    assert look.tokens == ("<s>", "the", "cat", "</s>", "sat", ".", "</s>")
    assert look.source == "the cat / sat ."


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_what_looks_back_only_is_drawn_so(name: str) -> None:
    look = regard.look(twins(name)[0], sentencepiece(), "the cat sat")
    assert [(known.kind, known.causal, known.layer) for known in look.view] == [("decoder", True, n) for n in (1, 2)]
    assert list(look.weights) == ["self-attention, layer 1", "self-attention, layer 2"]
    assert [len(weights) for weights in look.weights.values()] == [4, 4]


@pytest.mark.parametrize("name", ["t5", "marian"])
@pytest.mark.parametrize("target", ["the mat sat", None])
def test_an_encoder_decoder_is_told_the_target_or_what_it_says_itself(name: str, target: str | None) -> None:
    model, tokenizer = twins(name)[0], sentencepiece()
    look = regard.look(model, tokenizer, "the unthinkable cat", target=target, layers=-1)
    assert list(look.weights) == [
        "encoder self-attention, layer 2",
        "decoder self-attention, layer 2",
        "cross-attention, layer 2",
    ]
    encoder, decoder, cross = look.view
    assert look.tokens == encoder.keys == cross.keys == ("the", "un", "think", "able", "cat", "</s>")
    assert cross.key_words == (0, 1, 1, 1, 2, 3)
    assert decoder.queries == cross.queries == look.target_tokens
    assert decoder.keys == ("<pad>", *decoder.queries[:-1])  # told what was said, one place later
    if target is not None:
        assert look.target_tokens == ("the", "mat", "sat", "</s>")
        assert look.target == target
        told = torch.tensor([[0, *tokenizer.convert_tokens_to_ids(["▁the", "▁mat", "▁sat"])]])
        with torch.inference_mode():
            given = tokenizer("the unthinkable cat", return_tensors="pt")
            eager = twins(name)[1](**given, decoder_input_ids=told, output_attentions=True)
        np.testing.assert_allclose(cross.weights, eager.cross_attentions[-1][0].numpy(), atol=1e-5)


def test_only_chosen_layers_and_heads_are_shown_under_their_own_numbers(bert: nn.Module) -> None:
    whole = regard.look(bert, wordpiece(), "the cat")
    part = regard.look(bert, wordpiece(), "the cat", layers=[1], heads=[2])
    assert list(part.weights) == ["self-attention, layer 2"]
    np.testing.assert_allclose(part.view[0].weights, whole.view[1].weights[2:3], rtol=1e-5)
    assert not part.by_head


def test_looking_leaves_the_model_as_it_was(bert: nn.Module) -> None:
    bert.train()
    first = regard.look(bert, wordpiece(), "the cat")
    assert bert.training  # and yet nothing was dropped:
    bert.eval()
    second = regard.look(bert, wordpiece(), "the cat")
    for name, weights in first.weights.items():
        np.testing.assert_array_equal(weights, second.weights[name])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda bert: regard.look(bert, text="the cat"), "give a transformers model and its tokenizer"),
        (lambda bert: regard.look(bert, "the cat"), "give a transformers model and its tokenizer"),
        (lambda bert: regard.look(bert, wordpiece(), " "), "there is nothing to look at"),
        (lambda bert: regard.look(bert, wordpiece(), "the cat " * 400), "tokens but the model reads 512 at most"),
        (lambda bert: regard.look(bert, wordpiece(), "the", target="cat"), "a target is for models that read one"),
        (lambda bert: regard.look(bert, wordpiece(), "the", layers=5), "no attention matches layer 5"),
        (lambda bert: regard.look(nn.Linear(2, 2), wordpiece(), "the"), "give a transformers model"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_in_one_line(bert: nn.Module, asked: Any, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)) as caught:
        asked(bert)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pieces", "special", "word_ids", "numbers"),
    [
        (["▁the", "▁un", "think", "</s>"], [0, 0, 0, 1], None, [0, 1, 1, 2]),
        (["The", "Ġun", "think", "able"], [0, 0, 0, 0], None, [0, 1, 1, 1]),
        (["<s>", "un", "##think", "cat"], [1, 0, 0, 0], None, [0, 1, 1, 2]),
        (["▁the", "▁cat", "s"], [0, 0, 0], [0, 0, 0], [0, 1, 1]),  # a tokenizer that counts the text as one word
        (["it", "'", "s"], [0, 0, 0], [0, 1, 2], [0, 1, 2]),
        ([], [], None, []),
    ],
    ids=["sentencepiece", "bytes", "wordpiece", "one word", "counted", "nothing"],
)
def test_words_are_told_from_pieces(
    pieces: list[str], special: list[int], word_ids: list[int | None] | None, numbers: list[int]
) -> None:
    assert word_numbers(pieces, [bool(each) for each in special], word_ids) == numbers
