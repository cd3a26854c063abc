"""How time and memory grow with the length: causal self-attention of size 512 with 8 heads, 512 to 16,384 tokens.

Full attention by the fused kernel, and through a window of 256; every length in a process of its own, forwards, and
forwards and backwards. Memory is the largest the process ever had, above what it had before the first tensor. The
exponents are slopes on logarithmic axes over the four longest inputs: 1 is linear, 2 is quadratic.
"""

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

import numpy as np

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
KINDS = {"full": None, "window": 256}
ALLOWED = {"memory": 1.15, "window seconds": 1.15}  # exponents; at 2 there would be a matrix of length x length
WORK = """
import json, resource, sys, time
import torch
from regard.attention import MultiHeadAttention

length, window, backwards, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
torch.manual_seed(0)
attention = MultiHeadAttention(512, 8, window=window)
attention(torch.randn(1, 64, 512), causal=True).context.sum().backward()  # kernels are chosen, threads are born
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1 / 1024)
before = peak()
states = torch.randn(1, length, 512, requires_grad=backwards)
seconds = []
for _ in range(3):
    started = time.perf_counter()
    with torch.set_grad_enabled(backwards):
        context = attention(states, causal=True).context
        if backwards:
            context.sum().backward()
    seconds.append(time.perf_counter() - started)
print(json.dumps([min(seconds), peak() - before]))
"""


def measure(options: list[str]) -> dict[str, Any]:
    import torch

    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1])
    arguments = parser.parse_args(options)
    lengths = [length for length in LENGTHS if length <= arguments.longest]
    found: dict[str, Any] = {}
    for backwards in (False, True):
        for kind, window in KINDS.items():
            name = f"{kind}, {'forwards and backwards' if backwards else 'forwards'}"
            rows = []
            for length in lengths:
                asked = json.dumps([length, window, backwards, torch.get_num_threads()])
                tries = [run(asked) for _ in range(arguments.rounds)]
                seconds, memory = (median(values) for values in zip(*tries, strict=True))
                rows.append({"tokens": length, "seconds": round(seconds, 4), "megabytes": round(memory / 2**20, 1)})
                print(f"{name}, {length} tokens: {seconds:.3f} s, {memory / 2**20:.0f} MB", flush=True)
            found[name] = {"rows": rows, **exponents(rows)}
            print(f"{name}: grows by {found[name]['exponents']}", flush=True)
    return {"lengths": lengths, "allowed": ALLOWED, "kinds": found}


def run(asked: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", WORK, asked], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def exponents(rows: list[dict[str, Any]]) -> dict[str, Any]:
    last = rows[-4:]
    lengths = np.log([row["tokens"] for row in last])
    slopes = {
        what: round(float(np.polyfit(lengths, np.log([max(row[what], 1e-9) for row in last]), 1)[0]), 2)
        for what in ("seconds", "megabytes")
    }
    return {"exponents": slopes}
