"""Data sets known by name, looked for in one data folder and downloaded when they are not there.

Layout of the data folder:

    multi30k/raw/{train,val,test_2016_flickr}.{en,de,fr,cs}.gz
    multi30k/tok/{train,val,test_2016_flickr}.lc.norm.tok.{en,de,fr,cs}.gz
    imdb/{train,test}.jsonl.gz
    sst2/{train,dev,test}.tsv.gz
    mrpc/msr_paraphrase_{train,test}.txt.gz
    fashion_mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
    omniglot/images_{background,evaluation}.npz
    flickr8k/{images_{train,val,test}.zip,captions_{train,val,test}.tsv.gz}
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from regard.data.captions import CaptionedImage
from regard.data.download import gzipped_from
from regard.data.fashion_mnist import fashion_mnist
from regard.data.flickr8k import flickr8k
from regard.data.glue import mrpc, sst2
from regard.data.images import LabelledImage
from regard.data.imdb import imdb
from regard.data.labelled import Labelled
from regard.data.omniglot import omniglot
from regard.data.pairs import Pair
from regard.data.parallel import read_pairs
from regard.data.reversal import reversal
from regard.errors import UsageError

T = TypeVar("T")
MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1"
MULTI30K_SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MULTI30K_LANGUAGES = ("en", "de", "fr", "cs")
MULTI30K_ENDINGS = {"raw": "", "tok": ".lc.norm.tok"}  # tok: lower-cased, normalised, tokenised by its makers
MULTI30K_MOST = 4_000_000  # bytes of a file


def data_folder(explicit: str | Path | None = None) -> Path:
    """Where named data sets lie: the folder asked for, else REGARD_DATA, else the user's cache folder."""
    chosen, origin = explicit, "--data"
    if not chosen:
        chosen, origin = os.environ.get("REGARD_DATA"), "REGARD_DATA"
    if not chosen:
        import platformdirs

        return platformdirs.user_cache_path("regard", appauthor=False) / "data"
    folder = Path(chosen).expanduser()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{origin}: {folder} is not a folder; name the folder that holds the data sets")
    return folder


def multi30k(
    folder: str | Path, split: str, source: str = "en", target: str = "de", text: str = "tok"
) -> Iterator[Pair]:
    """Multi30k, task 1: image descriptions in four languages; 29,000 / 1,014 / 1,000 pairs.

    Elliott et al. 2016 (en, de), Elliott et al. 2017 (fr), Barrault et al. 2018 (cs). Its makers offer it for
    non-commercial research and education. Files that are missing are downloaded into `folder`.
    """
    _known("split", split, list(MULTI30K_SPLITS))
    _known("text", text, list(MULTI30K_ENDINGS))
    for language in (source, target):
        _known("language", language, list(MULTI30K_LANGUAGES))
    if source == target:
        raise UsageError(f"multi30k: source and target are both {source!r}; choose two languages")
    source_path, target_path = (
        _multi30k_file(Path(folder), f"{text}/{MULTI30K_SPLITS[split]}{MULTI30K_ENDINGS[text]}.{language}")
        for language in (source, target)
    )
    return read_pairs(source_path, target_path=target_path)


def _known(what: str, value: str, known: list[str]) -> None:
    if value not in known:
        raise UsageError(f"multi30k: unknown {what} {value!r}; choose one of {', '.join(known)}")


def _multi30k_file(folder: Path, name: str) -> Path:
    """The file in the data folder; downloaded, checked and gzipped if it is not there yet."""
    url = f"{MULTI30K_URL}/{name}" + ".gz" * name.startswith("raw/")  # their tokenised text is not gzipped
    return gzipped_from(url, folder / "multi30k" / f"{name}.gz", MULTI30K_SHA256[name], MULTI30K_MOST)


