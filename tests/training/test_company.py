"""Two processes learn what one learns: every task, with all weights in both or with a share of them in each."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from tiny_recipes import sections, write_recipes
from together import Stop

from regard.recipes import load_recipe, runner
from regard.training.checkpoints import WEIGHTS
from regard.training.meeting import agreed_name
from regard.training.run import Run
from regard.training.settings import STRATEGIES

HERE = Path(__file__).parent
NAMES = sorted(sections(Path()))
BATCH_NORM = ("snail",)  # its statistics are those of a piece; see docs/models/snail.md


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every recipe trained by one process and by two, and one that was begun alone, gone on with by two."""
    place = tmp_path_factory.mktemp("company")
    recipes = write_recipes(place)
    for name in sorted(recipes, key=lambda name: name == "attend-tell"):  # it starts from another one's run
        runner.train(load_recipe(str(recipes[name])), place / "runs" / name / "alone")
    runner.train(load_recipe(str(recipes["gpt2"])), place / "runs" / "one-two-one", watcher=Stop(2))
    torchrun("--nproc-per-node", "2", str(HERE / "together.py"), str(place))
    return place


def torchrun(*arguments: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def curve(run: Path, name: str = "loss") -> list[tuple[int, float]]:
    return [(record["step"], record[name]) for record in Run(run).read_metrics() if name in record]


def assert_same_curve(found: Path, expected: Path) -> None:
    for name in ("loss", "nll", "valid_nll"):
        ours, theirs = curve(found, name), curve(expected, name)
        assert [step for step, _ in ours] == [step for step, _ in theirs]
        assert len(ours) == len({step for step, _ in ours}) > 0
        assert [value for _, value in ours] == pytest.approx([value for _, value in theirs], abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_give_the_curve_of_one(folder: Path, name: str, strategy: str) -> None:
    assert_same_curve(folder / "runs" / name / strategy, folder / "runs" / name / "alone")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NAMES)
def test_the_checkpoint_of_two_processes_is_one_of_the_whole_model(folder: Path, name: str, strategy: str) -> None:
    found, expected = (
        load_file(Run(folder / "runs" / name / which).checkpoint("last") / WEIGHTS) for which in (strategy, "alone")
    )
    assert found.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(found[key], tensor, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("pieces", [2, 4])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in BATCH_NORM])
def test_a_batch_in_pieces_gives_the_same_curve(folder: Path, name: str, pieces: int, tmp_path: Path) -> None:
    recipe = load_recipe(str(folder / f"{name}.yaml"), [f"training.accumulate={pieces}"])
    runner.train(recipe, tmp_path / "run")
    assert_same_curve(tmp_path / "run", folder / "runs" / name / "alone")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_computed_once_more_is_the_same_to_the_bit(folder: Path, name: str, tmp_path: Path) -> None:
    run, _ = runner.train(load_recipe(str(folder / f"{name}.yaml"), ["training.recompute=true"]), tmp_path / "run")
    alone = Run(folder / "runs" / name / "alone")
    assert curve(run.folder) == curve(alone.folder)
    found, expected = (load_file(each.checkpoint("last") / WEIGHTS) for each in (run, alone))
    for key, tensor in expected.items():
        assert torch.equal(found[key], tensor), key


@pytest.mark.parametrize("name", NAMES)
def test_products_in_sixteen_bits_give_nearly_the_same_curve(folder: Path, name: str, tmp_path: Path) -> None:
    run, _ = runner.train(load_recipe(str(folder / f"{name}.yaml"), ["training.precision=bfloat16"]), tmp_path / "run")
    (_, first), *_ = curve(folder / "runs" / name / "alone")
    found, expected = ([loss for _, loss in curve(each)] for each in (run.folder, folder / "runs" / name / "alone"))
    assert found != expected  # or nothing was rounded
    assert found == pytest.approx(expected, rel=0.03, abs=0.03 * first)
    weights = load_file(run.checkpoint("last") / WEIGHTS)
    assert {tensor.dtype for tensor in weights.values() if tensor.is_floating_point()} == {torch.float32}


def test_a_run_goes_on_with_another_number_of_processes(folder: Path) -> None:
    run = folder / "runs" / "one-two-one"
    assert Run(run).pointed("last") == "4"
    _, outcome = runner.resume(run)
    assert outcome.reason == "steps"
    assert_same_curve(run, folder / "runs" / "gpt2" / "alone")


def test_processes_that_are_killed_are_replaced_and_nothing_changes(folder: Path, tmp_path: Path) -> None:
    torchrun(
        *("--nproc-per-node", "2", "--max-restarts", "3", str(HERE / "fragile.py")),
        *(str(folder / "gpt2.yaml"), str(tmp_path / "run")),
    )
    assert_same_curve(tmp_path / "run", folder / "runs" / "gpt2" / "ddp")
    assert not list((tmp_path / "run").rglob("*.part"))


def test_a_restart_does_not_meet_the_dead() -> None:
    """The store still has the words of an earlier start: its processes heard their name and died."""
    server = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    names = [meeting_of(server.port), meeting_of(server.port)]
    assert [len(set(each)) for each in names] == [1, 1]
    assert [each[0].partition("-")[0] for each in names] == ["1", "2"]


def meeting_of(port: int, size: int = 3) -> list[str]:
    """The names that the processes, here threads, agree on; the first comes long before the others."""

    def come(rank: int) -> str:
        time.sleep(0.3 * rank)
        store = dist.TCPStore("localhost", port, is_master=False)
        return agreed_name(store, rank, size, timedelta(seconds=20))

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(come, range(size)))


def test_one_run_folder_has_one_writer(folder: Path) -> None:
    """Each step stands in the metrics once, and the log speaks with one voice."""
    run = folder / "runs" / "transformer" / "ddp"
    assert [step for step, _ in curve(run)] == [1, 2, 3, 4, 5]
    assert (run / "train.log").read_text().count("training ended") == 1
    assert not list(run.rglob("*.part"))


def test_stopping_one_process_stops_all_and_saves(folder: Path) -> None:
    log = (folder / "runs" / "one-two-one" / "train.log").read_text()
    assert "stopped, step 2" in log
    assert "stopped, step 4" in log
