"""Optimisers by name: what they do to one parameter, and that clipping element by element is what it says."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import UsageError
from regard.layers.projected_lstm import ProjectedLSTM
from regard.training.loop import Loss
from regard.training.muon import orthogonal
from regard.training.optimizers import load_state_tensors, make_optimizer, state_tensors
from regard.training.settings import Training
from training.test_loop import Plane, Watching, curve, last, plane_trainer, press_ctrl_c


def settings(**changes: object) -> Training:
    return Training(**{"learning_rate": 0.1, "betas": (0.9, 0.95), "epsilon": 1e-8, **changes})


def test_rmsprop_has_momentum_and_decaying_squares() -> None:
    layer = nn.Linear(1, 1, bias=False)
    weight = layer.weight.item()
    optimizer = make_optimizer(layer, settings(optimizer="rmsprop"))
    squares = speed = 0.0
    for gradient in (3.0, -1.0, 0.5):
        layer.weight.grad = torch.full((1, 1), gradient)
        optimizer.step()
        squares = 0.95 * squares + 0.05 * gradient**2
        speed = 0.9 * speed + gradient / (squares**0.5 + 1e-8)
        weight -= 0.1 * speed
    assert layer.weight.item() == pytest.approx(weight, rel=1e-5)


@pytest.mark.parametrize("name", ["adam", "adamw", "muon", "rmsprop"])
def test_the_state_of_every_optimizer_survives_as_plain_tensors(name: str) -> None:
    def stepped(layer: nn.Linear, optimizer: torch.optim.Optimizer, seed: int) -> None:
        torch.manual_seed(seed)
        for parameter in layer.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()

    layer, other = nn.Linear(3, 2), nn.Linear(3, 2)
    first = make_optimizer(layer, settings(optimizer=name))
    stepped(layer, first, 0)
    second = make_optimizer(other, settings(optimizer=name))
    other.load_state_dict(layer.state_dict())
    load_state_tensors(second, {key: tensor.clone() for key, tensor in state_tensors(first).items()})
    stepped(layer, first, 1)
    stepped(other, second, 1)
    assert torch.equal(layer.weight, other.weight)
    assert torch.equal(layer.bias, other.bias)


@pytest.mark.parametrize("shape", [(8, 8), (4, 32), (32, 4)])
def test_an_orthogonal_matrix_keeps_the_directions_and_evens_the_lengths(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    inside = left.T @ orthogonal(matrix) @ right.T  # diagonal if the singular vectors are the same
    assert (inside.diagonal() > 0.6).all()
    assert (inside.diagonal() < 1.3).all()
    assert inside.fill_diagonal_(0).abs().max() < 1e-4


def test_muon_turns_hidden_matrices_and_leaves_the_rest_to_adamw() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embedding = nn.Embedding(5, 4)
            self.hidden = nn.Linear(4, 3)

    turned, plain = Words(), Words()
    for model, name in ((turned, "muon"), (plain, "adamw")):
        optimizer = make_optimizer(model, settings(optimizer=name, weight_decay=0.01))
        torch.manual_seed(1)
        for _ in range(2):
            for parameter in model.parameters():
                parameter.grad = torch.randn_like(parameter)
            gradient = turned.hidden.weight.grad if model is turned else None
            before = turned.hidden.weight.detach().clone()
            optimizer.step()
            if gradient is not None:
                moved = turned.hidden.weight - before * (1 - 0.1 * 0.01)
                lengths = torch.linalg.svdvals(moved) / (0.1 * 0.2 * 4**0.5)
                assert lengths.min() > 0.6
                assert lengths.max() < 1.3
    assert torch.equal(turned.embedding.weight, plain.embedding.weight)
    assert torch.equal(turned.hidden.bias, plain.hidden.bias)
    assert not torch.allclose(turned.hidden.weight, plain.hidden.weight)


def test_muon_orthogonalises_the_matrix_of_each_direction_by_itself() -> None:
    layer = ProjectedLSTM(3, 4, 5)
    optimizer = make_optimizer(layer, settings(optimizer="muon"))
    before = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
    torch.manual_seed(0)
    for parameter in layer.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    for name in ("input_weight", "weight", "projection"):
        for moved in layer.get_parameter(name) - before[name]:
            lengths = torch.linalg.svdvals(moved) / (0.1 * 0.2 * max(moved.shape) ** 0.5)
            assert 0.6 < lengths.min() <= lengths.max() < 1.3


class Reader(nn.Module):
    """One parameter of each role, among them a norm and a position table with two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((2, 3))
        self.embedding = nn.Embedding(5, 4)
        self.positions = nn.Parameter(torch.zeros(1, 6, 4))
        self.hidden = nn.Linear(4, 3)
        self.words = nn.Linear(4, 5)
        self.words.weight = self.embedding.weight


def test_a_norm_of_two_axes_and_a_tied_output_do_not_decay() -> None:
    for optimizer in ("adamw", "muon"):
        groups = make_optimizer(Reader(), settings(optimizer=optimizer, weight_decay=0.3)).param_groups
        decayed = [name for group in groups if group["weight_decay"] for name in group["param_names"]]
        assert decayed == ["hidden.weight"]


def test_rmsprop_interrupted_and_resumed_is_as_if_nothing_had_happened(tmp_path: Path) -> None:
    options = dict(optimizer="rmsprop", learning_rate=0.01, clip_value=0.5)
    plane_trainer(tmp_path / "whole", **options).train()
    stopped = plane_trainer(tmp_path / "parts", watcher=Watching(5, press_ctrl_c), **options).train()
    assert stopped.reason == "stopped"
    again = plane_trainer(tmp_path / "parts", **options)
    again.resume()
    again.train()
    assert last(tmp_path / "parts")[0] == last(tmp_path / "whole")[0]
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")


def test_only_matrices_decay_with_any_optimizer() -> None:
    for name in ("adamw", "rmsprop"):
        groups = make_optimizer(nn.Linear(3, 2), settings(optimizer=name, weight_decay=0.3)).param_groups
        assert [(group["weight_decay"], group["params"][0].dim()) for group in groups] == [(0.3, 2), (0.0, 1)]


def test_every_element_of_the_gradient_is_clipped_by_itself(tmp_path: Path) -> None:
    class Steep(Plane):
        def loss(self, model: nn.Module, batch: Any) -> Loss:
            loss = super().loss(model, batch)
            return Loss(1e4 * loss.total, loss.nll, loss.count)

    trainer = plane_trainer(tmp_path / "run", Steep(), dropout=0.0, steps=1, clip_value=0.25, clip_norm=None)
    trainer.train()
    gradients = torch.cat([parameter.grad.flatten() for parameter in trainer.model.parameters()])
    assert gradients.abs().max() == 0.25
    assert (gradients.abs() == 0.25).sum() > 5


def test_an_unknown_optimizer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="called 'sgd': choose one of adam, adamw, muon, rmsprop"):
        make_optimizer(nn.Linear(1, 1), Training(optimizer="sgd"))


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_clipping_to_nothing_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="clip_value"):
        Training(clip_value=value)
