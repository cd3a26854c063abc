"""What every family of models must satisfy.

A new family has its SUBJECTS in `tests/models/test_NAME.py`; those of families run alike stand beside this file.
"""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from contract.subject import Padding, Subject
from regard import families
from regard.attention import attentions, record_own
from regard.training import checkpoints
from regard.training.optimizers import make_optimizer
from regard.training.recompute import forget_inside_blocks
from regard.training.settings import Training
from regard.training.shards import blocks

WIDTH = 5
NO_PADDING = Padding()
TOLERANCE = dict(atol=1e-5, rtol=1e-5)
TESTS = Path(__file__).parent.parent
SHARED = sorted(TESTS.glob("contract/*_subjects.py"))
OWN = [path for path in sorted(TESTS.glob("models/test_*.py")) if "\nSUBJECTS = " in path.read_text("utf-8")]
SUBJECTS: list[Subject] = [
    subject
    for path in (*SHARED, *OWN)
    for subject in importlib.import_module(f"{path.parent.name}.{path.stem}").SUBJECTS
]
every_model = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)


def build(subject: Subject, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return families.build_model(subject.family, subject.config)


def loss_of(subject: Subject, model: nn.Module, examples: list[Any], padding: Padding = NO_PADDING) -> Tensor:
    """Some smooth function of everything the model says, different for each number it says."""
    total = torch.zeros(())
    for said in subject.outputs(model, examples, padding):
        flat = said.flatten()
        total = total + (flat * torch.linspace(-1, 1, len(flat) + 1)[1:]).sum() + flat.square().sum() / 2
    return total


def test_no_family_is_missing_here() -> None:
    assert {subject.family for subject in SUBJECTS} == set(families.known())


def test_every_subject_has_a_name_of_its_own() -> None:
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS)


# Which inputs of a batch are real: any row may be any pattern, even a single one or nothing at all.
rows = st.lists(st.lists(st.booleans(), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=3)
ONE_REAL = [[True] + [False] * (WIDTH - 1), [True] * WIDTH]


@pytest.mark.parametrize("subject", [known for known in SUBJECTS if known.under], ids=lambda subject: subject.name)
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(pattern=rows, with_single=st.booleans())
def test_no_mask_makes_an_output_or_a_gradient_that_is_not_a_number(
    subject: Subject, pattern: list[list[bool]], with_single: bool
) -> None:
    assert subject.under is not None
    model = build(subject)
    outputs = subject.under(model, torch.tensor([*pattern, *ONE_REAL] if with_single else pattern))
    assert torch.isfinite(outputs).all()
    outputs.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


@every_model
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 3), side=st.sampled_from(["left", "right"]), extra=st.integers(0, 3), data=st.data())
def test_padding_and_company_change_nothing(
    subject: Subject, seed: int, side: str, extra: int, data: st.DataObject
) -> None:
    model = build(subject).eval()
    examples = subject.examples(seed)
    chosen = data.draw(st.permutations(range(len(examples))))[: data.draw(st.integers(1, len(examples)))]
    together = subject.outputs(model, [examples[row] for row in chosen], Padding(side, extra))
    for row, said in zip(chosen, together, strict=True):
        (alone,) = subject.outputs(model, [examples[row]], Padding())
        torch.testing.assert_close(said, alone, **TOLERANCE)


@every_model
def test_padding_and_company_change_no_gradient(subject: Subject) -> None:
    model = build(subject).eval()
    examples = subject.examples(0)
    parameters = list(model.parameters())
    apart = sum(loss_of(subject, model, [example]) for example in examples)
    wanted = torch.autograd.grad(apart, parameters, allow_unused=True)
    for side in ("left", "right"):
        found = torch.autograd.grad(loss_of(subject, model, examples, Padding(side, 2)), parameters, allow_unused=True)
        for gradient, expected in zip(found, wanted, strict=True):
            assert (gradient is None) == (expected is None)
            if gradient is not None:
                torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)


@every_model
def test_every_parameter_gets_a_gradient(subject: Subject) -> None:
    model = build(subject)
    heard: set[str] = set()
    for seed in range(3):  # a draw or a dropped unit may silence a parameter once
        model.zero_grad()
        loss_of(subject, model, subject.examples(seed)).backward()
        heard |= {name for name, known in model.named_parameters() if known.grad is not None and known.grad.any()}
    assert {name for name, _ in model.named_parameters()} - heard == set()


@every_model
def test_a_saved_model_comes_back_exactly(subject: Subject, tmp_path: Path) -> None:
    model = build(subject).eval()
    folder = tmp_path / "1"
    config = families.config_json(subject.family, subject.config, subject.task)
    checkpoints.save(folder, model, {"config.json": config}, {}, checkpoints.Progress(step=1))

    values = checkpoints.load_json(folder / "config.json")
    family, loaded_config, task = families.config_from_json(values, "config.json")
    assert (family, loaded_config, task) == (subject.family, subject.config, subject.task)
    torch.manual_seed(99)
    loaded = families.build_model(family, loaded_config).eval()
    examples = subject.examples(0)
    said = subject.outputs(model, examples, Padding())
    different = subject.outputs(loaded, examples, Padding())
    assert not all(map(torch.equal, different, said))
    checkpoints.load_weights(loaded, folder)
    assert model.state_dict().keys() == loaded.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert all(map(torch.equal, subject.outputs(loaded, examples, Padding()), said))


