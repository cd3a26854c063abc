"""A run folder: made once, opened again, its curve never doubled, its checkpoints pruned."""

import json
from pathlib import Path

import pytest

from regard.errors import RegardError, UsageError
from regard.training.run import CONFIG, Run

RECIPE = {"about": "ein Versuch: äöü", "training": {"steps": 3, "betas": [0.9, 0.98]}, "data": {}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", RECIPE)


def save_steps(run: Run, *steps: int) -> None:
    for step in steps:
        run.checkpoint(step).mkdir(parents=True)
        (run.checkpoint(step) / "model.safetensors").write_text("x")


def test_the_recipe_comes_back_as_it_was(run: Run) -> None:
    assert Run.open(run.folder).config() == RECIPE
    assert "äöü" in (run.folder / CONFIG).read_text("utf-8")


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    assert Run.create(tmp_path / "a" / "b" / "run", RECIPE).config() == RECIPE


def test_an_empty_folder_may_become_a_run(tmp_path: Path) -> None:
    assert Run.create(tmp_path, RECIPE).config() == RECIPE


def test_an_existing_run_is_refused_and_left_alone(run: Run) -> None:
    with pytest.raises(UsageError, match=r"exists already.*--resume.*--out"):
        Run.create(run.folder, {"about": "another"})
    assert run.config() == RECIPE


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        Run.create(tmp_path / "run", RECIPE)
    assert (tmp_path / "run").read_text() == "mine"


def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        Run.create(tmp_path, RECIPE)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_that_was_killed_at_its_very_first_write_can_be_trained_again(tmp_path: Path) -> None:
    (tmp_path / f".{CONFIG}.123.abcd.part").write_text("about: ha")
    assert Run.create(tmp_path, RECIPE).config() == RECIPE
    assert [path.name for path in tmp_path.iterdir()] == [CONFIG]


def test_opening_nothing_says_how_to_train_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such run folder.*regard train"):
        Run.open(tmp_path / "none")


def test_opening_another_folder_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"not a run folder.*{CONFIG}"):
        Run.open(tmp_path)


