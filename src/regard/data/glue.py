"""Two sets of the GLUE collection (Wang et al. 2019): the mood of a sentence, and whether two say the same.

    sst2/{train,dev,test}.tsv.gz               sentence<TAB>label; label 0 negative, 1 positive (Socher et al. 2013)
    mrpc/msr_paraphrase_{train,test}.txt.gz    Quality, two ids, two sentences; quality 1: they mean the same
                                               (Dolan and Brockett 2005)

Neither has a source that could be downloaded from and checked (GLUE withholds the test labels of the first, the second
asks for consent to its terms): put the files there yourself. MRPC has no validation split. Ours is fixed: the 400
training pairs with the smallest SHA-256 of their texts.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from regard.data.labelled import Labelled, read_labelled
from regard.errors import RegardError, UsageError

SST2_FILES = {"train": "train", "valid": "dev", "test": "test"}
SST2_NAMES = {"0": "negative", "1": "positive"}
MRPC_NAMES = {"0": "different", "1": "same"}
MRPC_VALID = 400


def sst2(folder: str | Path, split: str) -> Iterator[Labelled]:
    """Phrases (train) and sentences of film reviews: 67,349 / 872 / 1,821."""
    _check_split("sst2", split)
    path = _existing(Path(folder) / "sst2" / f"{SST2_FILES[split]}.tsv.gz", "sentence<TAB>label")
    return _renamed(read_labelled(path, text_column="sentence"), SST2_NAMES)


def mrpc(folder: str | Path, split: str) -> Iterator[Labelled]:
    """Pairs of sentences from the news: 3,676 / 400 / 1,725."""
    _check_split("mrpc", split)
    file = "test" if split == "test" else "train"
    header = "Quality, #1 ID, #2 ID, #1 String, #2 String"
    path = _existing(Path(folder) / "mrpc" / f"msr_paraphrase_{file}.txt.gz", header)
    pairs = read_labelled(path, text_column="#1 String", second_column="#2 String", label_column="Quality", form=".tsv")
    pairs = _renamed(pairs, MRPC_NAMES)
    return pairs if split == "test" else _part(pairs, split)


def _part(pairs: Iterator[Labelled], split: str) -> Iterator[Labelled]:
    """The pairs of train or valid, once somebody reads them."""
    known = list(pairs)
    valid = set(sorted(map(_digest, known))[:MRPC_VALID])
    yield from (pair for pair in known if (_digest(pair) in valid) == (split == "valid"))


def _digest(pair: Labelled) -> bytes:
    return hashlib.sha256(f"{pair.text}\t{pair.second}".encode()).digest()


def _renamed(texts: Iterator[Labelled], names: dict[str, str]) -> Iterator[Labelled]:
    return (Labelled(known.text, names.get(known.label, known.label), known.place, known.second) for known in texts)


def _check_split(name: str, split: str) -> None:
    if split not in SST2_FILES:
        raise UsageError(f"{name}: unknown split {split!r}; choose train, valid or test")


def _existing(path: Path, header: str) -> Path:
    if not path.is_file():
        raise RegardError(f"{path}: no such file; put it there yourself: a gzipped table with the header {header}")
    return path
