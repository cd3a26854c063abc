"""Tagged sentences known by name.

Layout of the data folder:

    ud_english_ewt/en_ewt-ud-{train,dev,test}.conllu.gz
"""

from collections.abc import Callable
from pathlib import Path

from regard.data.download import gzipped_from
from regard.errors import UsageError

EWT_URL = (
    "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/15d613d8447b3478787d4c278730a1e48a945efb"
)
EWT_MOST = 20_000_000  # bytes of a file
EWT_SPLITS = {"train": "train", "valid": "dev", "test": "test"}
EWT_SHA256 = {  # of the text, at the commit in EWT_URL
    "train": "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
    "dev": "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
    "test": "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd",
}


def ewt(folder: str | Path, split: str) -> Path:
    """UD English EWT (Silveira et al. 2014): web texts, 12,544 / 2,001 / 2,077 sentences, 254,818 words in all.

    Under CC BY-SA 4.0. A file that is missing is downloaded into `folder`.
    """
    name = EWT_SPLITS[split]
    path = Path(folder) / "ud_english_ewt" / f"en_ewt-ud-{name}.conllu.gz"
    return gzipped_from(f"{EWT_URL}/en_ewt-ud-{name}.conllu", path, EWT_SHA256[name], EWT_MOST)


NAMED_TREEBANKS: dict[str, Callable[[str | Path, str], Path]] = {"ewt": ewt}


def named_treebank(name: str, folder: str | Path, split: str) -> Path:
    """The CoNLL-U file of one split of a named treebank."""
    if name not in NAMED_TREEBANKS:
        raise UsageError(f"unknown treebank {name!r}; choose one of {', '.join(NAMED_TREEBANKS)}")
    return NAMED_TREEBANKS[name](folder, split)
