"""20,000 sentences through two model actors of Ray, one of them killed midway, against the plain path.

    python benchmarks/bulk_ray.py [RUN] [--rows 20000] [--actors 2] [--part-rows 2048] [--beam N]

RUN translates (default: runs/demo, which `make demo` trains). The sentences are the bundled corpus's. When half of the
parts are there, one actor gets SIGKILL. Afterwards every row must be there once, in its order, and every part must be,
byte by byte, what `--engine plain` writes on as many threads as an actor has. Writes results/bulk-ray.json.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from regard.bulk.parts import cut
from regard.bulk.verb import PART_ROWS
from regard.data.corpus import corpus
from regard.processors import available_cpus
from result_files import write_result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="runs/demo")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--part-rows", type=int, default=PART_ROWS)
    parser.add_argument("--beam", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = compared(arguments, Path(folder))
    beam = [] if arguments.beam is None else [f"--beam {arguments.beam}"]
    sizes = f"--rows {arguments.rows} --actors {arguments.actors} --part-rows {arguments.part_rows}"
    said = ["python benchmarks/bulk_ray.py RUN", sizes, *beam]
    path = write_result("bulk-ray", " ".join(said), found)
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(f"wrote {path}")
    if found["rows_lost"] or found["rows_twice"] or found["parts_different"] or not found["in_order"]:
        sys.exit("rows were lost, doubled or moved, or parts differ from the plain ones")
    if not found["parts_begun_again"]:
        sys.exit("the actor was killed between two parts, so nothing had to be done again: ask for larger --part-rows")


def compared(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    texts = [pair.source for pair in corpus("train", count=arguments.rows)]
    source = folder / "corpus.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": list(range(len(texts))), "text": texts}), source)
    beam = [] if arguments.beam is None else ["--beam", str(arguments.beam)]
    sizes = ["--part-rows", str(arguments.part_rows), *beam]
    command = [sys.executable, "-m", "regard", "translate", arguments.run, str(source), "--json", *sizes]

    threads = max(1, available_cpus() // arguments.actors)
    os.environ["OMP_NUM_THREADS"] = str(threads)  # of an actor and of the plain process
    began = time.perf_counter()
    midway = len(cut(str(source), ["text"], [], arguments.part_rows)) // 2
    told, killed = one_killed([*command, "--engine", "ray", "--actors", str(arguments.actors)], folder / "ray", midway)
    on_ray = time.perf_counter() - began

    began = time.perf_counter()
    subprocess.run([*command, "--out", str(folder / "plain")], check=True, stdout=subprocess.PIPE)
    plain = time.perf_counter() - began

    ids = pyarrow.parquet.read_table(folder / "ray", columns=["id"])["id"].to_pylist()
    names = sorted(path.name for path in (folder / "plain").iterdir())
    same = [name for name in names if bytes_of(folder / "ray" / name) == bytes_of(folder / "plain" / name)]
    return {
        "rows": len(texts),
        "actors": arguments.actors,
        "threads_of_an_actor": threads,
        "parts": len(names),
        **killed,
        "parts_begun_again": told["again"],
        "rows_lost": len(set(range(len(texts))) - set(ids)),
        "rows_twice": len(ids) - len(set(ids)),
        "in_order": ids == sorted(ids),
        "parts_different": len(names) - len(same) + len(extra(folder)),
        "ray_seconds": round(on_ray, 1),  # Ray's start, the models' loading and the killing included
        "plain_seconds": round(plain, 1),
    }


def one_killed(command: list[str], out: Path, midway: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run it and kill an actor when so many parts are there: what the command said, and what was killed when."""
    child = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.PIPE, text=True)
    while child.poll() is None:
        done = len(list(out.glob("part-*.parquet")))
        victims = actors_below(child.pid) if done >= midway else []
        if victims:
            os.kill(victims[0], signal.SIGKILL)
            answer = child.communicate()[0]
            if child.returncode:
                sys.exit("the command failed after the kill")
            return json.loads(answer), {"parts_done_at_the_kill": done, "busy_at_the_kill": len(victims)}
        time.sleep(0.05)
    sys.exit("the command ended before an actor could be killed")


def actors_below(process: int) -> list[int]:
    """The model actors that are doing a part (their titles say so), among a process's children and their children."""
    parents = {int(path.name): parent_of(path) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    below = {process}
    while new := {child for child, parent in parents.items() if parent in below} - below:
        below |= new
    return sorted(number for number in below if b"ModelActor)).submit" in bytes_of(Path(f"/proc/{number}/cmdline")))


def parent_of(path: Path) -> int:
    stat = bytes_of(path / "stat").rpartition(b")")[2].split()  # the name before may hold anything
    return int(stat[1]) if len(stat) > 1 else 0


def bytes_of(path: Path) -> bytes:
    """Of a file, or none if there is no such file (any more)."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def extra(folder: Path) -> set[str]:
    """Files that only Ray left."""
    return {path.name for path in (folder / "ray").iterdir()} - {path.name for path in (folder / "plain").iterdir()}


if __name__ == "__main__":
    main()
