"""Many clients at once against one server: no error, the answers of single requests, and memory that stays where it is.

    python benchmarks/serve_soak.py RUN [--clients 32] [--seconds 120] [--texts FILE]

Starts `regard serve RUN` as a process of its own and first asks for every text alone: those are the right answers. Then
every client asks for one text after the other, and compares. RUN may translate, generate, fill, classify, tag or embed.
Latencies are those of a client; memory is the server's, over the second half of the time.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2

from regard.explorer.meters import parsed, resident_bytes
from result_files import write_result

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--texts", type=Path, help="One text a line.")
    arguments = parser.parse_args()
    texts = TEXTS if arguments.texts is None else arguments.texts.read_text("utf-8").split("\n")
    command = [sys.executable, "-m", "regard", "serve", arguments.run, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        told = server.stdout.readline()
        if not told:
            sys.exit(1)  # the server has said why
        place = told.split(" on ")[1].split(";")[0]
        found = asyncio.run(soak(place, server.pid, list(filter(str.strip, texts)), arguments))
    finally:
        server.terminate()
        code = server.wait(60)
    found["exit_code"] = code
    said = f"python benchmarks/serve_soak.py RUN --clients {arguments.clients} --seconds {arguments.seconds:g}"
    path = write_result("serve-soak", said, found)
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(f"wrote {path}")
    if found["errors"] or found["different"] or code:
        sys.exit("some requests failed, some answers were not those of single requests, or the server did not end well")


async def soak(place: str, process: int, texts: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    limits = httpx2.Limits(max_connections=arguments.clients)
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
        memory: list[int] = []
        faults = {"errors": 0, "different": 0}
        over = time.monotonic() + arguments.seconds

        async def ask(number: int) -> None:
            while time.monotonic() < over:
                started, which = time.monotonic(), number % len(bodies)
                response = await client.post(f"/v1/{verb}", json=bodies[which])
                seconds.append(time.monotonic() - started)
                if response.status_code != 200:
                    faults["errors"] += 1
                    print(f"{response.status_code}: {response.text}", file=sys.stderr)
                faults["different"] += response.status_code == 200 and not same(response.json(), alone[which])
                number += 1

        async def watch() -> None:
            while time.monotonic() < over:
                memory.append(resident_bytes(str(process)) or 0)
                await asyncio.sleep(0.5)

        await asyncio.gather(watch(), *(ask(number) for number in range(arguments.clients)))
        counted = parsed((await client.get("/metrics")).text)
    batches = next(value for name, value in counted.items() if name.startswith("regard_batch_requests_count"))
    together = next(value for name, value in counted.items() if name.startswith("regard_batch_requests_sum"))
    later = memory[len(memory) // 2 :]
    return {
        "verb": verb,
        "requests": len(seconds),
        **faults,
        "requests_per_second": round(len(seconds) / arguments.seconds, 1),
        "requests_per_batch": round(together / batches, 1),
        "p50_seconds": round(median(seconds), 4),
        "p95_seconds": round(quantiles(seconds, n=20)[-1], 4),
        "memory_mb": round(later[0] / 2**20, 1),
        "memory_growth_mb": round((later[-1] - later[0]) / 2**20, 1),
    }


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