@pytest.mark.parametrize("content", [b"a: [1", b"\xff\xfe", b"just a text", b""])
def test_a_damaged_recipe_is_one_line(run: Run, content: bytes) -> None:
    (run.folder / CONFIG).write_bytes(content)
    with pytest.raises(RegardError) as caught:
        run.config()
    assert str(run.folder / CONFIG) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_metrics_are_one_object_a_line(run: Run) -> None:
    assert run.read_metrics() == []
    for step in (1, 2):
        run.log_metrics({"step": step, "loss": 0.5})
    assert run.read_metrics() == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.5}]
    assert [json.loads(line)["step"] for line in run.metrics.read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize("rest", ["", '{"step": 5, "lo', '{"step": 5'])
def test_a_resumed_run_forgets_what_came_after_its_checkpoint(run: Run, rest: str) -> None:
    for step in range(1, 5):
        run.log_metrics({"step": step, "loss": 1 / step})
    with open(run.metrics, "a", encoding="utf-8") as file:
        file.write(rest)  # what a killed process leaves
    run.forget_metrics_after(3)
    assert [record["step"] for record in run.read_metrics()] == [1, 2, 3]
    run.log_metrics({"step": 4, "loss": 0.0})
    assert [record["step"] for record in run.read_metrics()] == [1, 2, 3, 4]


@pytest.mark.parametrize("rest", [b'{"step": 3, "lo', b"\0\0\0\0", b"\xff\xfe{", b"7\n", b'"step"\n', b"[]\n{}\n"])
def test_what_is_no_line_of_the_metrics_is_neither_read_nor_kept(run: Run, rest: bytes) -> None:
    run.log_metrics({"step": 1, "loss": 0.5})
    with open(run.metrics, "ab") as file:
        file.write(rest)
    assert run.read_metrics() == [{"step": 1, "loss": 0.5}]
    run.forget_metrics_after(3)
    assert run.metrics.read_text() == '{"step": 1, "loss": 0.5}\n'


def test_forgetting_without_metrics_makes_none(run: Run) -> None:
    run.forget_metrics_after(3)
    assert not run.metrics.exists()


def test_saved_steps_are_in_the_order_of_numbers_and_only_steps(run: Run) -> None:
    assert run.saved_steps() == []
    save_steps(run, 100, 20, 3)
    run.checkpoint("average").mkdir()
    run.checkpoint(".7.1.ab.part").mkdir()
    run.point("last", 100)
    assert run.saved_steps() == [3, 20, 100]


def test_links_move_and_lead_to_their_checkpoint(run: Run) -> None:
    save_steps(run, 1, 2)
    assert run.pointed("best") is None
    run.point("best", 1)
    run.point("best", 2)
    assert run.pointed("best") == "2"
    assert run.checkpoint("best").resolve() == run.checkpoint(2).resolve()
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["1", "2", "best"]


def test_links_stay_right_when_the_run_is_moved(run: Run) -> None:
    save_steps(run, 1)
    run.point("last", 1)
    moved = Run(run.folder.rename(run.folder.with_name("moved")))
    assert (moved.checkpoint("last") / "model.safetensors").read_text() == "x"


def test_pruning_keeps_the_newest_and_the_best(run: Run) -> None:
    save_steps(run, 10, 20, 30, 40, 100)
    run.point("best", 20)
    run.point("last", 100)
    run.prune(2)
    assert run.saved_steps() == [20, 40, 100]
    assert run.checkpoint("best").is_dir()
    assert run.checkpoint("last").is_dir()


def test_pruning_keeps_the_last_even_when_it_is_not_the_newest(run: Run) -> None:
    save_steps(run, 10, 20, 30)
    run.point("last", 10)
    run.prune(1)
    assert run.saved_steps() == [10, 30]


def test_pruning_few_checkpoints_removes_none(run: Run) -> None:
    save_steps(run, 10, 20)
    run.prune(5)
    assert run.saved_steps() == [10, 20]


def test_pruning_leaves_the_average(run: Run) -> None:
    save_steps(run, 10, 20)
    run.checkpoint("average").mkdir()
    run.prune(1)
    assert run.checkpoint("average").is_dir()


def test_a_checkpoint_is_put_aside_under_a_name_that_is_no_step(run: Run) -> None:
    save_steps(run, 10, 20)
    run.put_aside(20)
    assert run.saved_steps() == [10]
    assert (run.aside(20) / "model.safetensors").read_text() == "x"
    run.prune(1)
    assert run.aside(20).is_dir()


def test_going_back_leaves_nothing_of_what_came_later(run: Run) -> None:
    save_steps(run, 10, 20)
    run.checkpoint("average").mkdir()
    run.point("best", "average")
    for step in (10, 20, 30):
        run.log_metrics({"step": step, "loss": 0.5})
    run.go_back_to(20, 10)
    assert (run.pointed("last"), run.pointed("best")) == ("20", "10")
    assert [record["step"] for record in run.read_metrics()] == [10, 20]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["10", "20", "best", "last"]


def test_going_back_to_when_the_best_is_gone_takes_what_there_is(run: Run) -> None:
    save_steps(run, 20)
    run.go_back_to(20, 10)
    assert run.pointed("best") == "20"


def test_what_a_person_should_know_is_said_and_logged(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.tell("something is damaged")
    assert capsys.readouterr().err == "regard: something is damaged\n"
    assert (run.folder / "train.log").read_text("utf-8").endswith("  something is damaged\n")


def test_the_log_grows_line_by_line(run: Run) -> None:
    run.log("first")
    run.log("second")
    lines = (run.folder / "train.log").read_text("utf-8").splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["first", "second"]


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (run.checkpoints / ".12.345.abc.part").mkdir(parents=True)
    (run.checkpoints / ".12.345.abc.part" / "model.safetensors").write_bytes(b"half")
    (run.checkpoints / ".last.345.abc.part").symlink_to("12")
    (run.checkpoints / "8").mkdir()
    run.sweep()
    assert [path.name for path in run.checkpoints.iterdir()] == ["8"]
