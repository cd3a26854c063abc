"""The state of an optimiser and of a random generator from a file is checked before torch's kernels write into it."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import RegardError
from regard.public.folder import _read as read_public
from regard.recipes import load_recipe, runner
from regard.training.checkpoints import load_tensors
from regard.training.optimizers import check_random_state, load_state_tensors, make_optimizer, state_tensors
from regard.training.settings import Training
from training import tiny_recipes

State = dict[str, Tensor]
KEPT = {
    "adam": {"step", "exp_avg", "exp_avg_sq"},
    "adamw": {"step", "exp_avg", "exp_avg_sq"},
    "rmsprop": {"step", "square_avg", "momentum_buffer"},
    "muon": {"step", "exp_avg", "exp_avg_sq", "momentum"},
}


def stepped(name: str, betas: tuple[float, float] = (0.9, 0.95)) -> tuple[torch.optim.Optimizer, State]:
    layer = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 4))
    optimizer = make_optimizer(layer, Training(learning_rate=0.1, optimizer=name, betas=betas))
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer, state_tensors(optimizer)


@pytest.mark.parametrize("name", KEPT)
def test_a_whole_state_is_taken(name: str) -> None:
    optimizer, state = stepped(name)
    assert {key.rpartition(".")[2] for key in state} == KEPT[name]
    load_state_tensors(optimizer, state)
    load_state_tensors(optimizer, {})  # before the first step there is none


def test_rmsprop_without_momentum_keeps_none() -> None:
    optimizer, state = stepped("rmsprop", (0.0, 0.95))
    assert {key.rpartition(".")[2] for key in state} == {"step", "square_avg"}
    load_state_tensors(optimizer, state)


def changed(state: State, name: str, change: Callable[[Tensor], Tensor]) -> State:
    key = next(key for key in state if key.endswith(f".{name}") and state[key].dim() == (name != "step") * 2)
    return {**state, key: change(state[key])}


FAULTS: dict[str, tuple[Callable[[State, str], State], str]] = {
    "shorter": (
        lambda state, name: changed(state, name, lambda tensor: tensor[:1]),
        r"must be a floating-point tensor",
    ),
    "one number": (
        lambda state, name: changed(state, name, lambda tensor: torch.ones(())),
        r"\[\] but must be a floating",
    ),
    "transposed": (
        lambda state, name: changed(state, name, lambda tensor: tensor.T),
        r"must be a floating-point tensor",
    ),
    "integers": (
        lambda state, name: changed(state, name, lambda tensor: tensor.long()),
        r"is torch.int64 .* but must be",
    ),
    "long step": (
        lambda state, name: changed(state, "step", lambda step: torch.ones(9)),
        r"step is .*\[9\] but must be",
    ),
    "beyond": (lambda state, name: {**state, f"99.{name}": torch.ones(4)}, r"'99\.\w+' is not part of the state"),
    "negative": (lambda state, name: {**state, f"-1.{name}": torch.ones(4)}, r"'-1\.\w+' is not part of the state"),
    "unknown": (
        lambda state, name: {**state, "0.weight.other": torch.ones(4)},
        r"'0\.weight\.other' is not part",
    ),
    "no number": (lambda state, name: {**state, "a.b.c": torch.ones(4)}, r"'a\.b\.c' is not part of the state"),
    "missing": (
        lambda state, name: {key: state[key] for key in state if key != f"1.weight.{name}"},
        r"^1\.weight\.\w+ is missing",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("name", "kept"), [("adam", "exp_avg"), ("adamw", "exp_avg_sq"), ("rmsprop", "square_avg"), ("muon", "momentum")]
)
def test_a_state_of_other_shapes_is_refused(name: str, kept: str, fault: str) -> None:
    optimizer, state = stepped(name)
    change, message = FAULTS[fault]
    with pytest.raises(RegardError, match=message) as caught:
        load_state_tensors(optimizer, change(state, kept))
    assert len(str(caught.value).splitlines()) == 1


def random_state(left: int, place: int) -> Tensor:
    content = bytearray(torch.get_rng_state().numpy().tobytes())
    struct.pack_into("<iiQ", content, 8, left, 1, place)
    return torch.frombuffer(content, dtype=torch.uint8)


def test_the_random_states_that_torch_makes_are_taken() -> None:
    before = torch.get_rng_state()
    try:
        torch.manual_seed(5)
        for _ in range(1300):
            check_random_state(torch.get_rng_state())
            torch.rand(1)
    finally:
        torch.set_rng_state(before)


@pytest.mark.parametrize(
    ("left", "place"), [(624, 624), (624, 2), (2, 624), (0, 0), (-1, 0), (625, 0), (600, 2**31), (1, 625)]
)
def test_a_random_state_that_reads_beyond_its_end_is_refused(left: int, place: int) -> None:
    with pytest.raises(RegardError, match=rf"random.cpu has {left} numbers left from number {place} on"):
        check_random_state(random_state(left, place))


def test_a_random_state_that_was_never_seeded_is_refused() -> None:
    state = random_state(624, 1)
    check_random_state(state)
    state[12] = 0
    with pytest.raises(RegardError, match="seeded 0"):
        check_random_state(state)


@pytest.mark.parametrize("state", [torch.zeros(10, dtype=torch.uint8), torch.zeros(5056), torch.zeros(0)])
def test_a_random_state_of_another_size_is_refused(state: Tensor) -> None:
    with pytest.raises(RegardError, match="must be the state of torch's random generator"):
        check_random_state(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {key: state[key] for key in state if key != "random.cpu"}, "lacks random.cpu"),
        (lambda state: {**state, "random.cpu": random_state(624, 600)}, "random.cpu has 624 numbers left"),
        (lambda state: {**state, "random.cpu": torch.zeros(5056, dtype=torch.uint8)}, "random.cpu has 0 numbers left"),
        (
            lambda state: changed(state, "exp_avg", lambda tensor: tensor[:1]),
            r"exp_avg is torch.float32 .* but must",
        ),
        (lambda state: {**state, "9999.exp_avg": torch.ones(1)}, r"'9999\.exp_avg' is not part"),
    ],
)
def test_a_run_is_not_resumed_with_a_state_of_other_shapes(
    change: Callable[[State], State], message: str, tmp_path: Path
) -> None:
    """The checksums of a stranger's run are right."""
    recipe = load_recipe(str(tiny_recipes.write_recipes(tmp_path)["transformer"]), ["training.steps=4"])
    run, _ = runner.train(recipe, tmp_path / "run")
    folder = run.checkpoint("last").resolve()
    trainer = json.loads((folder / "trainer.json").read_text())
    trainer.pop("sha256")
    (folder / "trainer.json").write_text(json.dumps({**trainer, "finished": None}))
    (folder / "checksums.json").unlink()
    path = folder / "optimizer.safetensors"
    save_file(change(load_file(path)), path)
    with pytest.raises(RegardError, match=rf"optimizer\.safetensors: .*{message}.*; it is not the state of this run"):
        runner.resume(run.folder)


def test_a_tensor_with_a_size_beyond_64_bits_is_damage(tmp_path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2**63, 0], "data_offsets": [0, 0]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    for read in (load_tensors, read_public):
        with pytest.raises(RegardError, match=r"model\.safetensors: damaged"):
            read(path)
