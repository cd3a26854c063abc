"""When something went wrong: a killed process, a damaged checkpoint, too little memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import RegardError, is_out_of_memory
from regard.training.checkpoints import Damaged, check, load_progress
from regard.training.run import Run


def mend(run: Run, average: int = 0) -> None:
    """Make a run ready to go on from its newest whole checkpoint: `last` leads there, and nothing is left of later.

    A process may have been killed between any two of its writes, and a disk may have damaged what was written: a
    checkpoint is used only if every file of it is what its checksums say. As many as an `average` needs are looked at.
    A run that has never saved begins anew; one whose checkpoints are all damaged does not.
    """
    run.sweep()
    whole, damaged = _looked_at(run, max(1, average))
    if not whole:
        if damaged or run.pointed("last"):
            raise RegardError(_nothing_left(run, damaged))
        run.forget_metrics_after(0)
        return
    step = whole[0]
    if damaged:
        faults = "; ".join(error.what for error in damaged.values())
        places = ", ".join(str(run.aside(bad)) for bad in damaged)
        run.tell(f"{faults}; going on from step {step}; what is damaged is kept in {places} until you remove it")
        for bad in damaged:
            run.put_aside(bad)
    progress = load_progress(run.checkpoint(step))
    if not progress.finished:
        run.go_back_to(step, progress.best_step)
    elif run.pointed("last") != str(step):
        run.point("last", step)


def _looked_at(run: Run, wanted: int) -> tuple[list[int], dict[int, Damaged]]:
    """The newest `wanted` steps with a whole checkpoint, newest first, and the damaged ones met on the way."""
    whole: list[int] = []
    damaged: dict[int, Damaged] = {}
    for step in reversed(run.saved_steps()):
        if len(whole) == wanted:
            break
        try:
            check(run.checkpoint(step))
            whole.append(step)
        except Damaged as error:
            damaged[step] = error
    return whole, damaged


def _nothing_left(run: Run, damaged: dict[int, Damaged]) -> str:
    faults = "; ".join(error.what for error in damaged.values()) or f"{run.checkpoint('last')} leads nowhere"
    return (
        f"{run.folder} has no whole checkpoint to go on from ({faults}); bring one back from a copy, or train anew "
        f"with: regard train {run.folder / 'config.yaml'} --out ANOTHER"
    )


def check_for_use(folder: Path) -> None:
    """Refuse a checkpoint that is damaged, and name one of the same run that is not."""
    try:
        check(folder, to_go_on=False)
    except Damaged as error:
        other = _whole_neighbour(folder)
        if other is None:
            raise
        raise Damaged(error.what, f"{other} is whole: use that instead") from error


def _whole_neighbour(folder: Path) -> Path | None:
    run = Run(folder.parent.parent)
    if folder.parent.name != run.checkpoints.name:
        return None
    for name in ("average", *map(str, reversed(run.saved_steps()))):
        other = run.checkpoint(name)
        try:
            if other.is_dir():
                check(other, to_go_on=False)
                return other
        except Damaged:
            continue
    return None


@contextmanager
def enough_memory(run: Run) -> Iterator[None]:
    """Too little memory in one line, with what helps; the run's checkpoints are not touched by it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        message = (
            f"out of memory; raise training.accumulate in {run.folder / 'config.yaml'} (the same updates, computed in "
            f"smaller pieces) and go on with: regard train --resume --out {run.folder}; or train anew with a smaller "
            "training.batch_tokens"
        )
        run.log(message)
        raise RegardError(message) from error
