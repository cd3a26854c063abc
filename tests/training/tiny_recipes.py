"""A tiny recipe for every task, with data of its own that is made here. Nothing is random but the first weights."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

WORDS = [
    "the",
    "a",
    "small",
    "old",
    "red",
    "dog",
    "cat",
    "bird",
    "child",
    "sees",
    "likes",
    "finds",
    "sings",
    "runs",
    "near",
    "under",
    "house",
    "tree",
]
TRAINING: dict[str, Any] = {
    "steps": 5,
    "batch_tokens": 128,
    "warmup": 2,
    "validate_every": 3,
    "log_every": 1,
    "learning_rate": 0.003,
    "epsilon": 1.0e-4,  # Adam divides by the gradient's size: where that is rounding alone, a step would be too
    "device": "cpu",
}


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 9)))


def write_texts(folder: Path) -> None:
    draw = random.Random(1)
    for split, count in (("train", 60), ("valid", 12)):
        sentences = [sentence(draw) for _ in range(count)]
        folder.joinpath(f"{split}.txt").write_text("\n".join(f"{line} ." for line in sentences) + "\n")
        pairs = "".join(f"{line}\t{' '.join(reversed(line.split()))}\n" for line in sentences)
        folder.joinpath(f"{split}.tsv").write_text("source\ttarget\n" + pairs)
        labelled = [{"text": f"{line}. {line}.", "label": "dog" if "dog" in line else "none"} for line in sentences]
        folder.joinpath(f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
        trees = ["".join(tagged(number, word) for number, word in enumerate(line.split(), 1)) for line in sentences]
        folder.joinpath(f"{split}.conllu").write_text("\n".join(trees) + "\n")


def tagged(number: int, word: str) -> str:
    tag = "VERB" if word.endswith("s") else "NOUN"
    return f"{number}\t{word}\t{word}\t{tag}\t_\t_\t0\troot\t_\t_\n"


def write_pictures(folder: Path) -> None:
    draw = np.random.default_rng(2)
    rows = ["file\tcaption"]
    for label in range(7):
        for number in range(8):
            pixels = draw.integers(0, 120, (16, 16, 3), dtype=np.uint8)
            pixels[label * 2 : label * 2 + 3] += 120
            place = folder / ("pictures" if label < 4 else "others") / f"kind{label}" / f"{number}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place)
            rows.append(f"{place.relative_to(folder)}\ta {WORDS[label + 3]} dog near the {WORDS[label + 8]}")
    folder.joinpath("captions.tsv").write_text("\n".join(rows) + "\n")


def sections(folder: Path) -> dict[str, dict[str, Any]]:
    """Task, data, model and changes of the training of each recipe."""
    texts = {split: [str(folder / f"{split}.txt")] for split in ("train", "valid")}
    tables = {split: [str(folder / f"{split}.jsonl")] for split in ("train", "valid")}
    pictures = {"train": str(folder / "pictures"), "valid": str(folder / "pictures")}
    captions = {"train": str(folder / "captions.tsv"), "valid": str(folder / "captions.tsv")}
    small = {"size": 16, "hidden_size": 32, "heads": 2}
    return {
        "transformer": {
            "task": "translate",
            "data": {split: [str(folder / f"{split}.tsv")] for split in ("train", "valid")} | {"vocabulary": 60},
            "model": {"preset": "transformer:tiny", **small, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0},
        },
        "luong": {
            "task": "translate",
            "data": {split: [str(folder / f"{split}.tsv")] for split in ("train", "valid")} | {"vocabulary": 60},
            "model": {"preset": "luong:small", "size": 16, "embedding_size": 16, "layers": 2, "dropout": 0.0},
        },
        "han": {
            "task": "classify",
            "data": {**tables, "vocabulary": 60},
            "model": {"preset": "han:tiny", "dropout": 0.0},
        },
        "bert-classifier": {
            "task": "classify",
            "data": {**tables, "vocabulary": 60, "tokenizer": "bert", "max_length": 32},
            "model": {"preset": "bert-classifier:tiny", **small, "max_length": 32, "dropout": 0.0},
        },
        "gpt2": {
            "task": "language-model",
            "data": {**texts, "vocabulary": 60, "chunk": 16, "context": 0},
            "model": {"preset": "gpt2:tiny", **small, "layers": 2, "context": 16, "dropout": 0.0},
            "training": {"optimizer": "muon"},
        },
        "lstmn": {
            "task": "language-model",
            "data": {**texts, "vocabulary": 60, "chunk": 12, "context": 4},
            "model": {"preset": "lstmn:tiny", "size": 16, "embedding_size": 16, "dropout": 0.0},
        },
        "bert": {
            "task": "mask-fill",
            "data": {**texts, "vocabulary": 60, "tokenizer": "bert", "max_length": 32},
            "model": {"preset": "bert:tiny", **small, "max_length": 32, "dropout": 0.0},
        },
        "elmo": {
            "task": "bidirectional-lm",
            "data": {**texts, "vocabulary": 60},
            "model": {"preset": "elmo:tiny", "size": 8, "cell_size": 16, "dropout": 0.0},
        },
        "tagger": {
            "task": "tag",
            "data": {split: [str(folder / f"{split}.conllu")] for split in ("train", "valid")} | {"vocabulary": 60},
            "model": {"preset": "tagger:tiny", "dropout": 0.0},
        },
        "vit": {
            "task": "classify-images",
            "data": pictures,
            "model": {"preset": "vit:grey28", **small, "layers": 2, "image_size": 16, "channels": 3},
        },
        "snail": {
            "task": "few-shot",
            "data": {"train": str(folder / "pictures"), "valid": str(folder / "others"), "ways": 3, "drawings": False},
            "model": {"preset": "snail:tiny", "image_size": 16, "channels": 3},
            "training": {"batch_tokens": 60},
        },
        "image-words": {
            "task": "regions",
            "data": {**captions, "frequent": 3},
            "model": {"preset": "image-words:small", "image_size": 32, "dropout": 0.0},
            "training": {"batch_tokens": 32},
        },
        "attend-tell": {
            "task": "caption",
            "start": str(folder / "runs" / "image-words" / "alone"),  # trained before
            "data": {**captions, "vocabulary": 40},
            "model": {
                "preset": "attend-tell:small",
                "image_size": 32,
                "size": 16,
                "embedding_size": 16,
                "dropout": 0.0,
            },
        },
        "ntm": {
            "task": "algorithm",
            "data": {"name": "copy", "bits": 3, "longest": 4, "test_lengths": [4]},
            "model": {"preset": "ntm:paper", "cells": 8, "cell_size": 6, "controller_size": 12},
            "training": {"optimizer": "rmsprop", "clip_norm": None, "clip_value": 0.5},
        },
        "bandit": {
            "task": "bandit",
            "data": {"arms": 3, "pulls": 5},
            "model": {"preset": "snail-policy:small"},
            "training": {"batch_tokens": 60},
        },
    }


def write_recipes(folder: Path) -> dict[str, Path]:
    """Data and recipes, in a folder; by name."""
    write_texts(folder)
    write_pictures(folder)
    found = {}
    for name, recipe in sections(folder).items():
        training = {**TRAINING, **recipe.get("training", {})}
        found[name] = folder / f"{name}.yaml"
        found[name].write_text(yaml.safe_dump({**recipe, "training": training}))
    return found
