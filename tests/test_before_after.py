"""benchmarks/before_after.py and benchmarks/count_instructions.py: their statistics, their turns, and a short run."""

import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import before_after
import count_instructions
from compare import sides
from compare.checkouts import REPOSITORY, Checkout, export_commit, export_working_tree
from compare.checkpoints import QUICK, write_all
from compare.intervals import CANNOT_BE_TOLD, HOLDS, MISSED, median_interval, verdict
from compare.sides import AFTER, AGAIN, BEFORE, difference, measured
from compare.workloads import WORKLOADS

BENCHMARKS = REPOSITORY / "benchmarks"

# Intervals.


@pytest.mark.parametrize(
    ("count", "ranks"),  # as in the tables of textbooks for 95 %
    [
        (6, (1, 6)),
        (8, (1, 8)),
        (9, (2, 8)),
        (10, (2, 9)),
        (20, (6, 15)),
        (30, (10, 21)),
        (31, (10, 22)),
        (101, (41, 61)),
    ],
)
def test_the_interval_of_a_median_has_the_ranks_of_the_tables(count: int, ranks: tuple[int, int]) -> None:
    values = list(range(1, count + 1))
    random.Random(0).shuffle(values)
    assert median_interval(values) == ranks


@pytest.mark.parametrize("count", [7, 31, 41, 101])
def test_95_of_100_intervals_contain_the_median(count: int) -> None:
    draw = random.Random(count)
    intervals = [median_interval([draw.expovariate(1) for _ in range(count)]) for _ in range(4000)]
    share = sum(low <= 0.6931 <= high for low, high in intervals) / len(intervals)  # the median is ln 2
    assert 0.94 < share < 0.99


def test_few_values_have_their_range_as_the_interval_and_no_values_have_none() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([1.0]) == (1.0, 1.0)
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


def around(middle: float, spread: float, count: int = 31) -> list[float]:
    """Ratios whose interval is about 0.4 times the spread."""
    return [middle + spread * (number / (count - 1) - 0.5) for number in range(count)]


@pytest.mark.parametrize(
    ("ratios", "control", "expected", "reason"),
    [
        (around(1.0, 0.05), around(1.0, 0.05), HOLDS, "the median ratio 1.000 is at least 0.98"),
        (around(0.981, 0.05), around(1.0, 0.05), HOLDS, "at least 0.98"),
        (around(0.979, 0.05), around(1.0, 0.05), MISSED, "the median ratio 0.979 is less than 0.98"),
        (around(1.2, 0.2), around(1.0, 0.05), CANNOT_BE_TOLD, "is wider than 0.04"),
        (around(0.8, 0.2), around(1.0, 0.05), CANNOT_BE_TOLD, "is wider than 0.04"),
        (around(1.0, 0.05), around(1.03, 0.05), CANNOT_BE_TOLD, "control's interval .* does not contain 1"),
        (around(1.0, 0.05), around(0.97, 0.05), CANNOT_BE_TOLD, "control's interval .* does not contain 1"),
        (around(1.0, 0.05, 30), around(1.0, 0.05, 30), CANNOT_BE_TOLD, "30 rounds are too few"),
    ],
)
def test_a_verdict(ratios: list[float], control: list[float], expected: str, reason: str) -> None:
    found, why = verdict(ratios, control)
    assert found == expected
    assert re.search(reason, why), why


# Turns.


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sides.time, "sleep", lambda seconds: None)
    return []


def taking(turns: list[str], name: str, seconds: Callable[[], float]) -> Callable[[], float]:
    def work() -> float:
        turns.append(name)
        return seconds()

    return work


def test_every_side_works_once_a_round_and_all_orders_occur_equally_often(turns: list[str]) -> None:
    seconds = measured({name: taking(turns, name, lambda: 1.0) for name in (BEFORE, AGAIN, AFTER)}, 36, 36)
    rounds = [tuple(turns[first : first + 3]) for first in range(0, len(turns), 3)]
    assert len(rounds) == 36
    assert {order: rounds.count(order) for order in rounds} == dict.fromkeys(
        itertools.permutations((BEFORE, AGAIN, AFTER)), 6
    )
    assert all(len(values) == 36 for values in seconds.values())


def test_steady_sides_are_measured_in_the_least_number_of_rounds(turns: list[str]) -> None:
    assert len(measured({name: lambda: 1.0 for name in (BEFORE, AGAIN, AFTER)}, 31, 101)[AFTER]) == 31


