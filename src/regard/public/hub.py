"""`hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`: the files of a public checkpoint, fetched by `huggingface_hub`.

Only files that regard reads are fetched, and of the weights the safetensors, or, where there are none, the old format.
They lie in huggingface_hub's own cache: what was fetched once opens without a network.
"""

import sys
from pathlib import Path
from typing import Any

from regard.errors import RegardError, UsageError
from regard.public.folder import OLD_SHARDED, OLD_SINGLE, SHARDED, SINGLE

PREFIX = "hf:"
SMALL_FILES = [
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.spm",
    "modules.json",
    "sentence_bert_config.json",
    "*_Pooling/config.json",
]
WEIGHTS = [SINGLE, SHARDED, "model-*-of-*.safetensors"]
OLD_WEIGHTS = [OLD_SINGLE, OLD_SHARDED, "pytorch_model-*-of-*.bin"]


def download(name: str) -> Path:
    """The folder of a checkpoint, `name` with or without `hf:`."""
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    if not repository:
        raise UsageError(f"{name!r} names no checkpoint; write hf:OWNER/NAME, or hf:OWNER/NAME@REVISION")
    folder = _fetch(repository, revision or None, SMALL_FILES + WEIGHTS)
    if not any((folder / file).is_file() for file in (SINGLE, SHARDED)):
        # A snapshot's folder is called after its commit: the weights must be of the same.
        folder = _fetch(repository, folder.name, SMALL_FILES + OLD_WEIGHTS)
    return folder


def _fetch(repository: str, revision: str | None, patterns: list[str]) -> Path:
    hub = _hub()
    asked = f"{PREFIX}{repository}" + (f"@{revision}" if revision else "")
    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    try:
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except hub.errors.HFValidationError as error:
        raise UsageError(f"{asked}: not the name of a checkpoint ({_first_line(error)})") from error
    except hub.errors.GatedRepoError as error:
        raise RegardError(
            f"{asked}: its owner asks for consent first; give it on the hub's page, and log in with: hf auth login"
        ) from error
    except hub.errors.RepositoryNotFoundError as error:
        raise UsageError(f"{asked}: there is no such checkpoint on the hub, or it is not public") from error
    except hub.errors.RevisionNotFoundError as error:
        raise UsageError(f"{asked}: the checkpoint has no such revision") from error
    except Exception as error:  # a network fails in many ways, each with an exception of its own
        raise RegardError(
            f"{asked}: could not be fetched ({_first_line(error)}); with a network, try again; "
            "without one, give the folder of a checkpoint"
        ) from error


def _hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise UsageError(f"{PREFIX} needs the package huggingface_hub: pip install 'regard[hub]'") from error
    return huggingface_hub


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200].rstrip(".")
