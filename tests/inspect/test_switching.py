"""Heads that are off, against models whose heads were cut out by hand."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from inspected import PAIRS, a_bert, a_gpt2, a_speaker, a_transformer, a_translator, a_vit, tokens
from torch import Tensor, nn

from regard import families, inspect
from regard.attention import MultiHeadAttention, attentions, record
from regard.errors import UsageError

TOLERANCE = dict(atol=1e-6, rtol=1e-5)
MODELS: dict[str, Any] = {
    "transformer": (a_transformer, lambda model: model(tokens(2, 5), tokens(2, 4, seed=1))),
    "gpt2": (a_gpt2, lambda model: model(tokens(2, 5))),
    "bert": (a_bert, lambda model: model(tokens(2, 5))),
    "vit": (a_vit, lambda model: model(torch.ones(2, 1, 6, 6))),
}
every_model = pytest.mark.parametrize("family", MODELS)


def cut_out(model: nn.Module, name: str, head: int, mean: Any = None) -> nn.Module:
    """The same model whose W_o does not hear this head, or hears its mean through the bias."""
    model = copy.deepcopy(model)
    module: Any = model.get_submodule(name)
    size = module.size // module.heads
    columns = slice(head * size, (head + 1) * size)
    with torch.no_grad():
        if mean is not None:
            module.output.bias += module.output.weight[:, columns] @ torch.as_tensor(mean, dtype=torch.float32)
        module.output.weight[:, columns] = 0
    return model


@every_model
@torch.no_grad()
def test_a_head_that_is_off_is_one_that_was_never_there(family: str) -> None:
    build, run = MODELS[family]
    model = build()
    whole = run(model)
    for number, (name, _) in enumerate(attentions(model)):
        head = number % 2
        with inspect.heads_off(model, {name: head}):
            without = run(model)
        torch.testing.assert_close(without, run(cut_out(model, name, head)), **TOLERANCE)
        assert not torch.allclose(without, whole, atol=1e-4)
    assert torch.equal(run(model), whole)  # and everything is as it was


@every_model
@torch.no_grad()
def test_where_nothing_is_off_nothing_changes(family: str) -> None:
    build, run = MODELS[family]
    model = build()
    whole = run(model)
    for nothing in ({}, {0: []}, {"*": slice(0, 0)}):
        with inspect.heads_off(model, nothing):
            assert torch.equal(run(model), whole)


@torch.no_grad()
def test_layers_are_chosen_as_record_chooses_them() -> None:
    model = a_transformer()
    run = MODELS["transformer"][1]
    with inspect.heads_off(model, {"decoder.*.cross_attention": [0], -1: slice(1, 2)}):
        found = run(model)
    by_hand = model
    for layer in range(2):
        by_hand = cut_out(by_hand, f"decoder.layers.{layer}.cross_attention", 0)
    for last in ("encoder.layers.1.self", "decoder.layers.1.self", "decoder.layers.1.cross"):
        by_hand = cut_out(by_hand, f"{last}_attention", 1)
    torch.testing.assert_close(found, run(by_hand), **TOLERANCE)


@torch.no_grad()
def test_blocks_may_stand_inside_one_another() -> None:
    model, run = a_gpt2(), MODELS["gpt2"][1]
    with inspect.heads_off(model, {0: 0}), inspect.heads_off(model, {0: 1}):
        inside = run(model)
    with inspect.heads_off(model, {0: None}):
        torch.testing.assert_close(inside, run(model), **TOLERANCE)


@torch.no_grad()
def test_the_weights_of_a_head_that_is_off_can_still_be_seen() -> None:
    model, run = a_gpt2(), MODELS["gpt2"][1]
    with record(model, layers=0) as before:
        run(model)
    with inspect.heads_off(model, {0: 1}), record(model, layers=0) as after:
        run(model)
    assert torch.equal(before["layers.0.self_attention"], after["layers.0.self_attention"])


@torch.no_grad()
def test_the_steps_of_a_head_that_is_off_still_tell_what_it_read() -> None:
    model, run = a_gpt2(), MODELS["gpt2"][1]
    with inspect.watch(model) as seen, inspect.heads_off(model, {0: 1}):
        run(model)
    with inspect.heads_off(model, {0: 1}), inspect.watch(model) as inside:
        run(model)
    for known in (seen, inside):
        story = known.steps("layers.0.self_attention", head=1)
        assert story["context"].any()
        assert story.difference < 1e-6


@every_model
@torch.no_grad()
def test_a_mean_is_taken_over_all_queries_and_put_in_the_heads_place(family: str) -> None:
    build, run = MODELS[family]
    model = build()
    means = inspect.head_means(model, [lambda: run(model), lambda: run(model)])
    for name, module in attentions(model):
        assert isinstance(module, MultiHeadAttention)
        read: list[Tensor] = []
        handle = module.output.register_forward_pre_hook(lambda module, given, read=read: read.append(given[0]))
        run(model)
        handle.remove()
        rows = read[0].flatten(0, 1)
        expected = sum(rows[i] for i in range(len(rows))) / len(rows)
        np.testing.assert_allclose(means[name].reshape(-1), expected, atol=1e-5)
        with inspect.heads_off(model, {name: 1}, means):
            found = run(model)
        torch.testing.assert_close(found, run(cut_out(model, name, 1, means[name][1])), atol=1e-5, rtol=1e-4)


def test_heads_stay_off_while_a_cache_grows() -> None:
    translator, speaker = a_translator(), a_speaker()
    off = {"decoder.layers.0.self_attention": [0], "decoder.layers.1.cross_attention": [1]}
    by_hand = a_translator()
    for name, heads in off.items():
        by_hand.model = cut_out(by_hand.model, name, heads[0])
    sources = [source for source, _ in PAIRS]
    with inspect.heads_off(translator.model, off):
        without = [result.nbest for result in translator.translate(sources, num_return_sequences=3)]
    expected = [result.nbest for result in by_hand.translate(sources, num_return_sequences=3)]
    for ours, theirs in zip(without, expected, strict=True):
        assert [known.tokens for known in ours] == [known.tokens for known in theirs]
        assert [known.score for known in ours] == pytest.approx([known.score for known in theirs], abs=1e-5)
    whole = translator.translate(sources)
    assert [result.score for result in whole] != pytest.approx([known[0].score for known in expected], abs=1e-3)

    with inspect.heads_off(speaker.model, {0: 1}):
        written = speaker.generate("the cat", num_beams=1)[0]
    speaker.model = cut_out(speaker.model, "layers.0.self_attention", 1)
    assert written.tokens == speaker.generate("the cat", num_beams=1)[0].tokens


def test_gradients_pass_by_a_head_that_is_off() -> None:
    model = a_gpt2()
    with inspect.heads_off(model, {0: 0, 1: None}):
        model(tokens(1, 4)).square().sum().backward()
    columns = model.layers[0].self_attention.output.weight.grad
    assert not columns[:, :4].any()
    assert columns[:, 4:].any()
    assert not model.layers[1].self_attention.query_key_value.weight.grad.any()


def test_wrong_choices_are_refused_in_one_line() -> None:
    model = a_gpt2()
    for off, said in (
        ({"encoder.*": 0}, "no attention matches layer 'encoder"),
        ({7: 0}, "no attention matches layer 7"),
        ({0: 2}, "there is no head 2"),
        ({0: [0, -3]}, "there is no head -3"),
    ):
        with pytest.raises(UsageError, match=said), inspect.heads_off(model, off):
            pass
    with (
        pytest.raises(UsageError, match=r"no mean of what the heads of layers\.1"),
        inspect.heads_off(model, {1: 0}, inspect.head_means(model, [lambda: model(tokens(1, 2))], layers=0)),
    ):
        pass
    plain = families.build_model("lstmn", families.resolve({"preset": "lstmn:small"}, vocabulary=9)[1])
    with pytest.raises(UsageError, match="LSTMN has no multi-head attention"), inspect.heads_off(plain, {0: 0}):
        pass
    with inspect.heads_off(plain, {}):
        pass
