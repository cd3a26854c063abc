"""Translate the first COUNT of some sentences, one after the other, on one thread: what is run under callgrind.

    python benchmarks/compare/one_by_one.py RUN SENTENCES COUNT      with PYTHONPATH=VERSION/src

It prints the translations as a line of JSON.
"""

import json
import sys
from pathlib import Path

import torch

import regard


def main() -> None:
    run, file, count = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sentences = Path(file).read_text("utf-8").splitlines()[: int(count)]
    translator = regard.load(run, device="cpu")
    print(json.dumps([translator.translate([sentence])[0].text for sentence in sentences]))


if __name__ == "__main__":
    main()
