"""What is exported: a loaded run, by what its family needs of it; and the inputs it is compared on."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.tokenizer import NO_TOKEN
from regard.decoding.generate import padded
from regard.decoding.stepwise import decode_stepwise, greedy
from regard.errors import RegardError
from regard.families import home
from regard.tasks.continuation import Continuation

TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "A man in an orange hat is looking at something .",
    "Two dogs play in the snow; one of them barks at 12 birds.",
    "Ein Mann fährt mit einem roten Fahrrad über die Straße.",
    "¿Dónde está el gato negro?",
    "to be",
)
LONGEST = 48  # tokens of a compared row
NEW_TOKENS = 16  # said in greedy comparisons
PICTURES = 3


@dataclass(frozen=True)
class Subject:
    """A loaded run: its verbs, and the family its model is of."""

    run: str
    loaded: Any

    @property
    def family(self) -> str:
        return str(json.loads(self.loaded.config_json).get("family"))

    @property
    def model(self) -> Any:
        return self.loaded.model

    @property
    def config(self) -> Any:
        return self.model.config

    @property
    def tokenizer(self) -> Any:
        return self.loaded.tokenizer

    @property
    def module(self) -> Any:
        """The file of the model, with its public tables."""
        return home(self.family)

    @property
    def labels(self) -> list[str]:
        known = getattr(self.loaded, "labels", None) or getattr(self.loaded, "tags", None)
        return list(known or (f"LABEL_{number}" for number in range(self.config.labels)))

    @property
    def start(self) -> int:
        """The token that begins a text; where the vocabulary has none, the end of the text before it."""
        start = int(self.tokenizer.start)
        return int(self.tokenizer.end) if start == NO_TOKEN else start

    @property
    def pad(self) -> int:
        """The token that fills short rows; -1 if the vocabulary has none."""
        return int(self.config.pad)

    def vocabulary(self) -> list[str]:
        """Every token by its number."""
        return list(self.tokenizer.pieces(range(self.config.vocabulary)))

    def never(self) -> list[int]:
        """Tokens that no text contains."""
        return sorted({int(token) for token in self.loaded.vocabulary.never if token != NO_TOKEN})

    def rows(self, longest: int = LONGEST) -> list[list[int]]:
        """The texts as tokens, of different lengths; what a vocabulary cannot spell is left out."""
        most = min(longest, LONGEST)
        rows = [row[:most] for row in self.tokenizer.encode_all(TEXTS) if row]
        if not rows:
            raise RegardError(f"{self.run}: its tokenizer finds no token in plain sentences; nothing can be compared")
        return rows

    def framed(self) -> list[list[int]]:
        """The texts, and a pair of them, between [CLS] and [SEP]."""
        start, end = self.tokenizer.start, self.tokenizer.end
        room = self.config.max_length
        rows = [[start, *row, end] for row in self.rows(room - 2)]
        half = max(1, (room - 3) // 2)
        return [*rows, [start, *rows[0][1:-1][:half], end, *rows[-1][1:-1][:half], end]]

    def pairs(self) -> tuple[list[list[int]], list[list[int]]]:
        """Sources with their ends, and other texts as what was said so far."""
        rows = self.rows(self.config.max_length - 1)
        return [[*row, self.tokenizer.end] for row in rows], [[self.tokenizer.start, *row] for row in rows[::-1]]

    def prompts(self, longest: int) -> list[list[int]]:
        """What a language model is told to go on from."""
        if self.tokenizer.keeps_blanks:
            return self.rows(longest)
        return [[self.tokenizer.end, *row] for row in self.rows(max(1, longest - 1))]

    def greedy(self, sources: list[list[int]], new: int, decoder: Any = None) -> list[list[int]]:
        """The most probable tokens one after the other, by our model or by another decoder in its place."""
        if decoder is None:
            decoder = self.going_on(self.model) if self.family == "gpt2" else self.model
        with torch.inference_mode():
            found = decode_stepwise(
                decoder, padded(sources, self.pad), self.loaded.vocabulary, [new] * len(sources), greedy
            )
        return [hypotheses[0].tokens for hypotheses in found]

    def going_on(self, model: Any) -> Continuation:
        """A language model as a decoder."""
        return Continuation(model, self.tokenizer.start, self.pad)

    def pixels(self) -> NDArray[np.uint8]:
        """Pictures of noise, in the shape the model reads."""
        draw = np.random.default_rng(0)
        preprocessing = self.loaded.preprocessing
        shape = (PICTURES, preprocessing.channels, *preprocessing.shape)
        return draw.integers(0, 256, shape, dtype=np.uint8)

    def images(self) -> Tensor:
        images: Tensor = self.loaded.preprocessing.normalise(torch.from_numpy(self.pixels()))
        return images


@dataclass(frozen=True)
class Batch:
    """Rows of tokens side by side: what others call input_ids and attention_mask, padded on the right."""

    tokens: Tensor
    mask: Tensor

    def real(self, values: Any) -> list[NDArray[Any]]:
        """What was computed for the real tokens, row by row."""
        found = np.asarray(values)
        return [row[known] for row, known in zip(found, self.mask.numpy(), strict=True)]


def batch(rows: list[list[int]], filler: int = 0) -> Batch:
    tokens = padded(rows, -1)
    return Batch(tokens.masked_fill(tokens < 0, max(filler, 0)), tokens >= 0)
