"""What every encoder-decoder must satisfy beyond the contract: the decoding protocol, and attention one can name."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from contract.translator_subjects import SUBJECTS, padded, tokens
from regard import families
from regard.attention import Attended, MultiHeadAttention, attentions, record_own
from regard.decoding.protocol import take_rows

TOLERANCE = dict(atol=1e-5, rtol=1e-5)
every_translator = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


def build(subject: Subject) -> Any:
    torch.manual_seed(0)
    return families.build_model(subject.family, subject.config).eval()


def sources(side: str) -> Tensor:
    return padded([tokens(1, length, length)[0] for length in (5, 1, 3)], Padding(side))


@every_translator
@pytest.mark.parametrize("side", ["left", "right"])
def test_steps_say_what_the_full_pass_says(subject: Subject, side: str) -> None:
    model, source, target = build(subject), sources(side), tokens(3, 5, 7)
    whole = model(source, target)
    state = model.start(source)
    for place in range(5):
        logits, state = model.step(target[:, place], state)
        torch.testing.assert_close(logits, whole[:, place], **TOLERANCE)


@every_translator
def test_a_search_may_drop_copy_and_reorder_rows_of_the_state(subject: Subject) -> None:
    model, source, target = build(subject), sources("right"), tokens(3, 3, 7)
    state = model.start(source)
    for place in range(2):
        _, state = model.step(target[:, place], state)
    chosen = torch.tensor([2, 0, 0])
    logits, _ = model.step(target[chosen, 2], take_rows(state, chosen))
    torch.testing.assert_close(logits, model(source, target)[chosen, 2], **TOLERANCE)


@every_translator
def test_every_attention_knows_its_kind_and_its_layer(subject: Subject) -> None:
    model = build(subject)
    layers: dict[str, list[int]] = {}
    for name, _ in attentions(model):
        assert model.attention_kind(name) in ("encoder", "decoder", "cross")
        layers.setdefault(model.attention_kind(name), []).append(model.attention_layer(name))
    assert bool(layers) == (subject.family != "rnn")
    for numbers in layers.values():
        assert numbers == list(range(1, len(numbers) + 1))


def naive(module: nn.Module, states: Tensor, attended: Attended, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(d)), head by head and row by row."""
    assert isinstance(module, MultiHeadAttention)
    size, head_size = module.size, module.size // module.heads
    query = F.linear(states, module.query_key_value.weight[:size], module.query_key_value.bias[:size])
    keys, mask = attended.memory.keys, attended.memory.mask
    weights = torch.zeros(len(states), module.heads, states.shape[1], keys.shape[2])
    for row in range(len(states)):
        for head in range(module.heads):
            for place in range(states.shape[1]):
                seen = [
                    key
                    for key in range(keys.shape[2])
                    if (mask is None or mask[row, key]) and not (causal and key > place)
                ]
                if seen:
                    asked = query[row, place, head * head_size : (head + 1) * head_size]
                    scores = keys[row, head, seen] @ asked / math.sqrt(head_size)
                    weights[row, head, place, seen] = scores.softmax(0)
    return weights


@every_translator
def test_recorded_weights_are_those_the_context_was_read_with(subject: Subject) -> None:
    """Of every attention: either the naive softmax of the multi-head equation, or what reads the very context."""
    model = build(subject)
    source, target = sources("left"), padded([tokens(1, length, 9)[0] for length in (2, 4, 1)], Padding("left"))
    seen: dict[str, list[tuple[nn.Module, Tensor, Attended]]] = {}

    def remember(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, options: Any, output: Attended) -> None:
            seen.setdefault(name, []).append((module, inputs[0], output))

        return hook

    handles = [module.register_forward_hook(remember(name), with_kwargs=True) for name, module in attentions(model)]
    with torch.no_grad(), record_own(model) as tape:
        model(source, target)
    for handle in handles:
        handle.remove()
    assert set(tape) == set(seen)
    for name, calls in seen.items():
        if isinstance(calls[0][0], MultiHeadAttention):
            ((module, states, attended),) = calls
            expected = naive(module, states, attended, model.attention_kind(name) == "decoder")
            torch.testing.assert_close(tape[name], expected, **TOLERANCE)
        else:
            contexts = torch.cat([attended.context for _, _, attended in calls], dim=1)
            torch.testing.assert_close(tape[name][:, 0] @ calls[0][2].memory.values, contexts, **TOLERANCE)