def _corpus(folder: str | Path, split: str, count: int | None = None, seed: int = 0) -> Iterator[Pair]:
    """The corpus that comes with regard; it needs no folder."""
    from regard.data.corpus import corpus

    return iter(corpus(split, count=count, seed=seed))


# By what they hold: pairs of sentences, texts with labels, pictures with labels, and pictures with captions.
NAMED: dict[str, Callable[..., Iterator[Pair]]] = {"multi30k": multi30k, "corpus": _corpus, "reversal": reversal}
NAMED_LABELLED: dict[str, Callable[..., Iterator[Labelled]]] = {"imdb": imdb, "sst2": sst2, "mrpc": mrpc}
NAMED_IMAGES: dict[str, Callable[..., Iterator[LabelledImage]]] = {"fashion_mnist": fashion_mnist, "omniglot": omniglot}
NAMED_CAPTIONS: dict[str, Callable[..., Iterator[CaptionedImage]]] = {"flickr8k": flickr8k}


def named(name: str, folder: str | Path, split: str, **options: object) -> Iterator[Pair]:
    """The pairs of a split of a named data set; `options` are the keyword arguments of its function."""
    return _open(NAMED, "pairs", name, folder, split, options)


def named_labelled(name: str, folder: str | Path, split: str, **options: object) -> Iterator[Labelled]:
    """The labelled texts of a split of a named data set."""
    return _open(NAMED_LABELLED, "labelled texts", name, folder, split, options)


def named_images(name: str, folder: str | Path, split: str, **options: object) -> Iterator[LabelledImage]:
    """The labelled pictures of a split of a named data set."""
    return _open(NAMED_IMAGES, "labelled pictures", name, folder, split, options)


def named_captions(name: str, folder: str | Path, split: str, **options: object) -> Iterator[CaptionedImage]:
    """The captioned pictures of a split of a named data set."""
    return _open(NAMED_CAPTIONS, "captioned pictures", name, folder, split, options)


def _open(
    table: Mapping[str, Callable[..., Iterator[T]]],
    what: str,
    name: str,
    folder: str | Path,
    split: str,
    options: Mapping[str, object],
) -> Iterator[T]:
    if name not in table:
        raise UsageError(f"unknown data set {name!r}; those with {what} are {', '.join(table)}")
    known = [option for option in inspect.signature(table[name]).parameters if option not in ("folder", "split")]
    for option in options:
        if option not in known:
            raise UsageError(f"data set {name!r} has no option {option!r}; its options are {', '.join(known)}")
    return table[name](folder, split, **options)


# Of the uncompressed text, at the commit in MULTI30K_URL.
MULTI30K_SHA256 = {
    "raw/test_2016_flickr.cs": "45adb85f688de8407fddcbe1b36dca15d12aab868149b337e2576f2d6d2ff8d8",
    "raw/test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "raw/test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "raw/test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "raw/train.cs": "2be68b38c8d586ff4f54eb13cc6e1baaaa053695b3f070d3038303a47f2268da",
    "raw/train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "raw/train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "raw/train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "raw/val.cs": "d53827e469b0a1ca8d57e9e26b2b64c4bc4b33f5479c7b03ae87ae5c882c3e33",
    "raw/val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "raw/val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "raw/val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "tok/test_2016_flickr.lc.norm.tok.cs": "748c8816de928732365176e5c5d2f9bbabcec9b8d4448fba2d230feb057898a7",
    "tok/test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "tok/test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "tok/test_2016_flickr.lc.norm.tok.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
    "tok/train.lc.norm.tok.cs": "7645fb91efa18f94c83d493f740a5d5a941e4b01efa6a124bf2d4af040e133e0",
    "tok/train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "tok/train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "tok/train.lc.norm.tok.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    "tok/val.lc.norm.tok.cs": "b87ee4917f4a0f9ca6cca03e402026c9f4437dc1bd6a7dadfd2544ecfb6c5501",
    "tok/val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "tok/val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "tok/val.lc.norm.tok.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
}
