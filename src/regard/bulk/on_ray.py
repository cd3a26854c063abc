"""The Ray engine: model actors of Ray Data, each with the model in its memory, take one part after the other.

The dataset holds descriptions of parts, not rows: an actor reads its rows itself, writes its file itself, and gives
back a few numbers. Ray Data restarts an actor that is lost and does its part again. As a part is one file that appears
whole, and whoever does it writes the same, nothing can be lost or be there twice, whatever dies when.
"""

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from typing import Any

from regard.bulk.attempts import Attempts
from regard.bulk.parts import Done, Part
from regard.bulk.work import Job, Worker
from regard.errors import RegardError, UsageError

MOST_BLOCKS = 4096  # of the dataset of parts; each is an object that Ray looks after
MOST_ATTEMPTS = 5  # at a part; one that takes every actor with it must not do so for ever
MOST_STARTS = 3
PATIENCE = 10  # seconds until a cluster answers
OBJECT_STORE = 80 << 20  # bytes; descriptions are small, and Ray would take a third of the memory
CPUS_OF_AN_ACTOR = 4  # unless the number of actors is asked for
SETTINGS = {  # unless the user has others; Ray reads them when it is imported or started
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is told to anybody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # and nothing is warned of that will change in Ray
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS": "0",  # else some messages are kept until the end
    "RAY_worker_register_timeout_seconds": "300",  # a busy machine is no broken one
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_enable_worker_prestart": "0",  # no processes beside the actors
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",  # an actor is as important as a plain process
}


class ModelActor:
    """What Ray Data keeps alive in each of its processes."""

    worker_class = Worker

    def __init__(self, job: Job, threads: int, attempts: Any):
        self.worker, self.attempts = self.worker_class(job, threads), attempts

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """A row with the description of a part becomes a row with what became of it."""
        import ray

        part = Part(**json.loads(row["part"]))
        attempt = ray.get(self.attempts.begin.remote(part.number))
        try:
            if attempt > MOST_ATTEMPTS:
                raise RegardError(
                    f"rows {part.start} to {part.start + part.count} took {MOST_ATTEMPTS} actors with them, perhaps "
                    "for want of memory; ask for fewer --actors, or for smaller parts with --part-rows"
                )
            answer = {"done": asdict(self.worker.do(part))}
        except RegardError as error:  # Ray would wrap it in its own, with a traceback
            answer = {"error": {"message": str(error), "use": isinstance(error, UsageError)}}
        return {"answer": json.dumps(answer)}


def do_parts(job: Job, parts: Sequence[Part], done: Callable[[Done], None], actors: int | None = None) -> int:
    """`done` is told of each part; how many were begun again because an actor was lost is returned."""
    with cluster() as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        count, cpus, gpus = shares(nodes, actors)
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Attempts).remote()
        described = [{"part": json.dumps(asdict(part))} for part in parts]
        rows = ray.data.from_items(described, override_num_blocks=min(len(described), MOST_BLOCKS)).map(
            ModelActor,
            fn_constructor_args=(job, threads(cpus), attempts),
            # While an actor does a part, the next one waits at its door.
            compute=ray.data.ActorPoolStrategy(size=min(count, len(parts)), max_tasks_in_flight_per_actor=2),
            num_cpus=cpus,
            num_gpus=gpus,
        )
        try:
            for row in rows.iter_rows():
                answer = json.loads(row["answer"])
                if "error" in answer:
                    raise (UsageError if answer["error"]["use"] else RegardError)(answer["error"]["message"])
                done(Done(**answer["done"]))
            return int(ray.get(attempts.again.remote()))
        except ray.exceptions.RayError as error:
            last = str(error).strip().rpartition("\n")[2]  # of a traceback
            raise RegardError(f"Ray gave up ({last}); the same command goes on with what is missing") from error


def shares(nodes: Sequence[dict[str, float]], actors: int | None) -> tuple[int, int, int]:
    """How many actors, and of each the CPUs and GPUs: as much as fits on the machines, and no
    more, so that no two wait for the same core."""
    cpus, gpus = ([int(node.get(kind, 0)) for node in nodes] for kind in ("CPU", "GPU"))
    gpu = int(any(gpus))
    room = sum(gpus) if gpu else sum(cpus)
    wanted = actors if actors is not None else room if gpu else min(room, max(2, room // CPUS_OF_AN_ACTOR))
    for each in range(max(cpus, default=0), 0, -1):
        fit = sum(min(own // each, own_gpus) if gpu else own // each for own, own_gpus in zip(cpus, gpus, strict=True))
        if 1 <= wanted <= fit:
            return wanted, each, gpu
    raise UsageError(
        f"{wanted} actors do not fit on {sum(cpus)} CPUs and {sum(gpus)} GPUs: ask for others with --actors"
    )


def threads(cpus: int) -> int:
    """Of an actor: one for each of its cores, unless the user has said how many."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) else cpus


@contextmanager
def cluster() -> Iterator[Any]:
    """Ray: the one of this process, that of RAY_ADDRESS, or one on this machine until the block ends."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UsageError("--engine ray needs Ray: pip install 'regard[ray]'") from error
    mine = not ray.is_initialized()
    # Ray tells of lost actors on standard output, where our answer must stand alone.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        try:
            if mine:
                start(ray)
            be_quiet(ray)
            yield ray
        finally:
            if mine:
                ray.shutdown()


def be_quiet(ray: Any) -> None:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what fails, we say


def start(ray: Any) -> None:
    address = os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address:
            knock(address)
            with hushed():
                ray.init(address, **quiet)
        else:
            start_here(ray, quiet)
    except Exception as error:  # no answer, another version, no room: each an exception of its own
        place = f"the cluster at RAY_ADDRESS={address} cannot be reached" if address else "Ray cannot be started here"
        last = str(error.__cause__ or error).strip().rpartition("\n")[2]  # of a traceback
        raise RegardError(f"{place} ({last})") from error


def knock(address: str) -> None:
    """Ray itself tries for minutes to reach a cluster that is not there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # else it is a word, such as auto
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()


def start_here(ray: Any, quiet: dict[str, Any]) -> None:
    for attempt in range(1, MOST_STARTS + 1):
        try:
            with hushed():
                ray.init("local", include_dashboard=False, object_store_memory=OBJECT_STORE, **quiet)
            return
        except Exception:  # its processes wait for one another only so long, which on a busy machine is too short
            ray.shutdown()
            if attempt == MOST_STARTS:
                raise


@contextmanager
def hushed() -> Iterator[None]:
    """Without what Ray's machine code writes to the terminal: first of all, that it is told to write nothing there."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
