"""Batches side by side say what they say one after the other."""

import threading
import time

import pytest
import torch

from regard.decoding.workers import side_by_side, worker_count


def test_every_part_comes_back_with_its_own_result() -> None:
    parts = list(range(20))
    for workers in (1, 2, 3, 50):
        found = dict(side_by_side(lambda part: part * part, parts, workers))
        assert found == {part: part * part for part in parts}


def test_no_parts_are_no_work() -> None:
    assert list(side_by_side(lambda part: part, [], 2)) == []


def test_workers_share_the_threads_of_torch_and_give_them_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        met = threading.Barrier(2, timeout=20)  # both workers are there at once

        def threads(part: int) -> tuple[int, str]:
            met.wait()
            return torch.get_num_threads(), threading.current_thread().name

        found = dict(side_by_side(threads, [0, 1], 2))
        assert {count for count, _ in found.values()} == {2}
        assert len({name for _, name in found.values()}) == 2
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_after_an_error_what_has_not_begun_never_does() -> None:
    begun: list[int] = []

    def work(part: int) -> None:
        begun.append(part)
        if part == 0:
            raise ValueError("part 0")
        time.sleep(0.02)

    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="part 0"):
        list(side_by_side(work, list(range(200)), 2))
    assert len(begun) < 200
    assert torch.get_num_threads() == before


def test_there_is_one_worker_for_each_thread_on_a_cpu_and_one_elsewhere() -> None:
    assert worker_count(torch.device("cpu")) == torch.get_num_threads()
    assert worker_count(torch.device("meta")) == 1
    assert worker_count(torch.device("cpu"), wanted=3) == 3
