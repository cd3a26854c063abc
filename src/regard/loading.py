"""`regard.load(RUN)`: a trained run, ready for its verbs."""

from pathlib import Path

from regard import families, settings
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import RegardError, UsageError
from regard.tasks.translator import Translator
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import CONFIG, Run


def load(run: str | Path, device: str = "auto") -> Translator:
    """The model of a run folder (its best checkpoint) or of a checkpoint folder."""
    folder = checkpoint_folder(run)
    family, config = families.config_from_json(
        checkpoints.load_json(folder / "config.json"), str(folder / "config.json")
    )
    model = families.build_model(family, config)
    checkpoints.load_weights(model, folder)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if len(tokenizer) != config.vocabulary:
        raise RegardError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens but the model {config.vocabulary}; "
            "they do not belong together"
        )
    generation = folder / "generation_config.json"
    decoding = settings.build(Decoding, checkpoints.load_json(generation), str(generation))
    return Translator(model.to(choose_device(device)), tokenizer, decoding, families.config_json(family, config))


def checkpoint_folder(run: str | Path) -> Path:
    """Where the weights of a RUN lie."""
    folder = Path(run)
    if not folder.is_dir():
        raise UsageError(f"{run}: no such run or checkpoint folder")
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
