"""The verb of a trained tagger: tag."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.data.batching import in_order_of_length
from regard.data.conllu import TaggedSentence
from regard.data.spelt import Speller
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.tasks.tag import WORDS_AT_ONCE, inputs
from regard.tasks.tag_scores import TagScores, tag_scores
from regard.tasks.verbs import TAGS, TOKENIZER, Verbs, as_json
from regard.views.look import Look, Shown
from regard.views.maps import AttentionMap

Finished = Callable[[int], None] | None
Sentence = str | Sequence[str]


@dataclass(frozen=True)
class Tagged(Shown):
    """A sentence: its words, their tags, how probable each tag is and, when somebody looks, what was attended to."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    attend: Callable[[str], tuple[AttentionMap, ...]] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def attention(self) -> tuple[AttentionMap, ...]:
        """Between the tokens of the sentence; none if the tagger does not attend."""
        return () if self.attend is None or not self.words else self.attend(" ".join(self.words))

    @property
    def text(self) -> str:
        """As people write it: The/DET dog/NOUN barks/VERB."""
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def told(self) -> str:
        return self.text

    def look(self) -> Look | None:
        return Look(self.text, self.attention, " ".join(self.words)) if self.attention else None

    def heading(self) -> str:
        """Each word with its tag above it."""
        words = (
            f'<ruby title="{chance:.1%}">{html.escape(word)}<rt>{html.escape(tag)}</rt></ruby>'
            for word, tag, chance in zip(self.words, self.tags, self.probabilities, strict=True)
        )
        return f'<p style="font-size: 120%; line-height: 2">{" ".join(words)}</p>'


class TagsWords(Verbs):
    """What taggers share, whatever they read: the likeliest tag of every word."""

    tokenizer: Tokenizer
    tags: tuple[str, ...]

    def tag(self, sentences: Sentence | Sequence[Sentence], *, finished: Finished = None) -> list[Tagged]:
        """One result per sentence, in order. A sentence is a text with blanks between its words, or a list of words."""
        given = [sentences] if isinstance(sentences, str) else sentences
        words = [tuple(each.split() if isinstance(each, str) else each) for each in given]
        return [self._tagged(*known) for known in zip(words, self.probabilities(words, finished), strict=True)]

    def _tagged(self, words: tuple[str, ...], chances: NDArray[np.float64]) -> Tagged:
        tags = tuple(self.tags[number] for number in chances.argmax(-1))
        return Tagged(words, tags, tuple(chances.max(-1).tolist()), getattr(self, "look", None))

    def probabilities(self, sentences: Sequence[Sequence[str]], finished: Finished = None) -> list[NDArray[np.float64]]:
        """For each sentence [words, tags]."""
        raise NotImplementedError

    def files(self) -> dict[str, str]:
        return super().files() | {TOKENIZER: self.tokenizer.to_json(), TAGS: as_json({"tags": self.tags})}


class Tagger(TagsWords):
    """`tag` the words of sentences; `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, tags: Sequence[str], config_json: str = "{}"):
        super().__init__(model, config_json)
        self.tokenizer, self.tags = tokenizer, tuple(tags)
        self.speller = Speller(tokenizer, self.model.config.max_chars)

    def probabilities(self, sentences: Sequence[Sequence[str]], finished: Finished = None) -> list[NDArray[np.float64]]:
        found = [np.zeros((len(words), len(self.tags))) for words in sentences]
        for items in in_order_of_length([len(words) + 2 for words in sentences], WORDS_AT_ONCE):
            with torch.inference_mode():
                logits = self.model(*inputs([sentences[item] for item in items], self.speller, self.device))
            chances = logits.cpu().double().softmax(-1).numpy()
            for row, item in enumerate(items):
                found[item] = chances[row, 1 : 1 + len(sentences[item])]
            if finished is not None:
                finished(len(items))
        return found

    def evaluate(self, sentences: Sequence[TaggedSentence], finished: Finished = None) -> TagScores:
        """Against the right tags; a tag that was never learnt is never said."""
        if not sentences:
            raise RegardError("there is no sentence to be scored on; check the data section")
        chances = np.concatenate(self.probabilities([known.words for known in sentences], finished))
        unknown = self.tokenizer.unknown
        known = [number != unknown for each in sentences for number in self.speller.numbers(each.words)]
        return tag_scores(chances, self.tags, sentences, np.array(known))
