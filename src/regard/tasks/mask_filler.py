"""The verbs of a trained encoder: fill gaps, embed texts, look at what each token looks at."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import record_own
from regard.data.batching import in_order_of_length
from regard.data.documents import padded_rows
from regard.data.frames import Frame, Text, encode_around
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.layers.packed import packed
from regard.layers.pooling import POOLINGS
from regard.tasks.language_verbs import own_words
from regard.tasks.verbs import READING, TOKENIZER, Verbs, as_json
from regard.views import AttentionMap, display
from regard.views.look import Look, Shown

MASK = "[MASK]"  # how a gap is written, whatever the vocabulary calls it
TOKENS_AT_ONCE = 1 << 11  # padded tokens read together; changes speed, never results
Finished = Callable[[int], None] | None


@dataclass(frozen=True)
class Guess:
    """A word for a gap."""

    word: str
    probability: float


@dataclass(eq=False)
class Filled(Shown):
    """A text with gaps: the best words for each, and, when somebody looks, what was attended to."""

    source: str
    text: str  # with the best word in every gap
    guesses: tuple[tuple[Guess, ...], ...]  # for each gap, best first
    score: float  # log probability of the best words, each by itself
    filler: "MaskFiller" = field(repr=False)

    @cached_property
    def attention(self) -> tuple[AttentionMap, ...]:
        """Of the text with its gaps."""
        return self.filler.look(self.source)

    def told(self) -> str:
        return f"{self.text} ({self.score:.2f})"

    def look(self) -> Look:
        return Look(self.text, self.attention, self.source, self.text, self.score)

    def heading(self) -> str:
        """The words for each gap, with their probabilities."""
        gaps = (", ".join(f"{known.word} {known.probability:.1%}" for known in gap) for gap in self.guesses)
        return "<ol>" + "".join(f"<li>{html.escape(gap)}</li>" for gap in gaps) + "</ol>"


class TextEmbedder(Verbs):
    """`embed` texts and `look` at them: what every encoder can do. `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, config_json: str = "{}", max_length: int | None = None):
        super().__init__(model, config_json)
        for role in ("start", "end"):  # [CLS] and [SEP], which stand around every text
            tokenizer.required(role)
        self.tokenizer = tokenizer
        self.limit = max_length  # tokens of a row, if fewer than the model has positions

    @property
    def max_length(self) -> int:
        places = int(self.model.config.max_length)
        return places if self.limit is None else min(places, self.limit)

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        finished: Finished = None,
    ) -> NDArray[np.float32]:
        """One vector per text [texts, size]; `pooling` is mean (of all tokens) or cls, else as the model was built.

        Of a text longer than `max_length` tokens the beginning is read. `normalize` gives vectors of length one; None
        is as the model was built.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        normalize = self.model.config.normalize if normalize is None else normalize
        pool = POOLINGS.get(pooling or self.model.config.pooling)
        if pool is None:
            raise UsageError(f"there is no pooling called {pooling!r}: choose one of {', '.join(POOLINGS)}")
        rows = self.rows(texts, cut=True)
        found = np.zeros((len(texts), self.model.config.size), dtype=np.float32)
        with evaluating(self.model), packed(self.model), torch.inference_mode():
            for items in in_order_of_length([len(row) for row in rows], TOKENS_AT_ONCE) if rows else ():
                tokens = self._batch([rows[item] for item in items])
                states, _ = self.model.encoder(tokens)
                vectors = pool(states, tokens != self.tokenizer.pad)
                vectors = nn.functional.normalize(vectors, dim=-1) if normalize else vectors
                found[items] = vectors.float().cpu().numpy()
                if finished is not None:
                    finished(len(items))
        return found

    def look(self, text: Text, *, layers: Any = None, heads: Any = None) -> tuple[AttentionMap, ...]:
        """What each token of a text, or of a pair of texts, looks at: one map per layer."""
        (row,) = self.rows([text])
        if len(row) <= 2:
            raise UsageError("there is nothing to look at in an empty text")
        with evaluating(self.model), torch.inference_mode(), record_own(self.model, layers=layers, heads=heads) as tape:
            self.model.encoder(self._batch([row]))
        pieces = tuple(self.tokenizer.pieces(row.tolist()))
        words = tuple(own_words(self.tokenizer.words(row.tolist())))
        maps = []
        for name, weights in tape.items():
            layer = self.model.attention_layer(name)
            title = f"self-attention, layer {layer}"
            matrix = weights[0].float().cpu().numpy()
            maps.append(AttentionMap(title, "encoder", layer, matrix, pieces, pieces, words, words))
        return tuple(maps)

    def rows(self, texts: Sequence[Text], cut: bool = False) -> list[NDArray[np.int64]]:
        """[CLS] text [SEP], or a pair, with a gap for every [MASK]; too long a row is cut or else refused."""
        apart = [(text,) if isinstance(text, str) else text for text in texts]
        spelling = MASK if self.tokenizer.mask >= 0 else None
        encoded = encode_around(self.tokenizer, chain.from_iterable(apart), spelling, self.tokenizer.mask)
        return [self._framed([next(encoded) for _ in text], cut) for text in apart]

    def _framed(self, parts: list[list[int]], cut: bool) -> NDArray[np.int64]:
        row, was_cut = Frame(self.tokenizer, self.max_length).fit(parts)
        if was_cut and not cut:
            count, room = sum(map(len, parts)), len(row.tokens) - len(parts) - 1
            raise UsageError(f"the text has {count} tokens but the model reads {room} at most: shorten it")
        return row.tokens.astype(np.int64)

    def _batch(self, rows: Sequence[NDArray[np.int64]]) -> Tensor:
        return torch.from_numpy(padded_rows(rows, self.tokenizer.pad)).to(self.device)

    def files(self) -> dict[str, str]:
        files = super().files() | {TOKENIZER: self.tokenizer.to_json()}
        return files if self.limit is None else {**files, READING: as_json({"max_length": self.limit})}


class MaskFiller(TextEmbedder):
    """`fill` the gaps of texts, `embed` them, `look` at them; `regard.load` makes one."""

    def fill(self, texts: str | Sequence[str], *, top: int = 5) -> list[Filled]:
        """For every [MASK] of each text the `top` words, best first."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        if top < 1:
            raise UsageError(f"top is {top} but must be at least 1")
        self.tokenizer.required("mask")
        rows = self.rows(texts)
        for text, row in zip(texts, rows, strict=True):
            if not (row == self.tokenizer.mask).any():
                shown = text if len(text) <= 60 else text[:57] + "..."
                raise UsageError(f"there is no {MASK} to fill in {shown!r}")
        found: list[Filled | None] = [None] * len(texts)
        with evaluating(self.model), packed(self.model), torch.inference_mode():
            for items in in_order_of_length([len(row) for row in rows], TOKENS_AT_ONCE) if rows else ():
                tokens = self._batch([rows[item] for item in items])
                states, _ = self.model.encoder(tokens)
                gaps = tokens == self.tokenizer.mask
                chances = self.model.logits(states[gaps]).float().log_softmax(-1)
                best = chances.topk(min(top, chances.shape[-1]), dim=-1)
                owners = gaps.nonzero()[:, 0].tolist()
                for place, item in enumerate(items.tolist()):
                    mine = [gap for gap, owner in enumerate(owners) if owner == place]
                    found[item] = self._filled(texts[item], best.values[mine], best.indices[mine])
        return [result for result in found if result is not None]

    def _filled(self, text: str, scores: Tensor, tokens: Tensor) -> Filled:
        words = [[display(piece) for piece in self.tokenizer.pieces(row)] for row in tokens.tolist()]
        guesses = tuple(tuple(map(Guess, *gap)) for gap in zip(words, scores.exp().tolist(), strict=True))
        said = text
        for best in guesses:
            said = said.replace(MASK, best[0].word, 1)
        return Filled(text, said, guesses, float(scores[:, 0].sum()), self)
