"""How long until something happens: `regard --help` and `import regard`, each in a fresh process.

Beside them `python -c pass`, which is what nobody can go below here.
"""

import argparse
import subprocess
import sys
from statistics import median
from typing import Any

from speed.rounds import interleaved

COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "import regard": [sys.executable, "-c", "import regard"],
    "regard --help": [sys.executable, "-m", "regard", "--help"],
}
PROMISED = {"import regard": 0.15, "regard --help": 0.35}  # seconds


def measure(options: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args(options)
    sides = {
        name: (lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
        for name, command in COMMANDS.items()
    }
    seconds = interleaved(sides, arguments.rounds)
    found = {name: round(median(values), 3) for name, values in seconds.items()}
    for name, value in found.items():
        print(f"{name}: {value:.3f} s" + (f" (promised {PROMISED[name]:g})" if name in PROMISED else ""))
    return {"rounds": arguments.rounds, "median_seconds": found, "promised_seconds": PROMISED}
