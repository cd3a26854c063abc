"""The number of processors: of the machine, of the process, and of its control groups in made-up trees of files."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from regard import processors
from regard.decoding import workers
from regard.errors import RegardError
from regard.loading import load
from regard.processors import available_cpus, limit_threads
from regard.training.loop import Trainer
from regard.training.run import Run
from regard.training.settings import Training

MACHINE = 16


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(MACHINE)), raising=False)


def counted(folder: Path, groups: str | None, files: dict[str, str | bytes]) -> int:
    if groups is not None:
        (folder / "groups").write_text(groups)
    for name, content in files.items():
        path = folder / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return available_cpus(folder / "groups", folder / "mounted")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a/b/cpu.max": "200000 100000\n"}, 2),
        ({"a/b/cpu.max": "150000 100000\n"}, 2),  # rounded up
        ({"a/b/cpu.max": "1000 100000\n"}, 1),
        ({"a/b/cpu.max": "max 100000\n"}, MACHINE),
        ({"a/b/cpu.max": "6400000 100000\n"}, MACHINE),  # more than there are
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ({"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "300000 100000\n", "cpu.max": "500000 100000"}, 3),
        ({"a/b/cpu.max": "200000 100000\n", "a/cpu.max": "300000 100000\n"}, 2),
        ({"cpu.max": "500000 100000\n"}, 5),  # a container that sees its own group as the root
        ({"other/cpu.max": "100000 100000\n", "a/b/c/cpu.max": "100000 100000\n"}, MACHINE),
        ({"unified/a/b/cpu.max": "400000 100000\n"}, 4),
        ({}, MACHINE),
    ],
)
def test_the_smallest_quota_of_version_2_counts(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert counted(tmp_path, "0::/a/b\n", files) == expected


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(
    ("own", "above", "expected"),
    [("250000", "-1", 3), ("-1", "-1", MACHINE), ("-1", "400000", 4), ("800000", "400000", 4), ("0", "0", MACHINE)],
)
def test_the_smallest_quota_of_version_1_counts(
    tmp_path: Path, mount: str, own: str, above: str, expected: int
) -> None:
    files: dict[str, str | bytes] = {}
    for path, quota in ((f"{mount}/docker/1", own), (f"{mount}/docker", above)):
        files |= {f"{path}/cpu.cfs_quota_us": f"{quota}\n", f"{path}/cpu.cfs_period_us": "100000\n"}
    groups = "5:cpuset:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n"
    assert counted(tmp_path, groups, files) == expected


def test_both_versions_side_by_side(tmp_path: Path) -> None:
    files = {"cpu/cpu.cfs_quota_us": "700000", "cpu/cpu.cfs_period_us": "100000", "unified/x/cpu.max": "600000 100000"}
    assert counted(tmp_path, "1:cpu:/x\n0::/x\n", {**files}) == 6


@pytest.mark.parametrize(
    "content",
    [
        "",
        "max",
        "200000",
        "many 100000",
        "200000 0",
        "-5 100000",
        "1 2 3",
        "2e5 100000",
        "9" * 5000 + " 1",
        b"\xff\xfe",
    ],
)
def test_a_malformed_quota_is_no_quota(tmp_path: Path, content: str | bytes) -> None:
    assert counted(tmp_path, "0::/a\n", {"a/cpu.max": content}) == MACHINE
    assert counted(tmp_path / "a", None, {"cpu.max": "100000 100000"}) == MACHINE  # the process has no file of groups


@pytest.mark.parametrize("groups", ["", "nonsense\n", "0:", "::::\n", "4:cpu\n", "\x00"])
def test_a_malformed_file_of_groups_is_no_quota(tmp_path: Path, groups: str) -> None:
    assert counted(tmp_path, groups, {"a/cpu.max": "100000 100000"}) == MACHINE


def test_a_quota_that_cannot_be_read_is_no_quota(tmp_path: Path) -> None:
    (tmp_path / "mounted" / "a" / "cpu.max").mkdir(parents=True)
    (tmp_path / "mounted" / "cpu").mkdir()
    assert counted(tmp_path, "4:cpu:/a\n0::/a\n", {"cpu/a/cpu.cfs_quota_us": "100000"}) == MACHINE


def test_a_group_outside_of_the_mounted_ones_leads_nowhere_else(tmp_path: Path) -> None:
    files = {"cpu.max": "300000 100000", "../outside/cpu.max": "100000 100000"}
    assert counted(tmp_path, "0::/../outside\n", {**files}) == 3


def test_without_affinity_the_machines_processors_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    for number, (told, expected) in enumerate(((6, 6), (None, 1))):
        monkeypatch.setattr(os, "cpu_count", lambda told=told: told)
        assert available_cpus(tmp_path / str(number), tmp_path) == expected


def test_the_number_is_counted_once(tmp_path: Path) -> None:
    assert counted(tmp_path, "0::/\n", {"cpu.max": "300000 100000"}) == 3
    assert counted(tmp_path, "0::/\n", {"cpu.max": "400000 100000"}) == 3


def test_this_process_has_at_least_one() -> None:
    assert available_cpus() >= 1


@pytest.mark.parametrize(("available", "chosen", "expected"), [(2, None, 2), (64, None, 8), (2, "8", 8)])
def test_torch_has_no_more_threads_than_processors_unless_asked(
    monkeypatch: pytest.MonkeyPatch, available: int, chosen: str | None, expected: int
) -> None:
    threads = [8]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(processors, "available_cpus", lambda: available)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    limit_threads()
    assert threads[-1] == expected


def test_models_and_trainings_and_workers_keep_to_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a machine of eight processors, a quota of three and a model that cannot be loaded."""
    threads = [8]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.setattr(processors, "available_cpus", lambda: 3)
    monkeypatch.setattr(workers, "available_cpus", lambda: 3)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert workers.Workers(nn.Module).count == 3
    with pytest.raises(RegardError):
        load(tmp_path)
    assert threads == [8, 3]
    threads.append(8)
    run = Run.create(tmp_path / "run", {})
    Trainer(nn.Linear(1, 1), object(), Training(device="cpu"), run, {})  # type: ignore[arg-type]
    assert threads == [8, 3, 8, 3]
