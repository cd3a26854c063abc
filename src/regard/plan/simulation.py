"""A plan's shards, checked: torch shards the model among up to thousands of ranks that are not there.

torch's fake process group answers for all other ranks, and fake tensors have shapes but no memory, so one process can
be any rank of any cluster.
"""

from typing import Any

from regard.errors import UsageError
from regard.families import build_model
from regard.training.shards import blocks


def parameter_bytes(family: str, config: Any, ranks: int, rank: int = 0) -> int:
    """What `fully_shard` leaves on this rank, block by block and then the rest."""
    import torch.distributed as dist
    from torch._subclasses import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise UsageError("this process is a rank already: simulate in one of its own")
    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (ranks,))
        with FakeTensorMode():
            model = build_model(family, config)
            for block in blocks(model):
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            shards: list[Any] = list(model.parameters())
            return sum(shard.to_local().numel() * shard.element_size() for shard in shards)
    finally:
        dist.destroy_process_group()
