"""A folder in which what the documentation tells can be typed: every file it names, and a tiny run for every name."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fewshot_folders import SIDE, write_signs, write_splits
from regard.export import export_run
from regard.recipes import from_values, runner

ANIMALS = ("cat", "dog", "bird", "fish")
PLACES = ("mat", "house", "river", "tree")
SPLITS = {"train": 48, "valid": 8, "test": 8}
QUICK: dict[str, Any] = dict(steps=2, batch_tokens=256, validate_every=2, log_every=1, warmup=1, device="cpu")
COLUMNS = ("source", "target", "text", "label", "premise", "hypothesis", "file", "caption", "review", "stars")
# The runs that the documentation names, by what they are.
NAMES = {
    "translator": ("runs/mine", "runs/bahdanau", "runs/demo", "runs/a", "runs/b", "runs/big", "opus-mt-en-de"),
    "classifier": ("runs/reviews", "runs/imdb-han"),
    "pairs": ("runs/pairs", "runs/mrpc", "runs/sst2"),
    "tagger": ("runs/tags", "runs/ewt-elmo", "my-ner-checkpoint"),
    "story": ("runs/story", "runs/shakespeare", "runs/wikitext2/gpt2", "runs/wikitext2/lstmn", "runs/wikitext2-gpt2"),
    "gaps": ("runs/gaps", "runs/wikitext2-bert"),
    "elmo": ("runs/wikitext2-elmo",),
    "pictures": ("runs/pictures", "runs/flowers"),
    "eyes": ("runs/seeing",),
    "captioner": ("runs/telling", "runs/flickr8k-show-tell"),
    "matcher": ("runs/omniglot",),
    "machine": ("runs/copy-ntm",),
    "player": ("runs/bandit",),
}
# What RUN stands for, by the verb.
MEANT = {
    "translate": "runs/a",
    "evaluate": "runs/a",
    "caption": "runs/telling",
    "look": "runs/telling",
    "train": "runs/a",
}


def sentence(number: int) -> str:
    return f"the {ANIMALS[number % 4]} sat by the {PLACES[number // 4 % 4]} ."


def picture(number: int) -> Image.Image:
    shades = np.random.default_rng(number).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    return Image.fromarray(shades)


def rows(split: str) -> Iterator[dict[str, str]]:
    for number in range(SPLITS[split]):
        said = sentence(number)
        label = ("praise", "blame")[number % 2]
        file, other = f"photos/{split}{number}.png", sentence(number + 1)
        values = (said, said.upper(), said, label, said, other, file, said, said, label)
        yield dict(zip(COLUMNS, values, strict=True))


def write_tables(folder: Path) -> None:
    (folder / "photos").mkdir()
    for split, count in SPLITS.items():
        known = list(rows(split))
        for between, name in (("\t", "tsv"), (",", "csv")):
            lines = [between.join(COLUMNS), *(between.join(row.values()) for row in known)]
            (folder / f"{split}.{name}").write_text("\n".join(lines) + "\n")
        for suffix, column in (("en", "source"), ("de", "target"), ("txt", "text")):
            (folder / f"{split}.{suffix}").write_text("".join(row[column] + "\n" for row in known))
        for number in range(count):
            picture(number).save(folder / "photos" / f"{split}{number}.png")
        for label in ("cat", "dog"):
            for name in ("pictures", "flowers"):
                home = folder / name / split / label
                home.mkdir(parents=True)
                for number in range(4):
                    picture(number).save(home / f"{number}.png")
        tree = "".join(conllu(row["text"]) for row in known)
        (folder / f"{'dev' if split == 'valid' else split}.conllu").write_text(tree)


def conllu(text: str) -> str:
    tags = ("DET", "NOUN", "VERB", "ADP", "DET", "NOUN", "PUNCT")
    words = enumerate(zip(text.split(), tags, strict=True), 1)
    return "".join(f"{n}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_\n" for n, (word, tag) in words) + "\n"


def write_inputs(folder: Path) -> None:
    lines = "".join(sentence(number) + "\n" for number in range(3))
    for name in ("new.txt", "sentences.txt", "prompts.txt", "new.en", "text.de", "input.txt"):
        (folder / name).write_text(lines)
    (folder / "pairs.txt").write_text("".join(f"{sentence(number)}\t{sentence(1)}\n" for number in range(3)))
    (folder / "de-en.tsv").write_text("Hund\tdog\n")
    for name in ("photo.jpg", "rose.jpg", "new.png", "cat.jpg"):
        picture(1).save(folder / name)
    for name in ("more-photos", "folder-of-photos", "holiday", "new"):
        (folder / name).mkdir()
        for number in range(2):
            picture(number).save(folder / name / f"{number}.jpg")
    write_signs(folder / "examples", range(3), 2)
    write_splits(folder / "signs")
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": [sentence(number) for number in range(4)]}), folder / "corpus.parquet")


def tables(kind: str, **more: Any) -> dict[str, Any]:
    return {**{split: [f"{split}.{kind}"] for split in SPLITS}, **more}


def recipes() -> dict[str, dict[str, Any]]:
    """A tiny recipe for every kind of run, in the order in which they need one another."""
    pictures = {split: f"{split}.tsv" for split in SPLITS}
    folders = {split: f"pictures/{split}" for split in SPLITS}
    trees = dict(train=["train.conllu"], valid=["dev.conllu"], test=["test.conllu"])
    signs = {split: f"signs/{split}" for split in SPLITS}
    eye = dict(backbone="tiny_cnn", image_size=32)
    blocks = ["att 16 8", "tc 16", "att 16 16"]
    reader = dict(preset="snail:tiny", image_size=SIDE, layers=2, embedding_size=16, blocks=blocks)
    sizes = dict(size=8, hidden_size=8, heads=2, encoder_layers=1, decoder_layers=1)
    return {
        "translator": dict(data=tables("tsv"), model=dict(preset="transformer:tiny", **sizes)),
        "classifier": dict(task="classify", data=tables("tsv"), model=dict(preset="han:tiny")),
        "pairs": dict(
            task="classify",
            data=tables("tsv", text_column="premise", second_column="hypothesis", tokenizer="bert", vocabulary=200),
            model=dict(preset="bert-classifier:tiny", size=16, hidden_size=16),
        ),
        "tagger": dict(task="tag", data=trees, model=dict(preset="tagger:tiny")),
        "story": dict(
            task="language-model",
            data=tables("txt", tokenizer="bytes", vocabulary=280, chunk=32, context=0),
            model=dict(preset="gpt2:tiny", size=16, hidden_size=16, layers=1),
        ),
        "gaps": dict(
            task="mask-fill", data=tables("txt", vocabulary=200, max_length=32), model=dict(preset="bert:tiny")
        ),
        "elmo": dict(task="bidirectional-lm", data=tables("txt"), model=dict(preset="elmo:tiny")),
        "pictures": dict(
            task="classify-images",
            data=folders,
            model=dict(preset="vit:ti16", image_size=32, size=16, hidden_size=16, heads=2, layers=1),
        ),
        "eyes": dict(task="regions", data=dict(**pictures, frequent=5), model=dict(preset="image-words:small", **eye)),
        "captioner": dict(
            task="caption",
            start="trained/eyes",
            data=dict(**pictures, vocabulary=50),
            model=dict(preset="attend-tell:small", size=16, embedding_size=16, alignment_size=8, **eye),
        ),
        "matcher": dict(task="few-shot", data=dict(**signs, ways=3), model=reader),
        "machine": dict(task="algorithm", data=dict(longest=3, test_lengths=[2]), model=dict(preset="ntm:small")),
        "player": dict(task="bandit", data=dict(arms=2, pulls=4), model=dict(preset="snail-policy:small")),
    }


def build(folder: Path) -> Path:
    """Files and runs; the current folder must be this one, as recipes name files as a reader would."""
    write_tables(folder)
    write_inputs(folder)
    for kind, values in recipes().items():
        runner.train(from_values({**values, "training": QUICK}, kind), folder / "trained" / kind)
    export_run("trained/story", "hf", "my-checkpoint")
    return folder


def settle(world: Path, folder: Path, leave_out: set[str]) -> None:
    """A copy of the world, with the runs under the names that the documentation gives them."""
    shutil.copytree(world, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("trained"))
    for kind, names in NAMES.items():
        for name in set(names) - leave_out:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(world / "trained" / kind, folder / name, symlinks=True)