@pytest.mark.parametrize(("noise", "expected"), [(0.9, {101}), (0.09, set(range(41, 102, 10)))])
def test_noisy_sides_are_measured_until_the_interval_is_narrow(
    noise: float, expected: set[int], turns: list[str]
) -> None:
    draw = random.Random(1)
    works = {name: lambda: draw.uniform(1 - noise, 1 + noise) for name in (BEFORE, AGAIN, AFTER)}
    seconds = measured(works, 31, 101)
    assert len(seconds[AFTER]) in expected
    low, high = median_interval(sides.ratios(seconds, AFTER))
    assert len(seconds[AFTER]) == 101 or high - low <= 0.04


def test_a_ratio_is_above_1_where_a_side_is_faster_than_before() -> None:
    assert sides.ratios({BEFORE: [2.0, 3.0], AFTER: [1.0, 6.0]}, AFTER) == [2.0, 0.5]


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"texts": ["a", "b"]}, {"texts": ["a", "b"]}, None),
        ({"texts": ["a", "b"]}, {"texts": ["a", "c"]}, "texts[1]: 'b', the other has 'c'"),
        ({"texts": ["a", "b"]}, {"texts": ["a"]}, "2 texts, the other has 1"),
        ({"texts": ["a"]}, {"vectors": [[1.0]]}, "one has texts, the other vectors"),
        ({"vectors": [[1.0, 2.0]]}, {"vectors": [[1.0, 2.000009]]}, None),
        ({"vectors": [[1.0, 2.0]]}, {"vectors": [[1.0, 2.00002]]}, "vectors[0]"),
        ({"vectors": [[1.0, 2.0]]}, {"vectors": [[1.0, float("nan")]]}, "vectors[0]"),
        ({"vectors": [[1.0, 2.0]]}, {"vectors": [[1.0]]}, "vectors[0]"),
        ({"losses": [6.0]}, {"losses": [6.005]}, None),
        ({"losses": [6.0]}, {"losses": [6.01]}, "losses[0]"),
    ],
)
def test_a_difference_of_outputs_is_found(one: dict[str, Any], other: dict[str, Any], found: str | None) -> None:
    said = difference(one, other)
    assert (said is None) == (found is None)
    assert (found or "") in (said or "")


# Versions.


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository with one commit."""
    folder = tmp_path / "repository"
    (folder / "src" / "regard").mkdir(parents=True)
    (folder / "src" / "regard" / "__init__.py").write_text("VALUE = 1\n")
    (folder / "notes").write_text("not exported\n")
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "One"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def imported(checkout: Checkout, expression: str) -> str:
    command = [sys.executable, "-c", f"import regard; print({expression})"]
    return subprocess.run(
        command, env=checkout.environment(), check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_commit_and_the_working_tree_are_exported_and_imported(repository: Path, tmp_path: Path) -> None:
    clean = export_working_tree(tmp_path / "clean", repository)
    assert not clean.is_dirty
    (repository / "src" / "regard" / "__init__.py").write_text("from regard.other import VALUE\n")
    (repository / "src" / "regard" / "other.py").write_text("VALUE = 2\n")
    before = export_commit("HEAD", tmp_path / "before", repository)
    after = export_working_tree(tmp_path / "after", repository)
    assert (before.is_dirty, after.is_dirty) == (False, True)
    assert before.commit == after.commit == clean.commit
    assert [imported(side, "regard.VALUE") for side in (before, after, clean)] == ["1", "2", "1"]
    assert imported(after, "regard.__file__") == str(tmp_path / "after" / "src" / "regard" / "__init__.py")
    assert not (tmp_path / "after" / "notes").exists()
    status = subprocess.run(["git", "status", "--short"], cwd=repository, check=True, capture_output=True, text=True)
    assert status.stdout.split() == ["M", "src/regard/__init__.py", "??", "src/regard/other.py"]  # nothing is staged


def test_a_revision_that_is_none_is_refused_in_one_line(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^'nowhere' is not a commit of .*; git log lists the commits$"):
        export_commit("nowhere", tmp_path / "before", repository)


# Whole runs.


@pytest.fixture
def head() -> str:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("the sources are not in a git repository")
    return "HEAD"


def test_a_quick_run_compares_a_commit_with_itself(head: str, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    words = [head, "--after", head, "--quick", "--jobs", "encode,train", "-o", str(path)]
    command = [sys.executable, str(BENCHMARKS / "before_after.py"), *words]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # several threads are slow where other tests run
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=one_thread)
    assert run.returncode == 0, run.stderr
    result = json.loads(path.read_text("utf-8"))
    assert result["before"] == result["after"]
    assert result["command"] == " ".join(["python benchmarks/before_after.py", *words])
    assert list(result["workloads"]) == ["encode", "train"]
    for workload in result["workloads"].values():
        assert workload["verdict"] == CANNOT_BE_TOLD  # three rounds are too few
        assert workload["rounds"] == len(workload["before_to_after"]["per_round"]) == 3
        assert len(workload["control"]["per_round"]) == 3
        assert all(seconds > 0 for seconds in workload["median_seconds"].values())


def test_workloads_give_one_output_for_each_text(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    write_all(tmp_path, ["translate", "generate", "single", "train-rnn"], QUICK)
    sizes = json.loads((tmp_path / "sizes.json").read_text("utf-8"))
    outputs = {}
    for name in ("translate", "generate", "single", "train-rnn"):
        seconds, outputs[name] = WORKLOADS[name](tmp_path, sizes)()
        assert seconds > 0
    assert len(outputs["translate"]["texts"]) == QUICK["sentences"]
    assert len(set(outputs["translate"]["texts"])) > 1
    assert outputs["single"]["texts"] == outputs["translate"]["texts"][: QUICK["singles"]["sentences"]]
    assert len(outputs["single"]["vectors"]) == QUICK["singles"]["vectors"]
    assert len(set(outputs["generate"]["texts"])) == QUICK["prompts"]
    assert len(outputs["train-rnn"]["losses"]) == sum(QUICK["train-rnn"]["steps"].values()) + 1


def test_a_side_with_other_vectors_is_found_and_a_side_that_fails_is_reported(tmp_path: Path) -> None:
    source = """
