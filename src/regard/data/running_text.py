"""Running text, line by line: a data set known by name, or text files of one's own.

Layout of the data folder:

    wikitext2/wiki.{train,valid,test}.tokens.gz
    tiny_shakespeare/input.txt.gz

Lines are kept as they are, empty ones too: in running text the end of a line is something to predict. Only lines
without an end in sight (see regard.data.parallel.MAX_LINE_CHARACTERS) are left out, and counted.
"""

import gzip
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.data.download import arriving, gzipped_from, receive
from regard.data.labelled import TABLES as LABELLED_TABLES
from regard.data.labelled import read_texts
from regard.data.named import data_folder
from regard.data.parallel import read_lines
from regard.data.written import is_remote, written
from regard.errors import RegardError, UsageError
from regard.files import whole_file

SPLITS = ("train", "valid", "test")
TABLES = tuple(form for form in LABELLED_TABLES if ".tsv" not in form and ".csv" not in form)
TEXTS = (".txt", ".txt.gz", ".tokens", ".tokens.gz", *TABLES)
WIKITEXT2_URL = "https://wikitext.smerity.com/wikitext-2-v1.zip"
WIKITEXT2_MOST, WIKITEXT2_TEXT_MOST = 10_000_000, 20_000_000  # bytes of the archive, and of each of its texts
WIKITEXT2_SHA256 = "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c"
SHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SHAKESPEARE_MOST = 2_000_000  # bytes
SHAKESPEARE_CUT = 1_003_854  # of 1,115,394 characters: nine tenths


class Part(NamedTuple):
    """The characters of a file from `first` up to `last`, ends of lines counted; a line that is cut still ends."""

    path: Path
    first: int = 0
    last: int | None = None  # None: to the end of the file


def wikitext2(folder: str | Path, split: str) -> Path:
    """WikiText-2 (Merity et al. 2016): Wikipedia articles, 2,088,628 / 217,646 / 245,569 words with the ends of lines.

    Words are separated by blanks, rare ones are written <unk>. The text is under CC BY-SA.
    """
    path = Path(folder) / "wikitext2" / f"wiki.{split}.tokens.gz"
    if not path.exists():
        _fetch_wikitext2(path)
    return path


def _fetch_wikitext2(wanted: Path) -> None:
    folder = wanted.parent
    try:
        with arriving(folder / "wikitext-2-v1.zip") as part:
            if not wanted.exists():  # somebody else may have been quicker
                receive(WIKITEXT2_URL, part, WIKITEXT2_SHA256, most=WIKITEXT2_MOST)
                _unpack_wikitext2(part, folder)
    except (RegardError, KeyError, zipfile.BadZipFile) as error:
        raise RegardError(f"{error} (or put wiki.{{train,valid,test}}.tokens.gz into {folder} yourself)") from error


def _unpack_wikitext2(part: Path, folder: Path) -> None:
    with zipfile.ZipFile(part) as archive:
        for split in SPLITS:
            member = archive.getinfo(f"wikitext-2/wiki.{split}.tokens")
            if member.file_size > WIKITEXT2_TEXT_MOST:
                raise RegardError(f"{WIKITEXT2_URL}: {member.filename} swells to {member.file_size:,} bytes")
            with whole_file(folder / f"wiki.{split}.tokens.gz") as file:
                file.write(gzip.compress(archive.read(member), mtime=0))


def shakespeare(folder: str | Path, split: str) -> Part:
    """Tiny Shakespeare: 1,115,394 characters of plays, in the public domain.

    It has no official split. By custom the first nine tenths are for training and the rest for validation, on which
    the losses one reads of are measured; nothing is left for a test.
    """
    path = Path(folder) / "tiny_shakespeare" / "input.txt.gz"
    if split == "test":
        raise UsageError(
            "shakespeare has no test split: by custom its last tenth is for validation; "
            "use the split valid and say that the best checkpoint was chosen by it"
        )
    gzipped_from(SHAKESPEARE_URL, path, SHAKESPEARE_SHA256, SHAKESPEARE_MOST)
    return Part(path, last=SHAKESPEARE_CUT) if split == "train" else Part(path, first=SHAKESPEARE_CUT)


NAMED_TEXTS: dict[str, Callable[[str | Path, str], Path | Part]] = {
    "wikitext2": wikitext2,
    "shakespeare": shakespeare,
}


def named_text(name: str, folder: str | Path | None, split: str) -> Path | Part:
    """Where one split of a named data set lies; it is downloaded if it is not there."""
    if name not in NAMED_TEXTS:
        raise UsageError(f"unknown text data set {name!r}; choose one of {', '.join(NAMED_TEXTS)}")
    return NAMED_TEXTS[name](data_folder(folder), split)


def existing(path: str) -> str:
    """The path, if something can be read there. An address is believed until it is read."""
    if not is_remote(path) and not written(path).is_file():
        raise UsageError(f"{path}: no such file")
    return path


def text_lines(
    paths: Sequence[str | Path | Part], skipped: Counter[str] | None = None, column: str = "text"
) -> Iterator[str]:
    """The lines of all files, one file after the other; of a table, those of the texts in one column."""
    skipped = Counter() if skipped is None else skipped
    for path in paths:
        if not isinstance(path, Part) and str(path).lower().endswith(TABLES):
            for text in read_texts(path, column, skipped):
                yield from text.replace("\r\n", "\n").split("\n")
                yield ""  # where a text ends
        else:
            yield from _lines(path if isinstance(path, Part) else Part(written(path)), skipped)


def _lines(part: Part, skipped: Counter[str]) -> Iterator[str]:
    start = 0  # of the line, counted in characters
    for line in read_lines(part.path):
        if line is None:
            skipped["too long"] += 1
            continue
        end = start + len(line) + 1
        if part.last is not None and start >= part.last:
            return
        if end > part.first:
            yield line[max(0, part.first - start) : None if part.last is None else part.last - start]
        start = end
