"""The Ray engine with actors that are killed, each at the worst moment: python dying_actors.py RUN CORPUS OUT.

The actor that does part 1 dies in the middle of writing it, and leaves half a file. The one that does part 2 dies when
its file is there but nobody has been told. Each dies once; afterwards its part is done as any other.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from regard.bulk import on_ray, verb, work
from regard.bulk.parts import Done, Part

OPTIONS = {"num_beams": 2, "replace_unknowns": False}


class Dying(work.Worker):
    def do(self, part: Part) -> Done:
        work.write = half if part.number == 1 and self.first_time("writing") else work.write
        done = super().do(part)
        if part.number == 2 and self.first_time("written"):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def first_time(self, moment: str) -> bool:
        """Whether nobody died at this moment before; from now on somebody has."""
        mark = Path(self.job.out).parent / f"died-{moment}"
        is_first = not mark.exists()
        mark.touch()
        return is_first


def half(rows: Any, out: str, name: str) -> None:
    (Path(out) / f".{name}.{os.getpid()}.0a1b2c3d.part").write_bytes(b"PAR1")
    os.kill(os.getpid(), signal.SIGKILL)


class DyingActor(on_ray.ModelActor):
    worker_class = Dying


if __name__ == "__main__":
    run, corpus, out = sys.argv[1:]
    on_ray.ModelActor = DyingActor  # type: ignore[misc]
    done = verb.bulk("translate", run, corpus, out, engine="ray", actors=2, part_rows=4, options=OPTIONS)
    print(json.dumps(vars(done)))