import numpy as np
class Model:
    def embed(self, texts, pooling, normalize):
        return np.full((len(texts), 2), {value})
def load(folder, device):
    return Model()
"""
    checkouts = {}
    for name, value in {BEFORE: "1.0", AGAIN: "1.0", AFTER: "1.1"}.items():
        package = tmp_path / name / "src" / "regard"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(source.format(value=value))
        checkouts[name] = Checkout(tmp_path / name, "0" * 40, is_dirty=False)
    sizes = {"texts": ["a", "b"], "vectors": 2, "starts": {"import": 2}}
    (tmp_path / "sizes.json").write_text(json.dumps(sizes))
    assert before_after.one_workload("start-import", checkouts, tmp_path, 3, 3)["rounds"] == 3
    with pytest.raises(SystemExit, match=r"encode: 'before' and 'after' differ, so nothing is measured: vectors\[0\]"):
        before_after.one_workload("encode", checkouts, tmp_path, 1, 1)
    (tmp_path / AFTER / "src" / "regard" / "__init__.py").write_text("raise OSError('broken on purpose')\n")
    with pytest.raises(SystemExit, match=r"(?s)a side failed, so nothing is measured.*broken on purpose"):
        before_after.one_workload("encode", checkouts, tmp_path, 1, 1)


# Instructions.


def test_the_wrapper_replaces_the_instruction_set_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "real compiler"
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    monkeypatch.setenv("CC", str(real))
    wrapper = count_instructions.write_compiler(tmp_path / "compiler", "x86-64-v3")
    words = ["-O3", "-march=native", "-fopenmp", "with blank.c", "-o", "a.so"]
    run = subprocess.run([str(wrapper), *words], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == ["-O3", "-march=x86-64-v3", "-fopenmp", "with blank.c", "-o", "a.so"]


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_instructions_are_counted_and_more_work_costs_more(capsys: pytest.CaptureFixture[str]) -> None:
    def count(turns: int) -> int:
        script = f"i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done; echo '[\"text\"]'"
        instructions, texts = count_instructions.counted(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, "sh")
        assert texts == ["text"]
        return instructions

    few, many = count(10), count(1010)
    assert few == count(10)
    assert few < many
    with pytest.raises(SystemExit, match="valgrind ended with 3, so nothing is compared"):
        count_instructions.counted(["sh", "-c", "exit 3"], {"PATH": "/usr/bin:/bin"}, "sh")


@pytest.mark.parametrize(("after", "expected"), [(1020, "holds"), (1021, "missed"), (900, "holds")])
def test_the_cost_is_the_difference_of_eleven_sentences_and_one(after: int, expected: str) -> None:
    texts = [f"t{number}" for number in range(11)]
    costs = {"before": 1000, "after": after}
    start = {"before": 5000, "after": 7000}  # of Python and of loading: it does not count
    found = {side: {1: (start[side], texts[:1]), 11: (start[side] + costs[side], texts)} for side in costs}
    result = count_instructions.compared(found)
    assert result["difference"] == costs
    assert result["verdict"] == expected
    assert result["ratio"] == after / 1000


def test_other_translations_are_not_compared() -> None:
    found = {side: {count: (count, [side] * count) for count in (1, 11)} for side in ("before", "after")}
    with pytest.raises(SystemExit, match=r"after, 1 sentences: \['after'\]; before: \['before'\]; nothing is compared"):
        count_instructions.compared(found)
