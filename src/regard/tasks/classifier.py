"""The verb: a trained model, its tokenizer and its labels, ready to classify and to be looked into."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import attentions, record_own
from regard.data.documents import Document, Encoded, WordEncoder, read_document
from regard.data.frames import Frame, Text
from regard.data.token_documents import cut
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError
from regard.layers.packed import packed
from regard.tasks.classify import Reading, in_batches, model_inputs
from regard.tasks.language_verbs import own_words
from regard.tasks.verbs import LABELS, READING, TOKENIZER, Verbs, as_json
from regard.views import AttentionMap
from regard.views.document import DocumentMap
from regard.views.look import Look, Shown

TEXTS_AT_ONCE = 2048  # encoded together; changes memory, never results


@dataclass(frozen=True)
class Weighed:
    """A part of a text and the attention it got: a sentence with its words, or a word."""

    text: str
    weight: float
    words: tuple["Weighed", ...] = field(default=(), repr=False)


@dataclass(eq=False)
class Classified(Shown):
    """One text: its label, the probability of every label, and, when somebody looks, what was attended to.

    A text without a word has no label: it is empty, and so are the probabilities.
    """

    text: str
    label: str
    probabilities: dict[str, float]
    classifier: "Classifier" = field(repr=False)
    second: str | None = None  # the other text of a pair

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities.get(self.label, 0.0)

    @cached_property
    def attention(self) -> DocumentMap | tuple[AttentionMap, ...]:
        """The weights of all sentences and words, or, of a model that reads one row of tokens, between all tokens."""
        if self.classifier.reads == "documents":
            return self.classifier.look(self.text)
        return self.classifier.look_tokens(self.text if self.second is None else (self.text, self.second))

    @property
    def sentences(self) -> tuple[Weighed, ...]:
        """The sentences in their order, each with its weight and its weighed words."""
        document = self.attention if isinstance(self.attention, DocumentMap) else self.classifier.look(self.text)
        return tuple(
            Weighed(
                self.text[spans[0][0] : spans[-1][1]],
                float(weight),
                tuple(Weighed(self.text[a:b], float(paid)) for (a, b), paid in zip(spans, words, strict=True)),
            )
            for spans, weight, words in zip(
                document.sentences, document.sentence_weights, document.word_weights, strict=True
            )
        )

    def told(self) -> str:
        if not self.label:
            return "a text without a word"
        return f"{self.label} ({self.probability:.1%}): {self._read}"

    def look(self) -> Look | None:
        if not self.label:
            return None
        said = f"{self.label} ({self.probability:.1%})"
        return Look(said, self.attention, self._read, said, self.probability)

    @property
    def _read(self) -> str:
        return self.text if self.second is None else f"{self.text} / {self.second}"


class Classifier(Verbs):
    """`classify` texts, `look` at what decided; `regard.load` makes one."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        reading: Reading | None = None,
        config_json: str = "{}",
    ):
        super().__init__(model, config_json)
        self.tokenizer, self.labels = tokenizer, tuple(labels)
        self.reading = Reading() if reading is None else reading
        self.encoder = WordEncoder(tokenizer)
        self.reads: str = self.model.reads
        self.frame = Frame(tokenizer, self.reading.max_length) if getattr(model, "frames", False) else None

    def classify(
        self, texts: str | Sequence[Text], *, finished: Callable[[int], None] | None = None
    ) -> list[Classified]:
        """One result per text, or per pair of texts, in order."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        results: list[Classified] = []
        for first in range(0, len(texts), TEXTS_AT_ONCE):
            part = texts[first : first + TEXTS_AT_ONCE]
            results += [self._result(*pair) for pair in zip(part, self.probabilities(part, finished), strict=True)]
        return results

    def _result(self, text: Text, row: NDArray[np.float64]) -> Classified:
        first, second = (text, None) if isinstance(text, str) else text
        if np.isnan(row).any():
            return Classified(first, "", {}, self, second)
        chances = dict(zip(self.labels, row.tolist(), strict=True))
        return Classified(first, self.labels[int(row.argmax())], chances, self, second)

    def probabilities(
        self, texts: Sequence[Text], finished: Callable[[int], None] | None = None
    ) -> NDArray[np.float64]:
        """[texts, labels]; a text without a word has a row of NaN."""
        documents = [self.row(text) for text in texts]
        found = np.full((len(texts), len(self.labels)), np.nan)
        full = np.array([index for index, known in enumerate(documents) if len(known.tokens)], dtype=np.int64)
        if len(full) == 0:
            return found
        shapes = np.array([(len(documents[i].lengths), documents[i].lengths.max()) for i in full])
        counts = np.array([len(documents[i].tokens) for i in full])
        with packed(self.model), torch.inference_mode():
            for items in in_batches(self.reads, shapes, counts):
                chosen = full[items]
                logits = self.model(self._inputs([documents[index] for index in chosen]))
                found[chosen] = logits.double().softmax(-1).cpu().numpy()
                if finished is not None:
                    finished(len(chosen))
        return found

    def read(self, text: str) -> Document:
        """The sentences and words of a text."""
        return read_document(text, self.reading.max_words)

    def row(self, text: Text) -> Encoded:
        """A text, or a pair of texts, as the model reads it."""
        if self.frame is not None:
            return self.frame.encode(*((text,) if isinstance(text, str) else text))[0]
        if not isinstance(text, str):
            raise UsageError("this classifier reads one text, not a pair of them")
        return self.encode(self.read(text))

    def encode(self, document: Document) -> Encoded:
        encoded = self.encoder.encode(document.words())
        return cut(encoded, self.reading.max_length) if self.reads == "tokens" else encoded

    def _inputs(self, documents: Sequence[Encoded]) -> torch.Tensor:
        return model_inputs(self.reads, documents, self.tokenizer.pad).to(self.device)

    def look(self, text: str) -> DocumentMap:
        """What the label rests on: the weight of every sentence, and of every word in its sentence."""
        if self.reads != "documents":
            raise UsageError("this classifier reads one row of tokens and has no sentences to weigh; use look_tokens")
        document = self.read(text)
        if not document.sentences:
            raise UsageError("there is nothing to look at in a text without a word")
        names = {self.model.attention_kind(name): name for name, _ in attentions(self.model)}
        if not names:
            raise UsageError("this classifier pools without attention: there is nothing to look at")
        with torch.inference_mode(), record_own(self.model) as tape:
            logits = self.model(self._inputs([self.encode(document)]))[0]
        # A long document is read in parts, one recorded below the other; [rows, heads, parts, words] in their order:
        words = tape[names["words"]][:, 0].transpose(0, 1).flatten(0, 1).cpu().numpy()
        chances = logits.double().softmax(-1).cpu().numpy()
        return DocumentMap(
            text=text,
            sentences=document.sentences,
            sentence_weights=tape[names["sentences"]][0, 0, 0].cpu().numpy(),
            word_weights=tuple(
                self._word_weights(sentence, row)
                for sentence, row in zip(document.words(), words[: len(document.sentences)], strict=True)
            ),
            label=self.labels[int(chances.argmax())],
            probability=float(chances.max()),
        )

    def _word_weights(self, words: Sequence[str], row: NDArray[np.floating]) -> NDArray[np.float64]:
        """The weight of a word is the sum over its tokens."""
        counts = np.array([len(tokens) for tokens in self.encoder.tokens(words)])
        return np.add.reduceat(row[: counts.sum()].astype(np.float64), counts.cumsum() - counts)

    def look_tokens(self, text: Text) -> tuple[AttentionMap, ...]:
        """Every attention of a model that reads one row of tokens, as maps from token to token."""
        encoded = self.row(text)
        if not len(encoded.tokens):
            raise UsageError("there is nothing to look at in a text without a word")
        with torch.inference_mode(), record_own(self.model) as tape:
            self.model(self._inputs([encoded]))
        pieces = tuple(self.tokenizer.pieces(encoded.tokens.tolist()))
        words = tuple(own_words(self.tokenizer.words(encoded.tokens.tolist())))
        over_tokens = getattr(self.model, "over_tokens", lambda weights: weights)
        maps = []
        for number, name in enumerate(tape, 1):
            weights = over_tokens(tape[name])[0].float().cpu().numpy()
            if weights.shape[1:] != (len(pieces), len(pieces)):
                raise UsageError(f"{name} does not weigh each token against each: its weights have {weights.shape}")
            maps.append(AttentionMap(name, "encoder", number, weights, pieces, pieces, words, words))
        if not maps:
            raise UsageError("this classifier has no attention: there is nothing to look at")
        return tuple(maps)

    def files(self) -> dict[str, str]:
        labels, reading = as_json({"labels": self.labels}), as_json(asdict(self.reading))
        return super().files() | {TOKENIZER: self.tokenizer.to_json(), LABELS: labels, READING: reading}
