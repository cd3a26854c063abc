"""The memory that `regard plan` foretells, against the memory that real training steps take.

    python benchmarks/plan_memory.py

Each configuration is trained for two steps (the second has the optimiser's state from its beginning) in a process of
its own, on one thread of the CPU in fp32, by the loop's own loss and optimiser. Measured is the highest resident memory
of the steps less the resident memory before the model was built, after a first tiny training that loads the kernels;
freed blocks go back to the system at once, so what is resident is what is alive. Writes results/plan-memory.json.
"""

import argparse
import ctypes
import json
import subprocess
import sys
from typing import Any

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "a translator": {"preset": "transformer:small", "values": ["model.vocabulary=8000"], "rows": 40, "length": 25},
    "a language model": {"preset": "gpt2:tiny", "values": ["model.vocabulary=8000"], "rows": 16, "length": 128},
    "a language model, more words than work": {"preset": "gpt2:tiny", "values": [], "rows": 1, "length": 32},
    "BERT": {"preset": "bert:mini", "values": ["model.vocabulary=8000"], "rows": 8, "length": 128},
    "a Vision Transformer": {"preset": "vit:ti16", "values": [], "rows": 6, "length": 197},
}
TINY = {
    "transformer": ["model.size=8", "model.hidden_size=8", "model.heads=1", "model.vocabulary=32"],
    "gpt2": ["model.size=8", "model.hidden_size=8", "model.heads=1", "model.vocabulary=32"],
    "bert": ["model.size=8", "model.hidden_size=8", "model.heads=1", "model.vocabulary=32"],
    "vit": ["model.size=8", "model.hidden_size=8", "model.heads=1"],
}
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
ALLOWED = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", help="Measure this configuration in this process, and print it.")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps({"measured": measured(**CONFIGURATIONS[arguments.one])}))
        return
    from result_files import write_result

    found = {name: compared(name) for name in CONFIGURATIONS}
    for name, row in found.items():
        print(f"{name}: planned {row['planned'] / 2**20:.1f} MiB, measured {row['measured'] / 2**20:.1f} MiB")
    print(f"wrote {write_result('plan-memory', 'python benchmarks/plan_memory.py', {'configurations': found})}")
    wrong = [name for name, row in found.items() if abs(row["ratio"] - 1) > ALLOWED]
    if wrong:
        raise SystemExit(f"the plan is off by more than {ALLOWED:.0%} for {', '.join(wrong)}")


def compared(name: str) -> dict[str, Any]:
    from regard.plan import Wishes, make_plan

    known = CONFIGURATIONS[name]
    length = None if known["preset"].startswith("vit") else known["length"]
    wishes = Wishes(device="cpu", batch_tokens=known["rows"] * known["length"], length=length)
    plan = make_plan(known["preset"], wishes, tuple(known["values"]))
    child = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=True)
    row = {**known, "planned": plan.memory.peak, **json.loads(child.stdout)}
    return {**row, "ratio": row["planned"] / row["measured"]}


def measured(preset: str, values: list[str], rows: int, length: int) -> int:
    """Bytes at the peak of two steps."""
    library = ctypes.CDLL(None)
    library.mallopt(M_MMAP_THRESHOLD, 1 << 16), library.mallopt(M_TRIM_THRESHOLD, 1 << 16)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    family = preset.partition(":")[0]
    train(preset, TINY[family], rows=2, length=length if family == "vit" else 8)
    before = resident("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the highest so far is forgotten
    train(preset, values, rows, length)
    return resident("VmHWM") - before


def train(preset: str, values: list[str], rows: int, length: int) -> None:
    """Two steps as the training loop makes them."""
    from regard.families import build_model
    from regard.plan.derived import Work
    from regard.plan.inputs import INPUTS
    from regard.plan.subjects import subject
    from regard.training.optimizers import make_optimizer
    from regard.training.settings import Training

    planned = subject(preset, values)
    model = build_model(planned.family, planned.config).train()
    optimizer = make_optimizer(model, Training())
    inputs = INPUTS[planned.family](planned.config, Work(rows, length, length), rows)
    for _ in range(2):
        optimizer.zero_grad()
        LOSSES[planned.family](model, inputs).backward()
        optimizer.step()


def translation(model: Any, inputs: Any) -> Any:
    from regard.layers.cross_entropy import linear_cross_entropy

    states = model.decode(*inputs).flatten(0, 1)
    return linear_cross_entropy(states, model.output_weight, inputs[1].flatten())[0] / len(states)


def language_model(model: Any, inputs: Any) -> Any:
    from regard.layers.cross_entropy import linear_cross_entropy

    states = model.read(*inputs)[0].flatten(0, 1)
    return linear_cross_entropy(states, model.output_weight, inputs[0].flatten())[0] / len(states)


def mask_fill(model: Any, inputs: Any) -> Any:
    import torch
    from torch.nn import functional as F

    from regard.layers.cross_entropy import linear_cross_entropy

    states, mask = model.encoder(*inputs)
    chosen = (torch.arange(inputs[0].numel()) % 20 < 3).view_as(inputs[0])
    hidden, words = model.comparison(states[chosen])
    total = linear_cross_entropy(hidden, words, inputs[0][chosen])[0] / len(hidden)
    return total + F.cross_entropy(model.next_logits(states, mask), torch.zeros(len(states), dtype=torch.long))


def pictures(model: Any, inputs: Any) -> Any:
    import torch
    from torch.nn import functional as F

    logits = model(*inputs)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


LOSSES = {"transformer": translation, "gpt2": language_model, "bert": mask_fill, "vit": pictures}


def resident(field: str) -> int:
    """Of this process, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


if __name__ == "__main__":
    main()
