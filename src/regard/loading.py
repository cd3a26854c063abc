"""`regard.load(RUN)`: a trained run or a public checkpoint, ready for its verbs."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import families
from regard.errors import RegardError, UsageError
from regard.processors import limit_threads
from regard.public import hub
from regard.public.building import understood
from regard.public.folder import is_public
from regard.training import checkpoints
from regard.training.freed_memory import keep_freed_memory
from regard.training.loop import choose_device
from regard.training.recovery import check_for_use
from regard.training.run import CONFIG, Run

if TYPE_CHECKING:
    from regard.decoding.workers import Workers

BYTES_OF_A_LAYER = 60  # at least: the name, type and place of a single tensor take as much


def load(run: str | Path, device: str = "auto", *, int8: bool = False) -> Any:
    """The verbs of a run folder (its best checkpoint), of a checkpoint folder, or of a public checkpoint: a folder in
    Hugging Face layout, or `hf:OWNER/NAME`, optionally with `@REVISION`.

    What comes back depends on the run's task: a Translator, a Classifier, a LanguageModel, ...; each has the torch
    module as `.model`. With `int8` its large matrices are kept and multiplied in 8 bits: faster on a CPU, and a little
    less exact (`regard evaluate --int8` says how much). Its `save_pretrained` writes a folder that is opened so again.
    """
    from regard.int8 import to_int8
    from regard.layers.packed import remember_order

    keep_freed_memory()
    limit_threads()
    loaded = _opened(run, device)
    if int8:
        to_int8(loaded.model)
    remember_order(loaded.model)
    return loaded


def _opened(run: str | Path, device: str) -> Any:
    from regard.int8 import load_int8_weights, stored_in_8_bits
    from regard.recipes.jobs import named_job

    folder = checkpoint_folder(run)
    check_for_use(folder)
    if is_public(folder):
        from regard.public.opening import open_public

        return open_public(folder, choose_device(device))
    place = folder / "config.json"
    family, config, task = families.config_from_json(checkpoints.load_json(place), str(place))
    refuse_larger_than_its_weights(family, config, folder)
    job = named_job(task)
    model = families.build_model(family, config)
    fill = load_int8_weights if stored_in_8_bits(folder) else checkpoints.load_weights
    fill(model, folder)
    model = model.to(choose_device(device))
    with understood(str(folder)):
        return job.load(folder, model, families.config_json(family, config, task))


def refuse_larger_than_its_weights(family: str, config: Any, folder: Path) -> None:
    """A config that says sizes its weights do not have must not cost the memory of such a model."""
    weights = folder / checkpoints.WEIGHTS
    if not weights.is_file():
        raise RegardError(f"{weights}: no such file; the checkpoint is not complete")
    size, layers = weights.stat().st_size, families.made_one_by_one(config)
    told = f"{layers:,} layers" if layers * BYTES_OF_A_LAYER > size else None
    if told is None:
        numbers = sum(tensor.numel() for tensor in families.sketch(family, config).state_dict().values())
        told = f"{numbers:,} numbers" if numbers > size else None  # none is stored in less than a byte
    if told is not None:
        raise RegardError(
            f"{folder}: config.json describes a model of {told}, but {weights.name} has only {size:,} bytes; "
            "they do not belong together"
        )


def load_for(verb: str, run: str | Path, *, int8: bool = False) -> Any:
    """A run that has this verb; another kind of run is refused with a word on what it is."""
    loaded = load(run, int8=int8)
    if not hasattr(loaded, verb):
        raise UsageError(f"{run} holds a {type(loaded).__name__.lower()}, which has no {verb!r}")
    return loaded


def workers(run: str | Path, count: int | None = None, *, int8: bool = False) -> "Workers":
    """Processes that each load this run, for the `workers` of its `translate`, inside a `with` block.

    With a `count` there are so many, and they share the threads of this one. Without, a long input is tried both ways,
    on all threads and on as many processes, and goes on in the faster one.
    """
    from regard.decoding.workers import Workers

    return Workers(partial(_decoder, str(checkpoint_folder(run).resolve()), int8), count)


def _decoder(folder: str, int8: bool) -> Any:
    return load_for("translate", folder, int8=int8).decoder


def checkpoint_folder(run: str | Path) -> Path:
    """Where the weights of a RUN lie."""
    if str(run).startswith(hub.PREFIX):
        return hub.download(str(run))
    folder = Path(run)
    if not folder.is_dir():
        raise UsageError(f"{run}: no such run or checkpoint folder (a public checkpoint is written hf:OWNER/NAME)")
    if (folder / CONFIG).is_file():
        return best_checkpoint(Run.open(folder))
    if (folder / checkpoints.WEIGHTS).is_file() or (folder / "config.json").is_file():
        return folder
    raise UsageError(f"{run} is neither a run folder (no {CONFIG}) nor a checkpoint (no {checkpoints.WEIGHTS})")


def best_checkpoint(run: Run) -> Path:
    """The checkpoint to use: the best one, else the last."""
    for name in ("best", "last"):
        if run.checkpoint(name).is_dir():
            return run.checkpoint(name)
    raise RegardError(f"{run.folder} has no checkpoint yet: go on with regard train --resume --out {run.folder}")
