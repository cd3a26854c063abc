"""One model in several threads, and in a process that was forked after the model had run.

The models are large enough for prepacked weights and for OpenMP's threads, which the tiny ones of other tests are not.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from export import tiny_runs

REPETITIONS = 50
SIZES: dict[str, Any] = dict(size=256, hidden_size=1024, heads=4)
INPUTS = [
    ["two dogs", "a man in a hat is looking at two dogs !", "the animal"],
    ["the cat was too tired to cross the street .", "a hat", "Wo ist der Hund", "12 + 30"],
]
TIMEOUT = 60  # seconds for a script that forks; it needs about five


def translated(loaded: Any, texts: Sequence[str], **options: Any) -> list[tuple[str, float]]:
    return [(found.text, found.score) for found in loaded.translate(texts, max_new_tokens=3, **options)]


def generated(loaded: Any, texts: Sequence[str], **options: Any) -> list[tuple[str, float]]:
    return [(found.text, found.score) for found in loaded.generate(texts, max_new_tokens=3, **options)]


def classified(loaded: Any, texts: Sequence[str], **options: Any) -> list[tuple[str, float]]:
    return [(found.label, found.probability) for found in loaded.classify(texts, **options)]


def embedded(loaded: Any, texts: Sequence[str], **options: Any) -> list[tuple[str, Any]]:
    return [("", vector) for vector in loaded.embed(texts, **options)]


def encoder(family: str) -> Callable[[Path], Any]:
    return lambda folder: tiny_runs.encoder(family, folder, layers=1, **SIZES)


def translator(folder: Path) -> Any:
    return tiny_runs.translator(folder, decoder_layers=1, **SIZES)


def language_model(folder: Path) -> Any:
    return tiny_runs.language_model(folder, layers=1, **SIZES)


VERBS: dict[str, tuple[Callable[[Path], Any], Callable[..., list[tuple[str, Any]]]]] = {
    "translate": (translator, translated),
    "generate": (language_model, generated),
    "embed": (encoder("bert-embedder"), embedded),
    "classify": (encoder("bert-classifier"), classified),
}
every_verb = pytest.mark.parametrize("verb", VERBS)


def check_same(found: Sequence[tuple[str, Any]], expected: Sequence[tuple[str, Any]]) -> None:
    """The same texts; numbers may differ in the last digits, because sums depend on how many threads share them."""
    assert [text for text, _ in found] == [text for text, _ in expected]
    for (_, number), (_, wanted) in zip(found, expected, strict=True):
        np.testing.assert_allclose(number, wanted, rtol=1e-4, atol=1e-4)


@pytest.fixture
def frequent_switches() -> Any:
    """Python changes threads 500 times as often as usual, so that a race has more opportunities."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def side_by_side(*works: Callable[[], Any]) -> list[Any]:
    """The result of each, run in threads that start together; the first exception is raised when all have ended."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        start.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(run, work) for work in works]
    return [future.result() for future in futures]


@every_verb
def test_two_threads_run_one_model_and_each_gets_its_own_results(
    verb: str, tmp_path: Path, frequent_switches: None
) -> None:
    make, call = VERBS[verb]
    loaded = make(tmp_path)
    expected = [call(loaded, texts) for texts in INPUTS]

    def repeat(texts: Sequence[str], wanted: Sequence[tuple[str, Any]]) -> None:
        for _ in range(REPETITIONS):
            check_same(call(loaded, texts), wanted)

    side_by_side(*(lambda own=own: repeat(*own) for own in zip(INPUTS, expected, strict=True)))


class Interrupted(Exception):
    """What one of the threads raises in the middle of its work."""


@every_verb
def test_an_exception_in_one_thread_does_not_disturb_the_other(
    verb: str, tmp_path: Path, frequent_switches: None
) -> None:
    make, call = VERBS[verb]
    loaded = make(tmp_path)
    expected = call(loaded, INPUTS[0])

    def interrupt(count: int) -> None:
        raise Interrupted

    def fail() -> None:
        for _ in range(REPETITIONS):
            with pytest.raises(Interrupted):
                call(loaded, INPUTS[1], finished=interrupt)

    def work() -> None:
        for _ in range(REPETITIONS):
            check_same(call(loaded, INPUTS[0]), expected)

    side_by_side(fail, work)
    check_same(call(loaded, INPUTS[0]), expected)


@every_verb
def test_after_the_threads_a_model_computes_with_its_own_weights(
    verb: str, tmp_path: Path, frequent_switches: None
) -> None:
    """Nothing that one of the threads prepared from the weights is left behind: a later change of them counts."""
    make, call = VERBS[verb]
    loaded, fresh = make(tmp_path / "used"), make(tmp_path / "fresh")

    def repeat(texts: Sequence[str]) -> None:
        for _ in range(REPETITIONS // 5):
            call(loaded, texts)

    side_by_side(*(lambda texts=texts: repeat(texts) for texts in INPUTS))
    with torch.no_grad():
        for own in (loaded, fresh):
            for parameter in own.model.parameters():
                parameter.mul_(0.7)
    check_same(call(loaded, INPUTS[0]), call(fresh, INPUTS[0]))


# Processes. Each script runs in a process of its own, with as many threads as there are processors: the tests
# themselves have one, and with one thread nothing can hang.

FORKS = """
import os, signal, sys, time
from pathlib import Path
import regard, torch
sys.path.insert(0, {tests!r})

def in_child(work, seconds=20):
    '''Fork, run `work` in the child, and return the child's exit code; a child that hangs is killed: -9.'''
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

"""

TRANSLATES = """
import test_concurrency
translator = test_concurrency.translator(Path(sys.argv[1]))
TEXTS = ["a man in a hat is looking at two dogs !", "the animal did not cross the street ."] * 8
first = test_concurrency.translated(translator, TEXTS)

def again():
    test_concurrency.check_same(test_concurrency.translated(translator, TEXTS), first)
    return 0

print(in_child(again))
test_concurrency.check_same(test_concurrency.translated(translator, TEXTS), first)  # and the parent goes on
"""

LOADS = """
from torch.utils.data import DataLoader, Dataset
draw = torch.Generator().manual_seed(0)
states = torch.randn(4, 8, 60, 64, generator=draw)

class Summed(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, item):
        with torch.inference_mode():
            return float(regard.attend(states[:, :, : item + 1], states, states).context.sum())

rows = Summed()
first = torch.tensor([rows[item] for item in range(len(rows))], dtype=torch.float64)
loader = DataLoader(rows, batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=20)
torch.testing.assert_close(torch.cat(list(loader)), first, rtol=1e-4, atol=1e-4)
print(0)
"""

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def ran(script: str, *arguments: str, **environment: str) -> str:
    """What a script printed; it fails if the script does, or takes too long."""
    tests = str(Path(__file__).parent)
    known = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", FORKS.format(tests=tests) + script, *arguments],
        env={**known, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@forks
@pytest.mark.parametrize("native", ["1", "0"])
def test_a_forked_process_translates_as_its_parent_did(native: str, tmp_path: Path) -> None:
    assert ran(TRANSLATES, str(tmp_path), REGARD_NATIVE=native) == "0"


@forks
@pytest.mark.parametrize("native", ["1", "0"])
def test_forked_workers_of_a_dataloader_attend_after_their_parent_did(native: str) -> None:
    assert ran(LOADS, REGARD_NATIVE=native) == "0"
