"""A bidirectional GRU over padded sentences, forward and backward: ours against torch's packed sequences.

    python benchmarks/packed_gru.py [--threads 1] [--repeats 20]

600 sentences of IMDB's lengths (20 words in the mean, at most 50), embeddings of 100, 50 units per direction. The two
take turns, so that whatever else the machine does hurts both; the median is reported.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.packed_gru import read_rows
from regard.training.freed_memory import keep_freed_memory
from result_files import write_result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    keep_freed_memory()
    drawn = np.random.default_rng(0).lognormal(2.9, 0.5, 600)
    lengths = torch.tensor(np.clip(drawn, 1, 50).astype(np.int64))
    inputs = torch.randn(600, int(lengths.max()), 100, requires_grad=True)
    mask = torch.arange(inputs.shape[1]) < lengths[:, None]
    gru = nn.GRU(100, 50, batch_first=True, bidirectional=True)

    def torchs() -> None:
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        pad_packed_sequence(gru(packed)[0], batch_first=True)[0].sum().backward()

    def ours() -> None:
        read_rows(gru, inputs, mask)[0].sum().backward()

    sides = {"torch": torchs, "regard": ours}
    for run in sides.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(arguments.repeats):
        for name, run in sides.items():
            seconds[name].append(timed(run))
    rates = {name: int(lengths.sum()) / median(known) for name, known in seconds.items()}
    path = write_result(
        "packed-gru",
        f"python benchmarks/packed_gru.py --threads {arguments.threads} --repeats {arguments.repeats}",
        {"words_per_second": rates, "times_as_quick": rates["regard"] / rates["torch"], "words": int(lengths.sum())},
    )
    print(f"words per second: {', '.join(f'{name} {rate:,.0f}' for name, rate in rates.items())}; wrote {path}")


def timed(run: Callable[[], None]) -> float:
    """Processor time: what other processes do while we wait does not count."""
    started = time.process_time()
    run()
    return time.process_time() - started


if __name__ == "__main__":
    main()
