"""The verb of an encoder that labels every token: `tag` words, each by its first piece."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.data.batching import in_order_of_length
from regard.data.documents import WordEncoder
from regard.data.frames import framed
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import evaluating
from regard.layers.packed import packed
from regard.tasks.mask_filler import TOKENS_AT_ONCE, Finished, TextEmbedder
from regard.tasks.tagger import TagsWords

Part = tuple[int, NDArray[np.int64], NDArray[np.int64]]  # of which sentence, its row, where its words begin


class TokenTagger(TagsWords, TextEmbedder):
    """`tag` the words of sentences, `embed` them, `look` at them; `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, tags: Sequence[str], config_json: str = "{}"):
        super().__init__(model, tokenizer, config_json)
        self.tags = tuple(tags)
        self.encoder = WordEncoder(tokenizer)

    def probabilities(self, sentences: Sequence[Sequence[str]], finished: Finished = None) -> list[NDArray[np.float64]]:
        """For each sentence [words, tags]; one that is longer than the model reads is read in parts."""
        parts = [part for number, words in enumerate(sentences) for part in self._parts(number, words)]
        rows: list[NDArray[np.float64]] = [np.zeros((0, len(self.tags)))] * len(parts)
        with evaluating(self.model), packed(self.model), torch.inference_mode():
            for items in in_order_of_length([len(row) for _, row, _ in parts], TOKENS_AT_ONCE) if parts else ():
                logits = self.model(self._batch([parts[item][1] for item in items]))
                chances = logits.cpu().double().softmax(-1).numpy()
                for place, item in enumerate(items):
                    rows[item] = chances[place, parts[item][2]]
                if finished is not None:
                    finished(len(items))
        found: list[list[NDArray[np.float64]]] = [[np.zeros((0, len(self.tags)))] for _ in sentences]
        for (owner, _, _), row in zip(parts, rows, strict=True):
            found[owner].append(row)
        return [np.concatenate(several) for several in found]

    def _parts(self, number: int, words: Sequence[str]) -> Iterator[Part]:
        """As many words at a time as there is room for; of a word longer than that, its beginning."""
        room = self.max_length - 2
        pieces = [tokens[:room] for tokens in self.encoder.tokens(words)]
        first = 0
        while first < len(pieces):
            ends = np.cumsum([len(tokens) for tokens in pieces[first : first + room]])
            count = int((ends <= room).sum())
            row = framed(list(chain.from_iterable(pieces[first : first + count])), None, *self._marks)
            yield number, row, 1 + np.concatenate([[0], ends[: count - 1]]).astype(np.int64)
            first += count

    @property
    def _marks(self) -> tuple[int, int]:
        return self.tokenizer.start, self.tokenizer.end
