"""IMDB, the Large Movie Review Dataset (Maas et al. 2011): is a film review negative or positive?

50,000 English reviews of several sentences, half of each kind: 25,000 train, 25,000 test. Layout of the data folder:

    imdb/{train,test}.jsonl.gz    one object per review: id (train/pos/2237_7), label (0 or 1), rating (1-10), text

The set has no validation split. Ours is fixed: of each kind, the training reviews whose text has one of the 1,250
smallest SHA-256. A text that occurs twice is thus never on both sides.
"""

import gzip
import hashlib
import json
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from regard.data.download import arriving, receive
from regard.data.labelled import Labelled, read_labelled
from regard.errors import RegardError, UsageError
from regard.files import whole_file

URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
NAMES = {"0": "negative", "1": "positive"}
VALID_OF_EACH = 1250
ARCHIVE_MOST = 100_000_000  # bytes of the archive
REVIEWS_MOST = 100_000_000  # of the reviews in it


def imdb(folder: str | Path, split: str) -> Iterator[Labelled]:
    """The reviews of a split (22,494 / 2,506 / 25,000); downloaded into `folder` if they are not there."""
    if split not in ("train", "valid", "test"):
        raise UsageError(f"imdb: unknown split {split!r}; choose train, valid or test")
    file = "test" if split == "test" else "train"
    path = Path(folder) / "imdb" / f"{file}.jsonl.gz"
    if not path.exists():
        _fetch(path)
    reviews = (Labelled(known.text, NAMES.get(known.label, known.label), known.place) for known in read_labelled(path))
    return reviews if split == "test" else _part(reviews, split)


def _part(reviews: Iterator[Labelled], split: str) -> Iterator[Labelled]:
    """The reviews of train or valid, once somebody reads them."""
    known = list(reviews)  # 33 MB of text
    digests: dict[str, set[bytes]] = defaultdict(set)
    for review in known:
        digests[review.label].add(_digest(review))
    valid = {label: set(sorted(values)[:VALID_OF_EACH]) for label, values in digests.items()}
    yield from (review for review in known if (_digest(review) in valid[review.label]) == (split == "valid"))


def _digest(review: Labelled) -> bytes:
    return hashlib.sha256(review.text.encode()).digest()


def _fetch(wanted: Path) -> None:
    """Download the official archive (84 MB) and write its labelled half as two tables."""
    folder = wanted.parent
    try:
        with arriving(folder / "aclImdb_v1.tar.gz") as part:
            if not wanted.exists():  # somebody else may have been quicker
                receive(URL, part, SHA256, most=ARCHIVE_MOST)
                _write_tables(_archive_rows(part), folder)
    except (RegardError, tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise RegardError(f"{error} (or put train.jsonl.gz and test.jsonl.gz into {folder} yourself)") from error


def _write_tables(rows: list[dict[str, object]], folder: Path) -> None:
    """In the order of the ids' SHA-1: the first N rows are a fixed random sample."""
    for file in ("train", "test"):
        chosen = [row for row in rows if str(row["id"]).startswith(f"{file}/")]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chosen)
        with whole_file(folder / f"{file}.jsonl.gz") as opened:
            opened.write(gzip.compress(text.encode("utf-8"), mtime=0))


def _archive_rows(archive: Path) -> list[dict[str, object]]:
    """`aclImdb/train/pos/2237_7.txt` is review 2237, rated 7, of the positive ones for training."""
    rows: list[dict[str, object]] = []
    total = 0
    with tarfile.open(archive, "r:gz") as opened:
        for member in opened:
            parts = Path(member.name).parts
            if len(parts) != 4 or parts[2] not in ("neg", "pos") or not (file := opened.extractfile(member)):
                continue
            total += member.size
            if total > REVIEWS_MOST:
                raise RegardError(f"{URL}: the reviews swell to more than {REVIEWS_MOST:,} bytes")
            name = "/".join(parts[1:]).removesuffix(".txt")
            label, rating = int(parts[2] == "pos"), int(name.rpartition("_")[2])
            rows.append({"id": name, "label": label, "rating": rating, "text": file.read().decode("utf-8")})
    return sorted(rows, key=lambda row: hashlib.sha1(str(row["id"]).encode()).digest())
