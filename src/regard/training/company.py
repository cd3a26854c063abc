"""Processes that train as one. `torchrun` starts them; recipes, models and tasks do not know of it.

All see the same batches, and each takes its share of their rows. Losses are sums, so what one process would have
computed is the sum over all; gradients are summed by torch while they appear:

    ddp     every process has all weights (DistributedDataParallel)
    fsdp    every process keeps a share of every weight and borrows the rest, block by block (FSDP2, `fully_shard`)

The first process leads: it alone writes.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.training import checkpoints
from regard.training.meeting import meet
from regard.training.shards import blocks, is_shard, local, write_together
from regard.training.shared_norm import share_batch_norms

Result = TypeVar("Result")
PATIENCE = timedelta(minutes=30)  # before a silent process is given up: the leader may be reading a whole corpus


class Door(nn.Module):
    """A model behind one door: whatever is computed with it goes through `forward`.

    That is where torch hangs what it does for several processes, so a model may have as many methods as it likes.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[nn.Module], Result]) -> Result:
        return work(self.model)


class Company:
    """The processes that train one model. This one is of a process by itself."""

    rank, size = 0, 1
    device: torch.device | None = None  # the one of this process, if it may not choose
    is_restarted = False  # whether `torchrun --max-restarts` has put these processes in the place of others

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, model: nn.Module) -> None:
        """Make the model one that all have in common. Before its optimiser is made."""
        self.model = model
        self.door = self._open(Door(model))

    def _open(self, door: Door) -> nn.Module:
        return door

    def compute(self, work: Callable[[nn.Module], Result]) -> Result:
        """Whatever needs the weights."""
        result: Result = self.door(work)
        return result

    @contextmanager
    def piece(self, is_last: bool) -> Iterator[None]:
        """Around a loss and its backward: gradients are exchanged once, with the last piece."""
        yield

    def total(self, *values: float) -> list[float]:
        """Each summed over all processes."""
        return list(values)

    def decide(self, question: Callable[[], bool]) -> bool:
        """The leader's answer, which is everybody's."""
        return self.total(float(self.leads and question())) == [1.0]

    def gradients_done(self) -> None:
        """After the last backward: what torch does not sum by itself."""

    def clip_norm(self, limit: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def begin_step(self, seed: int, step: int) -> None:
        """Where the randomness of a step comes from, if it must not be the same everywhere."""

    @contextmanager
    def collected(
        self, folder: Path, model: nn.Module, state: dict[str, Tensor] | None
    ) -> Iterator[tuple[nn.Module | Path, dict[str, Tensor] | Path | None]]:
        """What the leader puts into the checkpoint `folder`: a model and the state of its optimiser, or their files."""
        yield model, state

    def wait(self) -> None:
        """Until all are here."""

    def leave(self) -> None:
        """Nothing is shared any more."""


class Replicas(Company):
    """`ddp`: every process has all weights."""

    def __init__(self, device: torch.device, is_host: bool):
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device
        self.is_host = is_host  # whether the meeting ends when the training does

    def _open(self, door: Door) -> nn.Module:
        share_batch_norms(door)
        devices = None if self.device is None or self.device.type != "cuda" else [self.device]
        parallel = nn.parallel.DistributedDataParallel
        # Buffers are tables, or numbers that `gradients_done` looks after: no need to send them round in every step.
        parallel._set_params_and_buffers_to_ignore_for_model(door, [name for name, _ in door.named_buffers()])
        return parallel(door, device_ids=devices, gradient_as_bucket_view=True)

    def compute(self, work: Callable[[nn.Module], Result]) -> Result:
        """Only what will be followed by a backward needs torch's wrapper."""
        return super().compute(work) if torch.is_grad_enabled() else work(self.model)

    @contextmanager
    def piece(self, is_last: bool) -> Iterator[None]:
        assert isinstance(self.door, nn.parallel.DistributedDataParallel)
        with nullcontext() if is_last else self.door.no_sync():
            yield

    def total(self, *values: float) -> list[float]:
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return [float(value) for value in sums.tolist()]

    def gradients_done(self) -> None:
        """The baselines of hard attention are the only numbers that move without a gradient."""
        for buffer in saved_buffers(self.model):
            dist.all_reduce(buffer)
            buffer /= self.size

    def begin_step(self, seed: int, step: int) -> None:
        """Each process draws for itself; a resumed step draws as it did the first time."""
        torch.manual_seed(hash((seed, step, self.rank)) % (1 << 63))

    def wait(self) -> None:
        dist.barrier()

    def leave(self) -> None:
        if self.is_host:
            dist.destroy_process_group()


class Shards(Replicas):
    """`fsdp`: every process keeps a share of every weight."""

    def _open(self, door: Door) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        # It fears that somebody may add to what a block returns in place. Nobody does.
        warnings.filterwarnings("ignore", message=".*returned a view tensor", category=UserWarning)
        share_batch_norms(door)
        assert self.device is not None
        mesh = init_device_mesh(self.device.type, (self.size,))
        self.scalars = {each for each in door.parameters() if not each.dim()}  # cannot be cut
        # Frozen weights are used outside of the training too, such as by an encoder whose output is kept on disk.
        unshared = self.scalars | {each for each in door.parameters() if not each.requires_grad}
        for block in blocks(self.model):
            fully_shard(block, mesh=mesh, ignored_params=unshared)
            for method in ("remember", "step"):  # the other ways into a block
                if hasattr(block, method):
                    register_fsdp_forward_method(block, method)
        fully_shard(door, mesh=mesh, ignored_params=unshared)
        return door

    def compute(self, work: Callable[[nn.Module], Result]) -> Result:
        result: Result = self.door(work)
        return result

    @contextmanager
    def piece(self, is_last: bool) -> Iterator[None]:
        self.door.set_requires_gradient_sync(is_last)  # type: ignore[operator]
        yield

    def gradients_done(self) -> None:
        super().gradients_done()
        for scalar in self.scalars:
            if scalar.grad is not None:
                dist.all_reduce(scalar.grad)
                scalar.grad /= self.size

    @contextmanager
    def collected(
        self, folder: Path, model: nn.Module, state: dict[str, Tensor] | None
    ) -> Iterator[tuple[nn.Module | Path, dict[str, Tensor] | Path | None]]:
        part = folder.with_name(f".{folder.name}.shares.part")  # the name of what may be swept away
        if self.leads:
            shutil.rmtree(part, ignore_errors=True)
        self.wait()
        try:
            weights = write_together(checkpoints.weights(model), part / "weights", self.leads)
            yield weights, None if state is None else write_together(state, part / "state", self.leads)
        finally:
            if self.leads:
                shutil.rmtree(part, ignore_errors=True)

    def clip_norm(self, limit: float) -> None:
        gradients = [each.grad for each in self.model.parameters() if each.grad is not None]
        squares = [float(local(each).double().square().sum()) for each in gradients if is_shard(each)]
        alone = [float(each.double().square().sum()) for each in gradients if not is_shard(each)]
        norm = (self.total(sum(squares))[0] + sum(alone)) ** 0.5
        for gradient in gradients:
            local(gradient).mul_(min(1.0, limit / (norm + 1e-6)))


def saved_buffers(model: nn.Module) -> list[Tensor]:
    """The buffers that belong to a checkpoint and are no counters."""
    parameters = {name for name, _ in model.named_parameters()}
    state = model.state_dict(keep_vars=True)
    return [value for name, value in state.items() if name not in parameters and value.is_floating_point()]


def gather(strategy: str, device: Callable[[], torch.device]) -> Company:
    """Meet the processes `torchrun` has started; without it, one process by itself."""
    if "WORLD_SIZE" not in os.environ or "LOCAL_RANK" not in os.environ:
        return Company()
    own = device()
    if own.type == "cuda":
        own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(own)
    is_host = not dist.is_initialized()
    meeting = meet("nccl" if own.type == "cuda" else "gloo", PATIENCE) if is_host else 1
    company = Shards(own, is_host) if strategy == "fsdp" else Replicas(own, is_host)
    # A store that is new at every start knows of no other; then torchrun's own count does.
    company.is_restarted = meeting > 1 or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return company


def leads() -> bool:
    """Whether this process is the one that speaks, before it has met the others."""
    return os.environ.get("RANK", "0") == "0"
