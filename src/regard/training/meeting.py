"""Where the processes of one start of `torchrun` find each other.

After a restart (`--max-restarts`) torch hands out the same store again, and in it the addresses of processes that are
dead: whoever reads one before its successor has written its own waits for nobody. So the living first agree on a name
for their meeting, and everything is said under that name.
"""

import time
import uuid
from datetime import timedelta

import torch.distributed as dist

PAUSE = 0.02  # seconds until the first process asks again


def meet(backend: str, patience: timedelta) -> int:
    """Make the process group; how many meetings there were in this store, with this one."""
    store, rank, size = next(dist.rendezvous("env://", timeout=patience))
    name = agreed_name(store, rank, size, patience)
    dist.init_process_group(backend, store=dist.PrefixStore(name, store), rank=rank, world_size=size, timeout=patience)
    return int(name.partition("-")[0])


def agreed_name(store: dist.Store, rank: int, size: int, patience: timedelta) -> str:
    """The number of this meeting and a word that is new. The first process makes it up and tells each of the others."""
    own = uuid.uuid4().hex
    if rank > 0:
        store.set(f"regard/word/{rank}", own)
        name: str = store.get(f"regard/name/{own}").decode()
        store.set(f"regard/heard/{name}/{rank}", "")
        return name
    name = f"{store.add('regard/meetings', 1)}-{own}"
    deadline = time.monotonic() + patience.total_seconds()
    for other in range(1, size):
        tell(store, other, name, deadline)
    return name


def tell(store: dist.Store, rank: int, name: str, deadline: float) -> None:
    """Until it has been heard: the word that stands there may be a dead process's, who hears nothing."""
    while time.monotonic() < deadline:
        word = store.get(f"regard/word/{rank}").decode()
        store.set(f"regard/name/{word}", name)
        for _ in range(5):
            if store.check([f"regard/heard/{name}/{rank}"]):
                return
            time.sleep(PAUSE)
    raise TimeoutError(f"process {rank} did not come")
