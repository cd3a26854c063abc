"""A sample of benchmarks/fuzz_server.py, and proof that it finds what it looks for."""

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.tiny_models import everything, mixing, older
from fuzz.requests import ENDPOINTS, QUESTIONS, VERBS, Request
from fuzz.running import Part
from fuzz.server import GROWTH, WARM, Bench, Growth, fault_of, serve, work
from regard.explorer.app import make_app
from regard.explorer.guard import Guard
from regard.explorer.verbs import VERBS as SERVED_VERBS

CASES = 15  # of each endpoint
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {**everything(tmp_path_factory.mktemp("fuzzed")), **older(), "mixing": mixing()}


@pytest.fixture(scope="module")
def served(models: dict[str, Any]) -> Guard:
    return serve(models, seconds=60)  # what a case may take, the command measures


@pytest.fixture
def tagging(models: dict[str, Any]) -> Iterator[Bench]:
    with Bench("tag", serve({"tagger": models["tagger"]}, seconds=0.5)) as bench:
        yield bench


def test_every_endpoint_with_a_body_is_fuzzed(models: dict[str, Any]) -> None:
    routes = make_app({"tagger": models["tagger"]}).app.routes  # type: ignore[attr-defined]
    posts = {route.path for route in flat(routes) if "POST" in (getattr(route, "methods", None) or ())}
    assert posts == {f"/v1/{endpoint}" for endpoint in ENDPOINTS}
    assert set(VERBS) == {*SERVED_VERBS, "look"}
    assert len(ENDPOINTS) == len(VERBS) + len(QUESTIONS)


def flat(routes: Any) -> Iterator[Any]:
    for route in routes:
        inner = getattr(getattr(route, "original_router", None), "routes", None) or getattr(route, "routes", None)
        yield from flat(inner) if inner else [route]


@pytest.mark.filterwarnings("ignore")  # of libraries, at odd images
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_spoilt_request_is_answered_or_refused_in_one_line(endpoint: str, served: Guard) -> None:
    with Bench(endpoint, served) as bench:
        bench.check_examples()
        found = [bench.case(1, number) for number in range(CASES)]
    assert [(number, fault) for number, fault in enumerate(found) if fault] == []
    assert "" in found  # the requests really were spoilt


def test_a_case_is_known_by_its_seed_and_its_number(tagging: Bench) -> None:
    requests = [tagging.request(3, number) for number in range(30)]
    assert requests == [tagging.request(3, number) for number in range(30)]
    assert len(set(requests)) > 25
    assert requests != [tagging.request(4, number) for number in range(30)]


# The fuzzing finds what it looks for.


def first_fault(bench: Bench) -> str:
    return next(found for number in range(200) if (found := bench.case(1, number)))


def test_an_exception_is_found(tagging: Bench, models: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("a")

    tagging.check_examples()
    monkeypatch.setattr(type(models["tagger"]), "tag", fail)
    assert first_fault(tagging).startswith("500: KeyError at explorer/verbs.py:")


def test_an_answer_that_takes_too_long_is_found(
    tagging: Bench, models: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(models["tagger"]), "tag", lambda *_: time.sleep(2))
    assert first_fault(tagging).startswith("504: ")
    monkeypatch.undo()

    async def hang(*_: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(tagging, "guard", hang)
    assert first_fault(tagging).startswith("no answer: TimeoutError")


def test_answers_that_are_none_are_found() -> None:
    plain = {b"content-type": b"application/json"}
    assert fault_of(200, plain, b'{"a": 1}', None) == ""
    assert "NaN is no number" in fault_of(200, plain, b'{"a": NaN}', None)
    assert fault_of(422, plain, b'{"error": {"message": "one line"}}', None) == ""
    assert "message of 3 characters" in fault_of(422, plain, b'{"error": {"message": "a\\nb"}}', None)
    assert "when memory was short" in fault_of(413, plain, b'{"error": {"message": "not enough memory"}}', None)
    folder = f'{{"error": {{"message": "{Path.cwd()}/x"}}}}'.encode()
    assert "the name of a folder" in fault_of(422, plain, folder, None)
    assert fault_of(422, {}, b"x", None).startswith("422 with")
    assert fault_of(307, plain, b"", None).startswith("307 with")


def test_a_process_that_grows_is_found_once() -> None:
    sizes = [100] * WARM + [100 + GROWTH, 101 + GROWTH, 102 + GROWTH, 3 * GROWTH]
    growth = Growth(iter(sizes).__next__)
    assert [bool(growth.fault()) for _ in sizes] == [False] * WARM + [False, True, False, True]


def test_a_case_that_kills_the_process_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    program = tmp_path / "dying.py"
    program.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from fuzz import server\n"
        "class Dying:\n"
        "    seconds = 1.0\n"
        "    def check_examples(self): pass\n"
        "    def case(self, seed, number):\n"
        "        return os.abort() if number == 5 else ''\n"
        "first, last, journal = sys.argv[1:]\n"
        "server.work(Dying(), 0, int(first), int(last), Path(journal))\n"
    )
    told: list[str] = []
    counts, _ = Part([sys.executable, "-c", run_at(program)], 0, 8).run(told.append)
    assert told == ["5\tthe process crashed (abort)"]
    assert (counts.refused, counts.faults) == (7, told)


def run_at(program: Path) -> str:
    """Code that runs a file with the benchmarks on its path."""
    return f"import sys, runpy; sys.path.insert(0, {str(BENCHMARKS)!r}); runpy.run_path({str(program)!r})"


def test_the_work_of_a_process_is_noted(tagging: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.server.limit_memory", lambda: None)  # or the tests would have it too
    monkeypatch.setattr("fuzz.server.Clock", Watch)
    asked: list[Request] = []
    ask = tagging.ask
    monkeypatch.setattr(tagging, "ask", lambda request: (asked.append(request), ask(request))[1])
    work(tagging, 1, 0, 5, tmp_path / "journal")
    assert asked[-5:] == [tagging.request(1, number) for number in range(5)]


class Watch:
    """A clock that limits nothing."""

    def __init__(self, limit: int):
        self.limit = limit

    def start(self) -> None:
        pass

    def seconds(self) -> float:
        return 0.0
