"""Attention through layers: flows in pipes that can be counted by hand, gradients against weights that are free."""

import builtins
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from inspected import a_bahdanau, a_bert, a_gpt2, a_luong, a_transformer, a_vit, tokens
from torch import Tensor

from regard import inspect
from regard.attention import record
from regard.errors import RegardError, UsageError


def weights_of(layers: int, heads: int, count: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed).random((layers, heads, count, count))
    return draw / draw.sum(-1, keepdims=True)


def smallest_cut(pipes: np.ndarray, source: tuple[int, int], sink: tuple[int, int]) -> float:
    """The maximum flow is the width of the narrowest cut (Ford and Fulkerson): all of them are tried."""
    layers, count = len(pipes), pipes.shape[-1]
    others = [node for node in itertools.product(range(layers + 1), range(count)) if node not in (source, sink)]
    narrowest = math.inf
    for chosen in itertools.product([False, True], repeat=len(others)):
        near = {source} | {node for node, is_near in zip(others, chosen, strict=True) if is_near}
        width = sum(
            pipes[layer - 1, token, below]
            for layer, token in near
            if layer
            for below in range(count)
            if (layer - 1, below) not in near
        )
        narrowest = min(narrowest, width)
    return narrowest


def test_the_flow_between_two_tokens_is_the_narrowest_cut() -> None:
    weights = weights_of(2, 2, 3)
    pipes = np.stack([np.eye(3) / 2 + layer.mean(0) / 2 for layer in weights])
    found = inspect.flow(weights)
    for query, key in itertools.product(range(3), range(3)):
        assert found[query, key] == pytest.approx(smallest_cut(pipes, (2, query), (0, key)), abs=1e-6)
    np.testing.assert_array_equal(inspect.flow(weights, queries=[-1]), found[2:])


def test_a_single_layer_lets_through_what_its_pipes_are_wide() -> None:
    weights = weights_of(1, 2, 5)
    np.testing.assert_allclose(inspect.flow(weights), np.eye(5) / 2 + weights[0].mean(0) / 2, atol=1e-6)
    np.testing.assert_allclose(inspect.flow(weights), inspect.rollout(weights), atol=1e-6)


def test_a_flow_is_never_less_than_the_rollout() -> None:
    weights = weights_of(3, 1, 6)
    assert (inspect.flow(weights) >= inspect.rollout(weights) - 1e-6).all()


def test_nothing_flows_from_the_future() -> None:
    model = a_gpt2()
    with record(model) as tape, torch.no_grad():
        model(tokens(1, 6))
    weights = inspect.stacked(tape)
    assert weights.shape == (2, 2, 6, 6)
    for measured in (inspect.flow(weights), inspect.rollout(weights)):
        assert not np.triu(measured, 1).any()
        assert (measured[:, 0] > 0).all()


def test_without_scipy_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    known = builtins.__import__

    def no_scipy(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return known(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_scipy)
    with pytest.raises(
        RegardError, match=r"attention flow needs scipy: install it with pip install 'regard\[inspect\]'"
    ):
        inspect.flow(weights_of(1, 1, 2))


def test_a_stack_is_one_of_layers_that_stand_upon_each_other() -> None:
    model = a_transformer()
    with record(model) as tape, torch.no_grad():
        model(tokens(2, 5), tokens(2, 3, seed=1))
    assert inspect.stacked(tape, "encoder.*", row=1).shape == (2, 2, 5, 5)
    for names in ("*", "decoder.*cross*", "none"):
        with pytest.raises(UsageError, match="name one stack, such as"):
            inspect.stacked(tape, names)


MODELS: dict[str, Any] = {
    "transformer": (a_transformer, lambda model: model(tokens(2, 5), tokens(2, 4, seed=1))[1, 2, 3]),
    "gpt2": (a_gpt2, lambda model: model(tokens(2, 5))[:, -1, 4].sum()),
    "bert": (a_bert, lambda model: model(tokens(2, 5))[0, 1, 2]),
    "vit": (a_vit, lambda model: model(torch.ones(1, 1, 6, 6))[0, 1]),
}


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("frozen", [False, True])
def test_the_gradient_of_a_weight_needs_no_weight_in_the_graph(family: str, frozen: bool) -> None:
    build, explained = MODELS[family]
    model = build().requires_grad_(not frozen)
    found = inspect.gradient_weighted(model, lambda: explained(model))
    with torch.no_grad(), record(model) as tape:
        assert found.value == pytest.approx(float(explained(model)))
    assert list(found.weights) == list(found.gradients) == list(tape)
    model.requires_grad_(True)
    for name in (next(iter(tape)), list(tape)[-1]):
        np.testing.assert_allclose(found.weights[name], tape[name], atol=1e-6)
        np.testing.assert_allclose(found.gradients[name], free_gradient(model, explained, name), atol=1e-5, rtol=1e-3)
        raised = np.maximum(found.gradients[name] * found.weights[name], 0)
        np.testing.assert_array_equal(found.positive[name], raised)
    assert found.as_dict()["value"] == found.value
    assert all(parameter.grad is None for parameter in model.parameters())


def free_gradient(model: Any, explained: Any, name: str) -> np.ndarray:
    """The same pass with this one attention spelled out, so that its weights are in the graph."""
    module = model.get_submodule(name)
    fused, kept = module.forward, []

    def forward(states: Tensor, memory: Any = None, **given: Any) -> Any:
        attended = fused(states, memory, **given)
        kept.append(attended.weights_of(None, None).detach().requires_grad_())
        attended.context = module.output((kept[-1] @ attended.memory.values).transpose(1, 2).flatten(2))
        return attended

    module.forward = forward
    try:
        value = explained(model)
    finally:
        del module.forward
    return torch.autograd.grad(value, kept[0])[0].numpy()


def test_an_attention_without_heads_has_gradients_too() -> None:
    model = a_luong(score="dot", feeding=False)
    found = inspect.gradient_weighted(model, lambda: model(tokens(1, 5), tokens(1, 3, seed=1))[0, 1, 4])
    gradient = found.gradients["attention"]
    assert gradient.shape == (1, 1, 3, 5)
    assert gradient[0, 0, 1].any()
    assert not gradient[0, 0, [0, 2]].any()  # what is said at the second place depends on what was read there
    stepping = a_bahdanau()
    with pytest.raises(UsageError, match="attention was called more than once"):
        inspect.gradient_weighted(stepping, lambda: stepping(tokens(1, 5), tokens(1, 3, seed=1))[0, 1, 4])


def test_relevance_adds_up_layer_by_layer() -> None:
    positive = np.random.default_rng(0).random((2, 3, 4, 4))
    total = [[float(i == j) for j in range(4)] for i in range(4)]
    for layer in positive:
        mean = [[sum(layer[h][i][j] for h in range(3)) / 3 for j in range(4)] for i in range(4)]
        total = [[total[i][j] + sum(mean[i][k] * total[k][j] for k in range(4)) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(inspect.relevance(positive), total)
