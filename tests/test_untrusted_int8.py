"""Int8 checkpoints whose tensors are not what the kernel expects are refused when they are loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import regard
from export import tiny_runs
from regard.errors import RegardError, UsageError
from regard.int8 import to_int8
from regard.layers.blocks import FeedForward
from regard.layers.int8 import Int8Linear

Change = Callable[[Tensor], Tensor]
LAYER = "encoder.layers.0.self_attention.query_key_value"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT in int8, one of whose layers has two columns that are not quantised."""
    folder = tmp_path_factory.mktemp("int8")
    tiny_runs.encoder("bert", folder / "run")
    loaded = regard.load(folder / "run")
    for number in (3, 5):  # the inputs of the layer become outliers, as training makes them
        loaded.model.encoder.norm.bias.data[number] = 60.0
    to_int8(loaded.model)
    loaded.save_pretrained(folder / "small")
    return folder / "small"


def changed(folder: Path, changes: dict[str, Change], target: Path) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    tensors = load_file(target / "model.safetensors")
    for part, change in changes.items():
        tensors[f"{LAYER}.{part}"] = change(tensors[f"{LAYER}.{part}"]).contiguous()
    save_file(tensors, target / "model.safetensors")
    return target


def filled(*values: int) -> dict[str, Change]:
    """Columns with these values, and weights for them."""
    return {
        "columns": lambda columns: torch.tensor(values, dtype=torch.int64),
        "whole": lambda whole: whole.new_zeros(len(whole), len(values)),
    }


FAULTS: dict[str, tuple[dict[str, Change], str]] = {
    "far behind": (filled(3, 1 << 50), rf"columns has the value {1 << 50} but must lie in 0 \.\.\. \d+"),
    "one behind": (filled(3, 16), r"columns has the value 16 but must lie in 0 \.\.\. 15"),
    "negative": (filled(-1, 3), r"columns has the value -1 but must lie in"),
    "smallest": (filled(-(1 << 63), 3), r"columns has the value -9223372036854775808 but must lie in"),
    "descending": (filled(5, 3), r"columns has the values 5, 3 in a row but must be strictly ascending"),
    "twice": (filled(5, 5), r"columns has the values 5, 5 in a row but must be strictly ascending"),
    "too many": (filled(*range(17)), r"columns has the shape \[17\] but must be a list of at most 16"),
    "no list": ({"columns": lambda columns: columns[0]}, r"columns has the shape \[\] but must be a list"),
    "a table": ({"columns": lambda columns: columns[None]}, r"columns has the shape \[1, 2\] but must be a list"),
    "fractions": ({"columns": lambda columns: columns.double()}, r"columns has the type torch.float64 but must have"),
    "32 bits": (
        {"columns": lambda columns: columns.int()},
        r"columns has the type torch.int32 but must have torch.int64",
    ),
    "weight type": ({"weight": lambda weight: weight.long() * 1000}, r"weight has the type torch.int64 but must have"),
    "weight values": (
        {"weight": lambda weight: weight - 64},
        r"weight has the value -\d+ but must lie in -64 \.\.\. 64",
    ),
    "scale type": (
        {"scale": lambda scale: scale.int()},
        r"scale has the type torch.int32 but must have a floating-point",
    ),
    "scale values": ({"scale": lambda scale: -scale}, r"scale has the value -[\d.e-]+ but must not be negative"),
    "whole shape": ({"whole": lambda whole: whole[:, :1]}, r"misshapen tensors: .*whole"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_checkpoint_with_impossible_tensors_is_refused(fault: str, checkpoint: Path, tmp_path: Path) -> None:
    changes, message = FAULTS[fault]
    folder = changed(checkpoint, changes, tmp_path / "changed")
    with pytest.raises(RegardError, match=message) as caught:
        regard.load(folder)
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    assert len(said) < 600
    assert str(folder / "model.safetensors") in said
    assert LAYER in said


def test_a_checkpoint_with_possible_columns_is_loaded(checkpoint: Path, tmp_path: Path) -> None:
    assert load_file(checkpoint / "model.safetensors")[f"{LAYER}.columns"].tolist() == [3, 5]
    for columns in ((), (0,), (0, 15), tuple(range(16))):
        folder = changed(checkpoint, filled(*columns), tmp_path / str(len(columns)))
        assert torch.isfinite(torch.from_numpy(regard.load(folder).embed(["a man"]))).all()


@pytest.mark.parametrize("part", ["scale", "bias", "whole"])
def test_a_model_that_diverged_is_loaded_and_outputs_nan(part: str, checkpoint: Path, tmp_path: Path) -> None:
    folder = changed(checkpoint, {part: lambda tensor: torch.full_like(tensor, torch.nan)}, tmp_path / "changed")
    layer = regard.load(folder).model.get_submodule(LAYER)
    assert layer(torch.ones(2, 16)).isnan().all()


# Without a file.


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("fault", ["far behind", "negative", "descending", "weight type", "scale values"])
def test_a_state_dict_with_impossible_tensors_is_refused(fault: str, assign: bool) -> None:
    layer = Int8Linear.of(torch.randn(8, 16), torch.randn(8), torch.tensor([3, 5]))
    wanted = layer(torch.ones(2, 16))
    changes, message = FAULTS[fault]
    tensors = dict(layer.state_dict())
    for part, change in changes.items():
        tensors[part] = change(tensors[part])
    holder = torch.nn.Sequential(layer)
    with pytest.raises(RegardError, match=f"^0.{message}"):
        holder.load_state_dict({f"0.{part}": tensor for part, tensor in tensors.items()}, assign=assign)
    assert torch.equal(layer(torch.ones(2, 16)), wanted)  # nothing of it was taken over


def test_a_whole_of_another_shape_is_refused() -> None:
    layer = Int8Linear.of(torch.randn(8, 16), columns=torch.tensor([3, 5]))
    tensors = {**layer.state_dict(), "whole": torch.zeros(4, 2)}
    with pytest.raises(RegardError, match=r"whole has the shape \[4, 2\] but must have \[8, 2\]"):
        layer.load_state_dict(tensors, assign=True)


def test_a_feed_forward_net_without_weights_is_refused() -> None:
    with pytest.raises(UsageError, match="a feed-forward net of 8 by 0 has no weights"):
        FeedForward(8, 0)
