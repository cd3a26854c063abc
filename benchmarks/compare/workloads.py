"""A side: a process that imports one version of regard and does one workload whenever it is asked to.

    python benchmarks/compare/workloads.py WORKLOAD FOLDER     with PYTHONPATH=VERSION/src

It reads lines from standard input (`output` or `seconds`), does the work once for each, and answers with a line of
JSON: what came out, or how many seconds it took. It waits in the system's read call, so it takes no processor time
between two lines. `FOLDER` is what checkpoints.write_all wrote.

Both versions run this one file, however their modules are called: it uses `regard.load`, the methods `translate`,
`generate` and `embed`, the command line, and the file metrics.jsonl of a run; nothing else.
"""

import contextlib
import gc
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY, CHECKPOINTS = Path("/dev/shm"), 10**9  # bytes that the checkpoints of a run need, with room to spare
Output = dict[str, list[Any]]  # of `texts` (must be equal), `vectors` and `losses` (must be close)
Work = Callable[[], tuple[float, Output]]  # seconds and output of one time


def timed(function: Callable[[], Output]) -> Work:
    def work() -> tuple[float, Output]:
        started = time.perf_counter()
        output = function()
        return time.perf_counter() - started, output

    return work


def translate(folder: Path, sizes: dict[str, Any]) -> Work:
    translator = loaded(folder / "marian")
    return timed(lambda: {"texts": translations(translator, sizes["texts"][: sizes["sentences"]], sizes)})


def translations(translator: Any, texts: list[str], sizes: dict[str, Any]) -> list[str]:
    results = translator.translate(texts, num_beams=5, max_new_tokens=sizes["new_tokens"]["translate"])
    return [result.text for result in results]


def generate(folder: Path, sizes: dict[str, Any]) -> Work:
    model = loaded(folder / "gpt2")
    prompts = [text[:32] for text in sizes["texts"][: sizes["prompts"]]]

    def work() -> Output:
        results = model.generate(prompts, num_beams=1, max_new_tokens=sizes["new_tokens"]["generate"])
        return {"texts": [result.text for result in results]}

    return timed(work)


def encode(folder: Path, sizes: dict[str, Any]) -> Work:
    model = loaded(folder / "bert")
    return timed(lambda: {"vectors": vectors(model, sizes["texts"][: sizes["vectors"]])})


def vectors(model: Any, texts: list[str]) -> list[list[float]]:
    return model.embed(texts, pooling="mean", normalize=True).tolist()


def single(folder: Path, sizes: dict[str, Any]) -> Work:
    """One text at a time, translated and embedded."""
    translator, encoder, counts = loaded(folder / "marian"), loaded(folder / "bert"), sizes["singles"]

    def work() -> Output:
        return {
            "texts": [translations(translator, [text], sizes)[0] for text in sizes["texts"][: counts["sentences"]]],
            "vectors": [vectors(encoder, [text])[0] for text in sizes["texts"][: counts["vectors"]]],
        }

    return timed(work)


def loaded(folder: Path) -> Any:
    import regard

    return regard.load(folder, device="cpu")


def training(name: str) -> Callable[[Path, dict[str, Any]], Work]:
    """Trains every recipe of a folder; the seconds are those of all steps but the first, from metrics.jsonl."""

    def make(folder: Path, sizes: dict[str, Any]) -> Work:
        recipes = sorted((folder / name).glob("*.yaml"))

        def work() -> tuple[float, Output]:
            curves = [trained(recipe) for recipe in recipes]
            seconds = sum(curve[-1]["seconds"] - curve[0]["seconds"] for curve in curves)
            return seconds, {"losses": [record["loss"] for curve in curves for record in curve]}

        return work

    return make


def trained(recipe: Path) -> list[dict[str, float]]:
    """The records of a training run; its run folder, `runs/RECIPE` by default, is removed."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder, contextlib.chdir(folder):
        command_line("train", str(recipe))
        (metrics,) = Path(folder).glob("**/metrics.jsonl")
        return [json.loads(line) for line in metrics.read_text("utf-8").splitlines()]


def in_memory() -> str | None:
    """A folder in memory, if there is one: the system writes to a disk later, while the next side is measured."""
    return str(MEMORY) if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > CHECKPOINTS else None


def command_line(*words: str) -> None:
    """The command line, in this process."""
    before, sys.argv = sys.argv, ["regard", *words]
    try:
        runpy.run_module("regard", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"regard {' '.join(words)} ended with {end.code}") from end
    finally:
        sys.argv = before


def starting(name: str, *command: str) -> Callable[[Path, dict[str, Any]], Work]:
    """Starts a process of Python again and again."""

    def make(folder: Path, sizes: dict[str, Any]) -> Work:
        def work() -> Output:
            for _ in range(sizes["starts"][name]):
                subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
            return {}

        return timed(work)

    return make


WORKLOADS: dict[str, Callable[[Path, dict[str, Any]], Work]] = {
    "translate": translate,
    "generate": generate,
    "encode": encode,
    "single": single,
    "train": training("train"),
    "train-rnn": training("train-rnn"),
    "start-import": starting("import", "-c", "import regard"),
    "start-help": starting("help", "-m", "regard", "--help"),
}


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what regard prints must not mix with the answers
    name, folder = sys.argv[1], Path(sys.argv[2])
    work = WORKLOADS[name](folder, json.loads((folder / "sizes.json").read_text("utf-8")))
    for line in sys.stdin:
        gc.collect()
        seconds, output = work()
        answers.write(json.dumps(output if line.strip() == "output" else seconds) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
