"""Bulk inference on Ray: two actors, both killed at bad moments, and still every row once and bitwise the plain result.

Ray runs in a process of its own: it leaves threads and warnings behind, and takes a while to start.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bulk.dying_actors import OPTIONS
from export.tiny_runs import TEXTS, translator
from regard.bulk.verb import bulk

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and a corpus of 22 rows in two files."""
    folder = tmp_path_factory.mktemp("ray")
    translator(folder / "run")
    draw = np.random.default_rng(0)
    words = " ".join(TEXTS[:4]).split()
    (folder / "in").mkdir()
    for name, count in (("a", 13), ("b", 9)):
        texts = [None if row == 5 else " ".join(draw.choice(words, size=draw.integers(1, 7))) for row in range(count)]
        rows = pa.table({"id": [f"{name}{row}" for row in range(count)], "text": pa.array(texts, pa.string())})
        pq.write_table(rows, folder / "in" / f"{name}.parquet", row_group_size=5)
    return folder


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """On one thread, as the tests compute; another number of threads may add in another order."""
    threads = {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *map(str, command)], env=os.environ | threads, capture_output=True, text=True, timeout=600
    )


def known(called: subprocess.CompletedProcess[str]) -> Any:
    assert (called.returncode, called.stderr) == (0, "")  # and Ray is quiet
    return json.loads(called.stdout)


def test_a_lost_actor_loses_no_row_and_adds_none(place: Path) -> None:
    script = Path(__file__).parent / "dying_actors.py"
    done = known(run(script, place / "run", place / "in", place / "out"))
    assert sorted(path.name for path in place.glob("died-*")) == ["died-writing", "died-written"]
    assert done["again"] == 2
    assert (done["rows"], done["parts"], done["without"]) == (22, 7, {"null": 2})

    bulk("translate", place / "run", str(place / "in"), str(place / "plain"), part_rows=4, options=OPTIONS)
    names = [f"part-{number:06}.parquet" for number in range(7)]
    assert sorted(os.listdir(place / "out")) == names
    for name in names:
        assert (place / "out" / name).read_bytes() == (place / "plain" / name).read_bytes()
    rows = pq.read_table(place / "out", columns=["id"])["id"].to_pylist()
    assert rows == [f"a{row}" for row in range(13)] + [f"b{row}" for row in range(9)]

    # The other engine goes on where this one stopped.
    (place / "out" / names[3]).unlink()
    options = ["--part-rows", 4, "--beam", 2, "--json"]
    again = known(run("-m", "regard", "translate", place / "run", place / "in", "--out", place / "out", *options))
    assert again["before"] == 6
    assert (place / "out" / names[3]).read_bytes() == (place / "plain" / names[3]).read_bytes()


def test_what_goes_wrong_in_an_actor_is_one_line(place: Path) -> None:
    source, out = place / "in", place / "wrong"
    called = run("-m", "regard", "translate", place / "run", source, "--out", out, "--engine", "ray", "--beam", 0)
    assert (called.returncode, called.stdout) == (2, "")
    assert called.stderr == "regard: decoding.num_beams is 0 but must be at least 1\n"
    assert not out.exists()
