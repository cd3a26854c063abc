"""Many clients at once against one server: no error, the answers of single requests, and memory that stays where it is.

    python benchmarks/serve_soak.py RUN [--clients 32] [--seconds 120] [--texts FILE] [--hostile]

Starts `regard serve RUN` as a process of its own and first asks for every text alone: those are the right answers. Then
every client asks for one text after the other, and compares. RUN may translate, generate, fill, classify, tag or embed.
Whoever hears 429 asks again. With --hostile, a quarter of the clients are strangers who send malformed, oversized and
slow requests (`serve_strangers.py`), and each of these must end as it should.

At the end SIGTERM comes while requests are under way: they must be answered, and the server must end with exit code 0.
Latencies are those of a client. Memory is the server's: how it grew from the beginning to the end of the second half of
the time, and its slope there (least squares). It is flat if it grew by less than 5 %.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from statistics import linear_regression, median, quantiles
from typing import Any

import httpx2

from regard.explorer.meters import parsed, resident_bytes
from result_files import write_result
from serve_strangers import DAWDLING, TRICKS, outcome, stranger, surprises

TEXTS = [
    "the red car is in front of the house .",
    "she reads a book .",
    "a man in a hat is looking at two dogs .",
    "where is the black cat ?",
    "two women walk in the park and talk about the old house near the river .",
    "he eats an apple .",
]
BODIES: dict[str, dict[str, Any]] = {  # what is said beside the text
    "translate": {},
    "generate": {"max_new_tokens": 16},
    "fill": {},
    "classify": {},
    "tag": {},
    "embed": {},
}
CLOSE = 1e-4  # numbers differ in the last digits from batch to batch
FLAT = 0.05  # of the memory
LAST = 16  # requests sent when SIGTERM is about to come
LONG = 0.2  # seconds that one of them takes at least, if it may
TRIES = 50  # to catch some of them under way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--texts", type=Path, help="One text a line.")
    parser.add_argument("--hostile", action="store_true", help="A quarter of the clients are strangers.")
    arguments = parser.parse_args()
    texts = TEXTS if arguments.texts is None else arguments.texts.read_text("utf-8").split("\n")
    command = [sys.executable, "-m", "regard", "serve", arguments.run, "--port", "0"]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            told = server.stdout.readline()
            if told:
                place = told.split(" on ")[1].split(";")[0]
                found = asyncio.run(soak(place, server, list(filter(str.strip, texts)), arguments))
        except BaseException:
            server.kill()
            raise
        finally:
            code = server.wait(120)
        log.seek(0)
        lines = log.read().decode("utf-8", "replace")
    if not told:
        sys.exit(lines or "the server has said nothing")
    found["exit_code"] = code
    found["errors_in_log"] = lines.count("ERROR") + lines.count("Traceback")
    said = f"python benchmarks/serve_soak.py RUN --clients {arguments.clients} --seconds {arguments.seconds:g}"
    path = write_result("serve-soak" + "-hostile" * arguments.hostile, said + " --hostile" * arguments.hostile, found)
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(f"wrote {path}")
    if wrong := faults_of(found):
        sys.exit(f"{lines[-2000:]}\nnot as it should be: {', '.join(wrong)}")


def faults_of(found: dict[str, Any]) -> list[str]:
    """The numbers that should be nothing, but are not."""
    zeros = (
        "errors",
        "different",
        "answers_5xx",
        "errors_in_log",
        "strangers_surprised",
        "lost_at_the_end",
        "exit_code",
    )
    wrong = [name for name in zeros if found.get(name)]
    is_flat = found["memory_growth_mb"] <= FLAT * found["memory_mb"]
    return wrong + ["memory_growth_mb"] * (not is_flat)


async def soak(
    place: str, server: "subprocess.Popen[str]", texts: list[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    limits = httpx2.Limits(max_connections=arguments.clients + LAST + 1)
    async with httpx2.AsyncClient(base_url=place, timeout=120, limits=limits) as client:
        (card,) = (await client.get("/v1/models")).json()["models"]
        verb = next(name for name in card["verbs"] if name in BODIES)
        field = "prompts" if verb == "generate" else "texts"
        if verb == "fill":
            texts = [f"[MASK] {text}" for text in texts]
        bodies = [{**BODIES[verb], field: text} for text in texts]
        single = [await client.post(f"/v1/{verb}", json=body) for body in bodies]
        bodies = [body for body, known in zip(bodies, single, strict=True) if known.status_code == 200]
        alone = [known.json() for known in single if known.status_code == 200]
        if not bodies:
            sys.exit(f"none of the texts can be used: {single[0].text}")
        seconds: list[float] = []
        memory: list[tuple[float, float]] = []  # seconds and megabytes
        faults = Counter({"errors": 0, "different": 0, "told_to_wait": 0})
        heard: Counter[tuple[str, str]] = Counter()
        begun = time.monotonic()
        over = begun + arguments.seconds

        async def ask(number: int) -> None:
            while time.monotonic() < over:
                started, which = time.monotonic(), number % len(bodies)
                response = await client.post(f"/v1/{verb}", json=bodies[which])
                if response.status_code == 429:
                    faults["told_to_wait"] += 1
                    await asyncio.sleep(float(response.headers["retry-after"]))
                    continue
                seconds.append(time.monotonic() - started)
                if response.status_code != 200:
                    faults["errors"] += 1
                    print(f"{response.status_code}: {response.text}", file=sys.stderr)
                faults["different"] += response.status_code == 200 and not same(response.json(), alone[which])
                number += 1

        async def watch() -> None:
            while time.monotonic() < over:
                used = resident_bytes(str(server.pid)) or 0
                memory.append((time.monotonic() - begun, used / 2**20))
                await asyncio.sleep(0.5)

        strangers = arguments.clients // 4 if arguments.hostile else 0
        beside = [asyncio.create_task(stranger(place, verb, number, heard)) for number in range(strangers)]
        await asyncio.gather(watch(), *(ask(number) for number in range(arguments.clients - strangers)))
        counted = parsed((await client.get("/metrics")).text)
        for task in beside:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        dawdling = DAWDLING if arguments.hostile else ()
        slow = [asyncio.create_task(outcome(place, verb, TRICKS[name])) for name in dawdling]
        end = await drained(client, server, verb, field, bodies, alone)
        heard.update(zip(dawdling, await asyncio.gather(*slow), strict=True))
    later = memory[len(memory) // 2 :]
    tenth = max(1, len(later) // 10)
    first, last = (median(used for _, used in part) for part in (later[:tenth], later[-tenth:]))
    slope = linear_regression(*zip(*later, strict=True)).slope if len(later) > 1 else 0.0
    hostile = {
        "strangers": strangers,
        "strangers_requests": heard.total(),
        "strangers_heard": dict(sorted(Counter(came for name, came in heard.elements()).items())),
        "strangers_surprised": surprises(heard),
    }
    return {
        "verb": verb,
        "requests": len(seconds),
        **faults,
        "answers_5xx": sum(value for name, value in counted.items() if 'status="5' in name and "_total" in name),
        **(hostile if strangers else {}),
        **end,
        "requests_per_second": round(len(seconds) / arguments.seconds, 1),
        "requests_per_batch": round(
            total_of(counted, "batch_requests_sum") / total_of(counted, "batch_requests_count"), 1
        ),
        "p50_seconds": round(median(seconds), 4),
        "p95_seconds": round(quantiles(seconds, n=20)[-1], 4),
        "memory_mb": round(first, 1),
        "memory_growth_mb": round(last - first, 1),
        "memory_slope_mb_per_minute": round(60 * slope, 3),
    }


def total_of(counted: Any, name: str) -> float:
    return sum(value for known, value in counted.items() if known.startswith(f"regard_{name}"))


async def drained(
    client: httpx2.AsyncClient,
    server: "subprocess.Popen[str]",
    verb: str,
    field: str,
    bodies: list[dict[str, Any]],
    alone: list[Any],
) -> dict[str, Any]:
    """SIGTERM in the middle of long requests: those under way must be answered, and rightly; late ones hear 503."""
    text, right = max(((body[field], known["results"][0]) for body, known in zip(bodies, alone, strict=True)), key=size)
    for count in (1, 2, 4, 8, 16, 32, 64, 128):
        longer, started = {**bodies[0], field: [text] * count}, time.monotonic()
        if (await client.post(f"/v1/{verb}", json=longer)).status_code != 200:
            break  # more than a request may hold
        body = longer
        if time.monotonic() - started > LONG:
            break
    count = len(body[field])
    for _ in range(TRIES):
        asking = [asyncio.create_task(client.post(f"/v1/{verb}", json=body)) for _ in range(LAST)]
        waiting = 0
        while not waiting and not all(task.done() for task in asking):
            waiting = int(total_of(parsed((await client.get("/metrics")).text), "queue_length"))
        if waiting:
            server.send_signal(signal.SIGTERM)
        answers = await asyncio.gather(*asking, return_exceptions=True)
        if waiting:
            break
    else:
        sys.exit("the requests are answered too fast to be under way when SIGTERM comes; use a larger run")
    replies = [known for known in answers if isinstance(known, httpx2.Response)]
    told = [known.json()["results"] for known in replies if known.status_code == 200]
    right_ones = sum(same(results, [right] * count) for results in told)
    late = sum(known.status_code == 503 for known in replies)
    late += sum(isinstance(known, httpx2.ConnectError) for known in answers)  # nobody listens any more
    return {
        "waiting_at_the_end": waiting,
        "answered_at_the_end": right_ones,
        "refused_at_the_end": late,
        "lost_at_the_end": max(len(answers) - right_ones - late, waiting - right_ones),
    }


def size(known: tuple[str, Any]) -> int:
    return len(known[0])


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of numbers."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= CLOSE * max(1.0, abs(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


if __name__ == "__main__":
    main()
