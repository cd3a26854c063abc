"""Result files: the numbers with the command, the versions and the machine that made them."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sacrebleu
import torch

import regard

FOLDER = Path(__file__).parent / "results"


def write_result(name: str, command: str, numbers: dict[str, Any]) -> Path:
    """Write `results/NAME.json` and return its path."""
    record = {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "versions": {
            "regard": regard.__version__,
            "torch": torch.__version__,
            "sacrebleu": sacrebleu.__version__,
            "python": platform.python_version(),
        },
        **numbers,
    }
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