@every_model
@pytest.mark.parametrize("training", [False, True])
def test_recording_changes_nothing(subject: Subject, training: bool) -> None:
    model = build(subject).train(training)
    examples = subject.examples(0)
    torch.manual_seed(5)
    unwatched = subject.outputs(model, examples, Padding("left"))
    torch.manual_seed(5)
    with record_own(model) as tape:
        watched = subject.outputs(model, examples, Padding("left"))
    assert all(map(torch.equal, watched, unwatched))
    assert set(tape) == {name for name, _ in attentions(model)}
    for weights in tape.values():
        assert weights.dim() == 4
        assert torch.isfinite(weights).all()
        assert (weights >= 0).all()


@every_model
def test_one_seed_gives_one_model_and_one_training(subject: Subject) -> None:
    def trained(seed: int) -> dict[str, Tensor]:
        model = build(subject, seed).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(subject, model, subject.examples(step)).backward()
            optimizer.step()
        return model.state_dict()

    first, again, other = trained(3), trained(3), trained(4)
    for name, tensor in first.items():
        assert torch.equal(again[name], tensor), name
    assert any(not torch.equal(other[name], tensor) for name, tensor in first.items())


# Which parameters weight decay and Muon are for, by the module they belong to and their own name. The names of torch's
# recurrent layers stand without the number of the layer and the direction.
DECAYED = {
    "Conv1d.weight",
    "Conv2d.weight",
    "Convolution.weight",
    "GRU.weight_hh",
    "GRU.weight_ih",
    "LSTM.weight_hh",
    "LSTM.weight_ih",
    "Linear.weight",
    "ProjectedLSTM.input_weight",
    "ProjectedLSTM.projection",
    "ProjectedLSTM.weight",
    "Projection.weight",
}
NOT_DECAYED = {
    "AttentionPooling.context",
    "BatchNorm2d.bias",
    "BatchNorm2d.weight",
    "Conv1d.bias",
    "Conv2d.bias",
    "Cosine.sharpness",
    "Embedding.weight",
    "GRU.bias_hh",
    "GRU.bias_ih",
    "GroupNorm.bias",
    "GroupNorm.weight",
    "IntraAttention.bias",
    "LSTM.bias_hh",
    "LSTM.bias_ih",
    "LayerNorm.bias",
    "LayerNorm.weight",
    "LearnedPositions.table",
    "Linear.bias",
    "LongShortTerm.first",
    "NeuralTuringMachine.first_places",
    "NeuralTuringMachine.first_reads",
    "ProjectedLSTM.bias",
    "Projection.bias",
    "ScalarMix.gamma",
    "ScalarMix.weights",
    "Transformer.output_bias",
    "VisionTransformer.class_token",
    "VisionTransformer.positions",
    "WordHead.bias",
}


def roles_by_group(subject: Subject, optimizer: str) -> list[tuple[dict[str, Any], set[str]]]:
    """Each group of the optimiser, and what its parameters are."""
    model = build(subject)
    roles: dict[nn.Parameter, str] = {}
    for part in model.modules():  # a matrix that is shared keeps the role of the module that has it first
        for name, parameter in part.named_parameters(recurse=False):
            roles.setdefault(parameter, f"{type(part).__name__}.{re.sub('_l[0-9]+(_reverse)?$', '', name)}")
    settings = Training(optimizer=optimizer, weight_decay=0.1)
    groups = make_optimizer(model, settings).param_groups
    return [(group, {roles[each] for each in group["params"]}) for group in groups]


def test_the_list_of_decayed_parameters_has_every_parameter_of_every_model() -> None:
    found = {role for subject in SUBJECTS for _, roles in roles_by_group(subject, "adamw") for role in roles}
    assert found == DECAYED | NOT_DECAYED


@every_model
def test_weight_decay_and_muon_are_for_weight_matrices_only(subject: Subject) -> None:
    for optimizer in ("adamw", "muon"):
        for group, roles in roles_by_group(subject, optimizer):
            expected = DECAYED if group["weight_decay"] else NOT_DECAYED
            assert roles <= expected
            if optimizer == "muon":
                assert group["orthogonal"] == (group["weight_decay"] > 0)
                assert group["stacked"] == any(role.startswith("ProjectedLSTM.") for role in roles & DECAYED)


# What `training.recompute` computes again and fsdp gathers by itself: layers of several products, never a single one.
BLOCKS = {
    "AttentionBlock",
    "CausalBlock",
    "DecoderBlock",
    "DenseBlock",
    "EncoderBlock",
    "Highway",
    "IntraAttention",
    "PlainLSTM",
    "ProjectedLSTM",
}


def test_the_list_of_blocks_is_the_one_of_all_models() -> None:
    assert {type(block).__name__ for subject in SUBJECTS for block in blocks(build(subject))} == BLOCKS


@every_model
def test_only_blocks_are_recomputed_and_the_loss_is_the_same(subject: Subject) -> None:
    model, plain = build(subject).train(), build(subject).train()
    before = {module: module.forward for module in model.modules()}
    forget_inside_blocks(model)
    changed = {type(module).__name__ for module in model.modules() if module.forward != before[module]}
    assert changed <= BLOCKS
    losses = []
    for each in (model, plain):
        torch.manual_seed(7)
        loss = loss_of(subject, each, subject.examples(0))
        loss.backward()
        losses.append(loss.detach())
    assert torch.equal(*losses)
    for (name, one), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
