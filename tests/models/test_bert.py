"""BERT against its equations, against the reference implementation, and against the published sizes."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import families
from regard.attention import record
from regard.errors import RegardError, UsageError
from regard.layers.cross_entropy import linear_cross_entropy
from regard.models import bert
from regard.models.bert import PRESETS, Bert, BertClassifier, BertEmbedder, BertTagger, Config
from regard.public.tensors import to_ours

CLS, SEP, PAD = 2, 3, 0
SMALL = Config(vocabulary=30, size=8, hidden_size=12, heads=2, layers=1, max_length=16, dropout=0.0)


def row(*parts: list[int]) -> Tensor:
    """[CLS] a [SEP] b [SEP]"""
    return torch.tensor([[CLS, *(token for part in parts for token in (*part, SEP))]])


@pytest.fixture(scope="module")
def small() -> Bert:
    torch.manual_seed(0)
    model = Bert(SMALL).eval()
    for parameter in model.parameters():  # nothing at zero or one, so that nothing can be forgotten
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def test_segments_change_behind_the_first_separator() -> None:
    tokens = row([5, 6], [7, 8, 9])
    told = Bert(SMALL).encoder.segments_of(tokens)
    assert told.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]
    assert Bert(SMALL).encoder.segments_of(row([5], [6], [7])).max() == 1


def layer_norm(x: Tensor, norm: Any) -> Tensor:
    spread = (x - x.mean()).square().mean()
    return (x - x.mean()) / torch.sqrt(spread + 1e-12) * norm.weight + norm.bias


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def test_one_block_is_the_papers_equations_spelt_out(small: Bert) -> None:
    tokens = row([5, 6], [7])
    encoder, (block,) = small.encoder, small.encoder.layers
    count, segments = tokens.shape[1], [0, 0, 0, 0, 1, 1]
    inputs = [
        layer_norm(
            encoder.embedding.weight[token] + encoder.segments.weight[segments[i]] + encoder.positions.table[i],
            encoder.norm,
        )
        for i, token in enumerate(tokens[0].tolist())
    ]
    weight, bias = block.self_attention.query_key_value.weight, block.self_attention.query_key_value.bias
    states = []
    for i in range(count):
        heads = []
        for head in range(2):
            part = [slice(8 * kind + 4 * head, 8 * kind + 4 * head + 4) for kind in range(3)]
            query = weight[part[0]] @ inputs[i] + bias[part[0]]
            keys = torch.stack([weight[part[1]] @ x + bias[part[1]] for x in inputs])
            values = torch.stack([weight[part[2]] @ x + bias[part[2]] for x in inputs])
            heads.append((keys @ query / math.sqrt(4)).softmax(0) @ values)
        output = block.self_attention.output
        x = layer_norm(inputs[i] + output.weight @ torch.cat(heads) + output.bias, block.around_self_attention.norm)
        expand, contract = block.feed_forward.expand, block.feed_forward.contract
        fed = contract.weight @ gelu(expand.weight @ x + expand.bias) + contract.bias
        states.append(layer_norm(x + fed, block.around_feed_forward.norm))
    found, mask = encoder(tokens)
    assert mask is None
    torch.testing.assert_close(found[0], torch.stack(states), atol=1e-4, rtol=1e-4)

    words, pooler, follows = small.words, small.pooler, small.next
    assert pooler is not None
    assert follows is not None
    said = layer_norm(gelu(words.dense.weight @ states[2] + words.dense.bias), words.norm)
    torch.testing.assert_close(small(tokens)[0, 2], encoder.embedding.weight @ said + words.bias, atol=1e-3, rtol=1e-4)
    pooled = torch.tanh(pooler.dense.weight @ states[0] + pooler.dense.bias)
    torch.testing.assert_close(
        small.next_logits(found, mask)[0], follows.weight @ pooled + follows.bias, atol=1e-3, rtol=1e-4
    )


def test_the_chunked_loss_of_the_words_is_the_loss_of_their_logits(small: Bert) -> None:
    states = torch.randn(7, 8, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(7)
    loss, _ = linear_cross_entropy(*small.comparison(states), targets)
    wanted = F.cross_entropy(small.logits(states), targets, reduction="sum")
    torch.testing.assert_close(loss, wanted.double(), atol=1e-3, rtol=1e-5)
    found, expected = (torch.autograd.grad(each, list(small.words.parameters())) for each in (loss, wanted))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_classifier_pools_the_first_real_token_wherever_it_stands() -> None:
    torch.manual_seed(0)
    model = BertClassifier(SMALL).eval()
    text = row([5, 6, 7])
    left = F.pad(text, (4, 0), value=PAD)
    torch.testing.assert_close(model(left), model(text))


def test_too_long_a_row_is_refused(small: Bert) -> None:
    with pytest.raises(RegardError, match="an input of 17 tokens is longer than the 16 learnt positions"):
        small(torch.full((1, 17), 5))


def test_a_model_without_the_second_task_says_so(small: Bert) -> None:
    model = Bert(Config(vocabulary=30, size=8, hidden_size=12, heads=2, layers=1, next_sentence=False))
    with pytest.raises(UsageError, match="next_sentence: false"):
        model.next_logits(*model.encoder(row([5])))
    with pytest.raises(UsageError, match="no pooling called 'max': choose one of mean, cls"):
        Config(vocabulary=30, pooling="max")


# The sizes of the encoder with its pooler as published with the vocabulary of 30,522 word pieces: Devlin et al. 2019
# (110 M and 340 M), Turc et al. 2019 (4.4, 11.2, 28.8, 41.4 M), Wang et al. 2020 (22.7 M).
PUBLISHED = {
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
    "minilm": 22_713_216,
}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_the_published_size(name: str) -> None:
    with torch.device("meta"):
        model = families.build_model("bert-classifier", Config(vocabulary=30_522, **PRESETS[name]))  # type: ignore[arg-type]
    head = sum(parameter.numel() for parameter in model.label.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) - head == PUBLISHED[name]


def test_the_public_table_names_every_tensor_once() -> None:
    for family in bert.PUBLIC_FAMILIES.values():
        model = families.build_model(family, SMALL)
        names = bert.public_names(SMALL, family)
        assert names.keys() == model.state_dict().keys()
        theirs = [name for several in names.values() for name in several]
        assert len(set(theirs)) == len(theirs)


def test_the_public_settings_come_back() -> None:
    config = Config(vocabulary=30, size=8, heads=2, layers=3, separator=7, labels=4, activation="gelu_tanh", pad=-1)
    assert bert.public_config(bert.to_public_config(config)) == config
    values = bert.to_public_config(config)
    for key, value in (("position_embedding_type", "relative_key"), ("is_decoder", True), ("hidden_act", "mish")):
        with pytest.raises(UsageError, match=f"{key}='?{value}"):
            bert.public_config({**values, key: value})


def test_the_reference_reads_our_settings() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers, the reference, is not installed")
    config = Config(vocabulary=30, size=8, hidden_size=12, heads=2, layers=3, labels=4, activation="gelu_tanh")
    model = transformers.BertForTokenClassification(transformers.BertConfig.from_dict(bert.to_public_config(config)))
    ours = BertTagger(config)
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    names = bert.public_names(config, "bert-tagger")
    assert {other for several in names.values() for other in several} == wanted.keys()
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in ours.parameters())
    assert bert.public_config(model.config.to_dict()) == config


# Against the reference implementation, in double precision.

CLASSES = {
    "bert": (Bert, "BertForPreTraining"),
    "bert-classifier": (BertClassifier, "BertForSequenceClassification"),
    "bert-tagger": (BertTagger, "BertForTokenClassification"),
    "bert-embedder": (BertEmbedder, "BertModel"),
}


@pytest.fixture(scope="module")
def pairs() -> dict[str, tuple[Any, Any]]:
    """For each family their model with random weights, and ours with the same."""
    transformers = pytest.importorskip("transformers", reason="transformers, the reference, is not installed")
    sizes = dict(vocab_size=30, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_hidden_layers=2)
    made = {}
    for family, (ours, theirs) in CLASSES.items():
        torch.manual_seed(3)
        settings = transformers.BertConfig(
            **sizes, max_position_embeddings=24, sep_token_id=SEP, num_labels=5, attention_probs_dropout_prob=0.0
        )
        options = {"add_pooling_layer": False} if family == "bert-embedder" else {}
        reference = getattr(transformers, theirs)(settings, **options).double().eval()
        for parameter in reference.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        config = bert.public_config(settings.to_dict())
        model = ours(config).double().eval()
        shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
        table = bert.public_names(config, family)
        model.load_state_dict(to_ours(reference.state_dict(), table, shapes, ignored=bert.PUBLIC_TIED))
        made[family] = (reference, model)
    return made


ROWS = [row([5, 6, 7, 8], [9, 10])[0], row([11])[0], row([12, 13, 14])[0], row([15], [16, 17, 18])[0]]
TIGHT = dict(atol=1e-10, rtol=1e-10)


def batch(side: str) -> tuple[Tensor, dict[str, Tensor]]:
    """The rows for us, and for them the same with everything they must be told."""
    width = max(map(len, ROWS)) + 1
    fills = [(width - len(each), 0) if side == "left" else (0, width - len(each)) for each in ROWS]
    tokens = torch.stack([F.pad(each, fill, value=PAD) for each, fill in zip(ROWS, fills, strict=True)])
    real = tokens != PAD
    ends = (tokens == SEP).long()
    told = {
        "input_ids": tokens,
        "attention_mask": real.long(),
        "token_type_ids": (ends.cumsum(1) - ends).clamp(max=1),
        "position_ids": (real.cumsum(1) - 1).clamp(min=0),
    }
    return tokens, told


def same_gradients(pair: tuple[Any, Any], family: str, ours: Tensor, theirs: Tensor) -> None:
    reference, model = pair
    parameters = dict(reference.named_parameters())
    names = bert.public_names(model.config, family)
    wanted = dict(zip(parameters, torch.autograd.grad(theirs, list(parameters.values())), strict=True))
    found = torch.autograd.grad(ours, [parameter for _, parameter in model.named_parameters()])
    for (name, _), gradient in zip(model.named_parameters(), found, strict=True):
        expected = torch.cat([wanted[other] for other in names[name]])
        if name == "encoder.embedding.weight":  # their padding token does not learn, nor does it matter in ours
            gradient, expected = gradient[1:], expected[1:]
        torch.testing.assert_close(gradient, expected, **TIGHT)


@pytest.mark.parametrize("side", ["left", "right"])
def test_pretraining_is_the_references(pairs: dict[str, tuple[Any, Any]], side: str) -> None:
    reference, model = pairs["bert"]
    tokens, told = batch(side)
    real = tokens != PAD
    words, follows = tokens.masked_fill(tokens < 5, -100), torch.tensor([0, 1, 1, 0])
    states, mask = model.encoder(tokens)
    torch.testing.assert_close(model(tokens)[real], reference(**told).prediction_logits[real], **TIGHT)
    # Their pooler takes the first column, be it padding: what it says of rows that begin there is what counts.
    tokens_right, told_right = batch("right")
    words_right = tokens_right.masked_fill(tokens_right < 5, -100)
    wanted = reference(**told_right, labels=words_right, next_sentence_label=follows)
    torch.testing.assert_close(model.next_logits(states, mask), wanted.seq_relationship_logits, **TIGHT)
    chosen = words != -100
    loss = linear_cross_entropy(*model.comparison(states[chosen]), words[chosen])[0] / int(chosen.sum())
    loss = loss + F.cross_entropy(model.next_logits(states, mask), follows)
    torch.testing.assert_close(loss, wanted.loss, **TIGHT)
    same_gradients(pairs["bert"], "bert", loss, wanted.loss)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_classifier_is_the_references(pairs: dict[str, tuple[Any, Any]], side: str) -> None:
    reference, model = pairs["bert-classifier"]
    labels = torch.tensor([0, 4, 2, 1])
    wanted = reference(**batch("right")[1], labels=labels)  # padded on the left they would pool the padding
    logits = model(batch(side)[0])
    torch.testing.assert_close(logits, wanted.logits, **TIGHT)
    loss = F.cross_entropy(logits, labels)
    torch.testing.assert_close(loss, wanted.loss, **TIGHT)
    same_gradients(pairs["bert-classifier"], "bert-classifier", loss, wanted.loss)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tagger_is_the_references(pairs: dict[str, tuple[Any, Any]], side: str) -> None:
    reference, model = pairs["bert-tagger"]
    tokens, told = batch(side)
    real = tokens != PAD
    wanted = reference(**told).logits
    torch.testing.assert_close(model(tokens)[real], wanted[real], **TIGHT)
    ours, theirs = (logits[real].square().sum() for logits in (model(tokens), wanted))
    same_gradients(pairs["bert-tagger"], "bert-tagger", ours, theirs)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_embedder_and_its_attention_are_the_references(pairs: dict[str, tuple[Any, Any]], side: str) -> None:
    reference, model = pairs["bert-embedder"]
    tokens, told = batch(side)
    reference.set_attn_implementation("eager")
    wanted = reference(**told, output_attentions=True)
    with record(model) as tape:
        found = model(tokens)
    states, real = wanted.last_hidden_state, (tokens != PAD).unsqueeze(-1)
    torch.testing.assert_close(found, (states * real).sum(1) / real.sum(1), **TIGHT)
    assert len(tape) == len(wanted.attentions) == 2
    for ours, theirs in zip(tape.values(), wanted.attentions, strict=True):
        seen = real.transpose(1, 2).unsqueeze(1) & real.unsqueeze(1)
        torch.testing.assert_close(ours * seen, theirs * seen, atol=1e-6, rtol=1e-6)
