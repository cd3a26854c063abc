"""Result files: the numbers with the command, the versions and the machine that made them."""

import json
import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sacrebleu
import torch

import regard

FOLDER = Path(__file__).parent / "results"


def without_expectations(value: Any) -> Any:
    """Recipes say what to expect of them (`result`); in a file of what came out, that would be an older number."""
    if isinstance(value, dict):
        is_recipe = "about" in value and "training" in value
        return {key: without_expectations(item) for key, item in value.items() if not (is_recipe and key == "result")}
    return [without_expectations(item) for item in value] if isinstance(value, list) else value


def machine() -> str:
    """Its system, processor and cores, and the widest instructions torch finds there."""
    told = Path("/proc/cpuinfo").read_text("utf-8") if platform.system() == "Linux" else ""
    lines = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", told, re.MULTILINE))
    processor = lines.get("model name", platform.processor() or "unknown processor")
    kind = f" (family {lines['cpu family']}, model {lines['model']})" if {"cpu family", "model"} <= lines.keys() else ""
    wide = torch.backends.cpu.get_cpu_capability()
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores of {processor}{kind}, {wide}"


def write_result(name: str, command: str, numbers: dict[str, Any], path: Path | None = None) -> Path:
    """Write `results/NAME.json`, or another file, and return its path."""
    record = {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "versions": {
            "regard": regard.__version__,
            "torch": torch.__version__,
            "sacrebleu": sacrebleu.__version__,
            "python": platform.python_version(),
        },
        **without_expectations(numbers),
    }
    path = path or FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
