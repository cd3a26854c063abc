"""Checkpoints come back exactly, appear whole or not at all, and say in one line when they are damaged."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from spoiling import cut, empty, flip, lose
from torch import nn

from regard.errors import RegardError
from regard.training import checkpoints
from regard.training.checkpoints import CHECKSUMS, OPTIMIZER, TRAINER, WEIGHTS, Damaged, Progress

PROGRESS = Progress(
    step=7, epoch=1, batch=3, seconds=1.5, best_loss=0.25, best_step=4, stale=2, since_log={"loss": 1.25, "count": 3}
)


def model(seed: int = 0, size: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, size), nn.LayerNorm(size))


def saved(folder: Path, seed: int = 0) -> Path:
    state = {"0.0.exp_avg": torch.ones(2), "random.cpu": torch.arange(4, dtype=torch.uint8)}
    checkpoints.save(folder, model(seed), {"config.json": '{"a": 1}'}, state, PROGRESS)
    return folder


def one_line(caught: pytest.ExceptionInfo[RegardError], *parts: str) -> None:
    text = str(caught.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


def test_everything_comes_back_exactly(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    loaded = model(seed=1)
    checkpoints.load_weights(loaded, folder)
    for name, tensor in model().state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert checkpoints.load_progress(folder) == PROGRESS
    assert checkpoints.load_json(folder / "config.json") == {"a": 1}
    state = checkpoints.load_tensors(folder / OPTIMIZER)
    assert torch.equal(state["0.0.exp_avg"], torch.ones(2))
    assert torch.equal(state["random.cpu"], torch.arange(4, dtype=torch.uint8))


def test_a_transposed_weight_comes_back_exactly(tmp_path: Path) -> None:
    odd = model()
    odd[0].weight = nn.Parameter(torch.arange(6.0).reshape(2, 3).T)
    checkpoints.save(tmp_path / "1", odd, {}, {}, Progress())
    loaded = model(1)
    checkpoints.load_weights(loaded, tmp_path / "1")
    assert torch.equal(loaded[0].weight, odd[0].weight)


def test_a_checkpoint_holds_its_files_and_nothing_else(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    assert sorted(path.name for path in folder.iterdir()) == [CHECKSUMS, "config.json", WEIGHTS, OPTIMIZER, TRAINER]
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_the_checksums_are_those_of_every_file_but_the_one_that_changes(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    sums = checkpoints.load_json(folder / CHECKSUMS)
    assert sorted(sums) == ["config.json", WEIGHTS, OPTIMIZER]
    for name, known in sums.items():
        assert known == hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_a_copy_of_a_model_has_no_checksums_and_may_be_edited(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "mine", model(), {"config.json": "{}"})
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["config.json", WEIGHTS]
    (tmp_path / "mine" / "config.json").write_text('{"a": 2}')
    checkpoints.check(tmp_path / "mine", to_go_on=False)


FILES = ["config.json", WEIGHTS, OPTIMIZER, TRAINER, CHECKSUMS]
every_damage = pytest.mark.parametrize(
    ("name", "harm"),
    [(name, harm) for name in FILES for harm in (cut, empty, flip, lose) if (name, harm) != (CHECKSUMS, lose)],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)


@every_damage
def test_any_damage_to_any_file_is_found_and_named(tmp_path: Path, name: str, harm: Any) -> None:
    folder = saved(tmp_path / "7")
    checkpoints.check(folder)
    harm(folder / name)
    with pytest.raises(Damaged) as caught:
        checkpoints.check(folder)
    # A flipped checksum accuses the file it is of.
    one_line(caught, str(folder), "" if (name, harm) == (CHECKSUMS, flip) else name)


def test_a_model_may_be_used_when_only_what_is_for_going_on_is_damaged(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    for name in (OPTIMIZER, TRAINER):
        flip(folder / name)
        checkpoints.check(folder, to_go_on=False)
    flip(folder / WEIGHTS)
    with pytest.raises(Damaged, match=rf"{WEIGHTS}: damaged, or changed by hand .* remove {CHECKSUMS} if you"):
        checkpoints.check(folder, to_go_on=False)


def test_no_flipped_bit_changes_where_a_run_stands(tmp_path: Path) -> None:
    path = saved(tmp_path / "7") / TRAINER
    whole = path.read_bytes()
    found = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            assert checkpoints.load_progress(path.parent) == PROGRESS  # such as 1E-3 for 1e-3
        except Damaged:
            found += 1
    assert found > 0.9 * len(whole)


def test_progress_and_its_checksum_change_together(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    checkpoints.save_progress(folder, replace(PROGRESS, finished="steps"))
    checkpoints.check(folder)
    assert checkpoints.load_progress(folder).finished == "steps"


def test_a_checkpoint_of_a_time_without_checksums_still_counts(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    (folder / CHECKSUMS).unlink()
    (folder / TRAINER).write_text(json.dumps(vars(PROGRESS)))
    checkpoints.check(folder)
    assert checkpoints.load_progress(folder) == PROGRESS
    cut(folder / OPTIMIZER)
    checkpoints.check(folder, to_go_on=False)
    with pytest.raises(Damaged, match=OPTIMIZER):
        checkpoints.check(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../secret", ".."])
def test_checksums_lead_to_no_file_outside(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path / "7")
    (folder / CHECKSUMS).write_text(json.dumps({name: "0"}))
    with pytest.raises(Damaged, match=CHECKSUMS):
        checkpoints.check(folder)


def test_a_damaged_checkpoint_is_not_averaged(tmp_path: Path) -> None:
    folders = [saved(tmp_path / str(seed), seed) for seed in range(2)]
    flip(folders[1] / WEIGHTS)
    with pytest.raises(Damaged, match=WEIGHTS):
        checkpoints.average(folders)


def test_no_file_of_a_checkpoint_is_a_pickle(tmp_path: Path) -> None:
    for path in saved(tmp_path / "7").iterdir():
        if path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
        else:  # eight bytes of length, then a JSON header that ends where it says
            content = path.read_bytes()
            assert path.suffix == ".safetensors"
            json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_a_model_without_an_optimiser_is_saved_without_one(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "average", model(), {}, {}, Progress())
    assert not (tmp_path / "average" / OPTIMIZER).exists()


@pytest.mark.parametrize("size", [0, 4, 60, -1])
def test_weights_that_are_cut_short_are_one_line(tmp_path: Path, size: int) -> None:
    path = saved(tmp_path / "7") / WEIGHTS
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(RegardError) as caught:
        checkpoints.load_weights(model(), path.parent)
    one_line(caught, str(path), "cut short")


def test_weights_of_another_format_are_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "7") / WEIGHTS
    path.write_bytes(b"\x80\x04" + b"x" * 200)
    with pytest.raises(RegardError) as caught:
        checkpoints.load_weights(model(), path.parent)
    one_line(caught, str(path))


@pytest.mark.parametrize(
    ("name", "load"),
    [(WEIGHTS, lambda folder: checkpoints.load_weights(model(), folder)), (TRAINER, checkpoints.load_progress)],
)
def test_a_missing_file_is_one_line(tmp_path: Path, name: str, load: Any) -> None:
    folder = saved(tmp_path / "7")
    (folder / name).unlink()
    with pytest.raises(RegardError) as caught:
        load(folder)
    one_line(caught, str(folder / name), "no such file")


def test_a_folder_in_place_of_a_file_is_one_line(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()
    with pytest.raises(RegardError) as caught:
        checkpoints.load_weights(model(), folder)
    one_line(caught, str(folder / WEIGHTS))


@pytest.mark.parametrize(
    ("change", "word", "named"),
    [
        (lambda tensors: tensors.pop("0.bias"), "lacks", "0.bias"),
        (lambda tensors: tensors.update(spare=torch.ones(1)), "unknown", "spare"),
        (lambda tensors: tensors.update({"0.bias": torch.ones(4)}), "misshapen", "0.bias (4,) instead of (3,)"),
    ],
    ids=["missing", "extra", "misshapen"],
)
def test_tensors_that_do_not_fit_are_named(tmp_path: Path, change: Any, word: str, named: str) -> None:
    path = saved(tmp_path / "7") / WEIGHTS
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    untouched = model(1)
    before = {name: tensor.clone() for name, tensor in untouched.state_dict().items()}
    with pytest.raises(RegardError) as caught:
        checkpoints.load_weights(untouched, path.parent)
    one_line(caught, str(path), word, named)
    for name, tensor in untouched.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_long_list_of_misfits_is_cut(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    deep = nn.Sequential(*(nn.Linear(2, 2) for _ in range(10)))
    with pytest.raises(RegardError) as caught:
        checkpoints.load_weights(deep, folder)
    one_line(caught, "and", "more")
    assert len(str(caught.value).removeprefix(str(folder))) < 300


@pytest.mark.parametrize("text", ["", "{", '{"step": 7', "[1, 2]", "null", "\x00"])
@pytest.mark.parametrize("name", ["config.json", TRAINER])
def test_damaged_json_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    path = saved(tmp_path / "7") / name
    path.write_text(text, "utf-8")
    with pytest.raises(RegardError) as caught:
        checkpoints.load_progress(path.parent) if name == TRAINER else checkpoints.load_json(path)
    one_line(caught, str(path))


def test_json_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "7") / TRAINER
    path.write_bytes(b'{"step": "\xff"}')
    with pytest.raises(RegardError) as caught:
        checkpoints.load_progress(path.parent)
    one_line(caught, str(path))


def test_progress_with_an_unknown_key_is_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "7") / TRAINER
    path.write_text(json.dumps({**vars(PROGRESS), "phase": 3}), "utf-8")
    with pytest.raises(RegardError) as caught:
        checkpoints.load_progress(path.parent)
    one_line(caught, str(path), "phase")


def test_the_average_is_the_mean_of_the_weights(tmp_path: Path) -> None:
    folders = [saved(tmp_path / str(seed), seed) for seed in range(3)]
    mean = checkpoints.average(folders)
    states = [model(seed).state_dict() for seed in range(3)]
    assert mean.keys() == states[0].keys()
    for name, tensor in mean.items():
        expected = torch.stack([state[name].double() for state in states]).mean(0)
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, expected.float(), atol=1e-7, rtol=1e-6)


def test_the_average_of_one_checkpoint_is_itself(tmp_path: Path) -> None:
    mean = checkpoints.average([saved(tmp_path / "7")])
    for name, tensor in model().state_dict().items():
        assert torch.equal(mean[name], tensor)


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt(), RuntimeError("no")])
@pytest.mark.parametrize("call", [1, 2])
def test_a_fault_while_saving_leaves_the_old_checkpoint_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, call: int
) -> None:
    folder = saved(tmp_path / "7")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    calls = 0

    def failing(tensors: Any, path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            Path(path).write_bytes(b"half")
            raise fault
        save_file(tensors, path)

    monkeypatch.setattr(checkpoints, "save_file", failing)
    with pytest.raises(RegardError if isinstance(fault, OSError) else type(fault)) as caught:
        saved(folder, seed=1)
    if isinstance(fault, OSError):
        one_line(caught, str(folder), "No space left on device")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_saving_again_replaces_the_whole_folder(tmp_path: Path) -> None:
    folder = saved(tmp_path / "7")
    (folder / "stray").write_text("x")
    saved(folder, seed=1)
    assert not (folder / "stray").exists()
    assert torch.equal(load_file(folder / WEIGHTS)["0.weight"], model(1)[0].weight)
