"""What every test relies on.

Shapes are types: every jaxtyping annotation of regard is enforced by beartype here. Tests multiply tiny matrices, and
several of them run side by side: one thread each is quicker than threads that wait for one another.
"""

import os
from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)
hook = install_import_hook(["regard.attention", "regard.layers", "regard.models"], "beartype.beartype")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, or a skip with a reason that is counted."""
    folder = os.environ.get("REGARD_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("REGARD_DATA names no folder of real data sets")
    return Path(folder)
