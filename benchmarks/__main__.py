"""Speed, side by side with peers: `python -m benchmarks JOB`.

Every job builds the same weights on all sides, checks that they give the same answer, and only then measures, in
interleaved rounds with equally many threads. It writes results/speed-JOB.json.
"""

import argparse
import importlib
import importlib.metadata
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # as for `python benchmarks/NAME.py`

JOBS = sorted(
    path.stem.replace("_", "-")
    for path in (HERE / "speed").glob("*.py")
    if path.stem not in ("rounds", "peers", "apart")
)
PEERS = (
    *("transformers", "ctranslate2", "onnxruntime", "sentence-transformers", "timm", "xllamacpp"),
    *("x-transformers", "joeynmt", "eole"),
)


def peer_versions() -> dict[str, str]:
    installed = {each.metadata["Name"].lower(): each.version for each in importlib.metadata.distributions()}
    return {peer: installed[peer] for peer in PEERS if peer in installed}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the job: see -m benchmarks JOB --help")
    arguments = parser.parse_args()
    module = importlib.import_module(f"speed.{arguments.job.replace('-', '_')}")
    from result_files import write_result
    from speed.apart import do_without_vision_kernels

    do_without_vision_kernels()

    command = " ".join(["python -m benchmarks", arguments.job, *arguments.options])
    numbers = {"peers": peer_versions(), **module.measure(arguments.options)}
    print(f"wrote {write_result(f'speed-{arguments.job}', command, numbers)}")


if __name__ == "__main__":
    main()
