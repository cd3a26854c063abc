"""The kinds of models the explorer can look at, each with its way to read an example and to say something of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention import attentions
from regard.decoding.generate import evaluating, padded
from regard.errors import UsageError
from regard.explorer.looking_examples import example_for, few_glyphs
from regard.explorer.looking_subjects import Input, Outcome, Sides, Subject, forgetting, go_on, patches, token_sides
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.captioner import LONGEST, Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.continuation import Continuation
from regard.tasks.image_classifier import ImageClassifier, ImageEmbedder
from regard.tasks.language_model import context_of
from regard.tasks.language_verbs import LanguageModel, own_words
from regard.tasks.mask_filler import MASK, MaskFiller, TextEmbedder
from regard.tasks.matcher import Matcher
from regard.tasks.tagger import Tagger
from regard.tasks.token_tagger import TokenTagger
from regard.tasks.translator import Translator

MOST_HYPOTHESES = 5
LONG_PROMPT = 512  # tokens; a longer one is read, which takes long enough, and not gone on from


class Says(Subject):
    """A source, and a text that is said of it: translators and captioners."""

    source: Tensor
    explains = True

    def tell(self, tokens: Sequence[int]) -> None:
        tokenizer = self.loaded.tokenizer
        self.tokens = list(tokens)
        self.told = padded([[tokenizer.start, *tokens]], tokenizer.pad).to(self.device)
        self.expected = (*self.tokens, tokenizer.end)
        self.said = tokenizer.decode(self.tokens)

    def choose(self, results: Sequence[Any]) -> None:
        """One of several hypotheses."""
        if not self.given.hypothesis < len(results):
            raise UsageError(f"there is no hypothesis {self.given.hypothesis}: there are {len(results)}, from 0")
        self.nbest = tuple((known.text, known.score) for known in results)
        chosen = results[self.given.hypothesis]
        self.tell(chosen.tokens)
        self.score = chosen.score

    def go_on(self, most: int) -> None:
        with evaluating(self.model):
            self.tell(go_on(self.model, self.source, self.given.forced, self.loaded.vocabulary, most))

    def run(self) -> Tensor:
        return self.model.decode(self.source, self.told)

    def value(self) -> Tensor:
        return self.chances().sum()

    def said_sides(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is said looks, and what was told is looked at."""
        tokenizer = self.loaded.tokenizer
        said, told = [*self.tokens, tokenizer.end], [tokenizer.start, *self.tokens]
        return (
            dict(queries=tokenizer.pieces(said), query_words=own_words(tokenizer.words(said))),
            dict(keys=tokenizer.pieces(told), key_words=own_words(tokenizer.words(told))),
        )


class Translation(Says):
    """A text, and its translation."""

    def __init__(self, loaded: Translator, given: Input):
        super().__init__(loaded, given)
        tokenizer = loaded.tokenizer
        self.read = [*loaded.encode(given.text), tokenizer.end]
        self.source = padded([self.read], tokenizer.pad).to(self.device)
        if given.target is not None:
            self.tell(loaded.encode_target(given.target))
        elif given.forced:
            self.go_on(loaded.decoding.limit(len(self.read)))
        else:
            many = min(MOST_HYPOTHESES, loaded.decoding.num_beams)
            self.choose(loaded.translate(given.text, num_return_sequences=many)[0].nbest)
        self.inputs = (self.source, self.told)
        self.example = (given.text, self.said)

    def sides(self) -> dict[str, Sides]:
        tokenizer = self.loaded.tokenizer
        pieces, words = tokenizer.pieces(self.read), own_words(tokenizer.words(self.read))
        read: dict[str, Any] = dict(keys=pieces, key_words=words)
        said, told = self.said_sides()
        return {
            "encoder": Sides(queries=pieces, query_words=words, **read, names=("source", "source")),
            "decoder": Sides(
                **said, **told, names=("translation", "translation"), visible=range(1, len(self.tokens) + 2)
            ),
            "cross": Sides(**said, **read, names=("translation", "source")),
        }

    def outcome(self) -> Outcome:
        return Outcome(self.loaded.translate(self.given.text)[0].text, self.log_probabilities())

    def examples(self, lines: Sequence[str]) -> list[tuple[str, str]]:
        """A source and, behind a tab, its translation; where there is none, the model's own."""
        return paired(lines, lambda texts: [known.text for known in self.loaded.translate(texts)])


class Caption(Says):
    """A picture, and what is said of it."""

    def __init__(self, loaded: Captioner, given: Input):
        super().__init__(loaded, given)
        self.source = loaded.see([loaded.preprocessing.pixels(given.picture)])
        if given.target is not None:
            self.tell(loaded.tokenizer.encode(given.target))
        elif given.forced:
            self.go_on(loaded.decoding.max_new_tokens or LONGEST)
        else:
            many = min(MOST_HYPOTHESES, loaded.decoding.num_beams)
            self.choose(loaded.caption(given.picture, num_return_sequences=many)[0].nbest)
        self.picture = loaded._shown(given.picture)

    def sides(self) -> dict[str, Sides]:
        rows, columns = self.model.encoder.grid
        said, told = self.said_sides()
        regions: dict[str, Any] = dict(keys=patches(rows, columns), key_words=range(rows * columns))
        return {
            "decoder": Sides(**said, **told, names=("caption", "caption"), visible=range(1, len(self.tokens) + 2)),
            "cross": Sides(**said, **regions, names=("caption", "picture"), grid=(rows, columns, 0)),
        }

    def outcome(self) -> Outcome:
        return Outcome(self.loaded.caption(self.given.picture)[0].text, self.log_probabilities())


class Continued(Subject):
    """A prompt, and how a language model goes on."""

    explains = True

    def __init__(self, loaded: LanguageModel, given: Input):
        super().__init__(loaded, given)
        self.begun, room = loaded.begin(given.text), context_of(self.model)
        prompt = self.begun.tokens
        self.check_room(len(prompt))
        more = given.more if len(prompt) <= LONG_PROMPT else len(given.forced)
        self.most = more if room is None else min(more, room - len(prompt))
        self.tell(self.go_on() if self.most else [])
        self.example = self.begun.text + (self.said or "")

    def tell(self, tokens: Sequence[int]) -> None:
        self.tokens = [*self.begun.tokens, *tokens]
        self.check_room(len(self.tokens))
        self.told = torch.tensor([self.tokens], device=self.device)
        self.expected, self.inputs = tuple(self.tokens[1:]), (self.told,)
        self.said = self.text_of(list(tokens))

    def check_room(self, count: int) -> None:
        room = context_of(self.model)
        if room is not None and count > room:
            raise UsageError(f"the text has {count} tokens, but the model sees {room} of them at once: shorten it")

    def go_on(self) -> list[int]:
        tokenizer = self.loaded.tokenizer
        decoder = Continuation(self.model, tokenizer.start, tokenizer.pad)
        source = torch.tensor([self.begun.tokens], device=self.device)
        with evaluating(self.model):
            return go_on(decoder, source, self.given.forced, self.loaded.vocabulary, self.most)

    def text_of(self, tokens: list[int]) -> str:
        return self.loaded._said(self.begun, tokens)

    def run(self) -> Tensor:
        with forgetting(self.model):
            return self.model.read(self.told)[0]

    def value(self) -> Tensor:
        return self.chances().sum()

    def examples(self, lines: Sequence[str]) -> list[str]:
        return list(lines)

    def sides(self) -> dict[str, Sides]:
        tokenizer, count = self.loaded.tokenizer, len(self.tokens)
        pieces, words = tokenizer.pieces(self.tokens), own_words(tokenizer.words(self.tokens))
        itself = self.span is None  # intra-attention looks only at what was before
        visible = range(int(itself), count + itself)
        return {"decoder": Sides(pieces, pieces, words, words, ("text", "text"), visible)}

    def outcome(self) -> Outcome:
        text = self.text_of(self.go_on()) if self.most else None
        return Outcome(text, self.log_probabilities())


class Read(Subject):
    """A text that an encoder reads: gaps to fill, or a vector."""

    def __init__(self, loaded: TextEmbedder, given: Input):
        super().__init__(loaded, given)
        self.tokens = [int(token) for token in loaded.rows([given.both])[0]]
        self.batch = torch.tensor([self.tokens], device=self.device)
        if isinstance(loaded, MaskFiller):
            self.inputs, self.example = (self.batch,), given.text.replace(MASK, "") if given.second is None else None
        self.compares = False
        if isinstance(loaded, MaskFiller) and MASK in given.text and given.second is None:
            self.compares, self.said = True, loaded.fill(given.text)[0].text
        elif isinstance(loaded, TokenTagger):
            self.said = loaded.tag([given.text])[0].text

    def run(self) -> Tensor:
        return self.model.encoder(self.batch)[0]

    def sides(self) -> dict[str, Sides]:
        return {"encoder": token_sides(self.loaded.tokenizer, self.tokens)}

    def examples(self, lines: Sequence[str]) -> list[str]:
        return list(lines)

    def outcome(self) -> Outcome:
        filled = self.loaded.fill(self.given.text, top=5)[0]
        numbered = ((place, known) for place, gap in enumerate(filled.guesses, 1) for known in gap)
        return Outcome(filled.text, (), {f"gap {place}: {known.word}": known.probability for place, known in numbered})


class Labelled(Subject):
    """A text and its label, from a model that reads one row of tokens."""

    explains = True

    def __init__(self, loaded: Classifier, given: Input):
        super().__init__(loaded, given)
        self.tokens = [int(token) for token in loaded.row(given.both).tokens]
        if not self.tokens:
            raise UsageError("there is nothing to look at in a text without a word")
        self.said = loaded.classify([given.both])[0].label
        self.example = (given.both, self.said)

    def run(self) -> Tensor:
        return self.model(self.loaded._inputs([self.loaded.row(self.given.both)]))

    def sides(self) -> dict[str, Sides]:
        sides = token_sides(self.loaded.tokenizer, self.tokens)
        return dict.fromkeys({self.kind_of(name) for name, _ in attentions(self.model)}, sides)

    def outcome(self) -> Outcome:
        return Outcome(labels=self.loaded.classify([self.given.both])[0].probabilities)

    def value(self) -> Tensor:
        return chance_of(self.said, self.loaded.labels, self.run())

    def examples(self, lines: Sequence[str]) -> list[tuple[str, str]]:
        """A text and, behind a tab, its label; where there is none, the model's own."""
        return paired(lines, lambda texts: [known.label for known in self.loaded.classify(texts)])


class Document(Subject):
    """A document and its label, from sentences and their words."""

    compares = False

    def __init__(self, loaded: Classifier, given: Input):
        super().__init__(loaded, given)
        self.document = loaded.look(given.text)
        self.said = self.document.verdict

    def run(self) -> Tensor:
        return self.model(self.loaded._inputs([self.loaded.row(self.given.text)]))


class Seen(Subject):
    """A picture in patches, and its label."""

    def __init__(self, loaded: ImageEmbedder, given: Input):
        super().__init__(loaded, given)
        pixels = loaded.preprocessing.pixels(given.picture)
        self.pixels = loaded._inputs(pixels[None])
        self.picture = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
        self.compares = self.explains = isinstance(loaded, ImageClassifier)
        if isinstance(loaded, ImageClassifier):
            self.said = loaded.classify(given.picture)[0].label
            self.example = (given.picture, self.said)

    def run(self) -> Tensor:
        return self.model(self.pixels)

    def sides(self) -> dict[str, Sides]:
        rows, columns = self.model.grid(*self.loaded.preprocessing.shape)
        tokens, numbers = ["[CLS]", *patches(rows, columns)], range(1 + rows * columns)
        return {"encoder": Sides(tokens, tokens, numbers, numbers, ("picture", "picture"), grid=(rows, columns, 1))}

    def outcome(self) -> Outcome:
        return Outcome(labels=self.loaded.classify(self.given.picture)[0].probabilities)

    def value(self) -> Tensor:
        return chance_of(self.said, self.loaded.labels, self.run())


class Match(Subject):
    """A picture among labelled ones, and those it attended to; if none are given, letters are drawn for it."""

    compares = False

    def __init__(self, loaded: Matcher, given: Input):
        super().__init__(loaded, given)
        examples = given.examples or few_glyphs(self.model.config.ways, self.model.config.shots)
        (known,) = loaded.match(examples, given.picture)
        self.match, self.said = known.attention, known.label


class Episode(Subject):
    """An episode that a memory is needed for."""

    compares = False

    def __init__(self, loaded: AlgorithmRunner, given: Input):
        super().__init__(loaded, given)
        self.episodes = loaded.episode(given.text)
        self.memory = loaded.look(self.episodes)
        self.said = self.memory.told()

    def run(self) -> Tensor:
        return self.model(torch.from_numpy(self.episodes.inputs[:1]).to(self.device))


class Tags(Subject):
    """The tags of a sentence."""

    compares = False

    def __init__(self, loaded: Tagger, given: Input):
        super().__init__(loaded, given)
        self.said = loaded.tag([given.text])[0].text


def chance_of(label: str | None, labels: Sequence[str], logits: Tensor) -> Tensor:
    """The log-probability of a label, from the logits of all [1, labels]."""
    return logits[0].float().log_softmax(-1)[list(labels).index(label or "")]


def paired(lines: Sequence[str], answers: Callable[[list[str]], list[str]]) -> list[tuple[str, str]]:
    """What stands before a tab and what stands behind it; where nothing does, the answer that is asked for."""
    pairs = [line.partition("\t")[::2] for line in lines]
    open_ = [given for given, answer in pairs if not answer.strip()]
    known = iter(answers(open_) if open_ else [])
    return [(given, answer.strip() or next(known)) for given, answer in pairs]


SUBJECTS: dict[type, Callable[[Any, Input], Subject]] = {
    Translator: Translation,
    Captioner: Caption,
    LanguageModel: Continued,
    TextEmbedder: Read,
    Classifier: lambda loaded, given: (Document if loaded.reads == "documents" else Labelled)(loaded, given),
    ImageEmbedder: Seen,
    Matcher: Match,
    AlgorithmRunner: Episode,
    Tagger: Tags,
}


def subject_of(loaded: Any, given: Input) -> Subject:
    """The example in its model; if nothing is given, one that suits the model."""
    make = next((make for kind, make in SUBJECTS.items() if isinstance(loaded, kind)), None)
    if make is None:
        raise UsageError(f"a {type(loaded).__name__} cannot be looked at in the explorer yet")
    if not given.text.strip() and given.picture is None:
        given = example_for(loaded, given)
    if hasattr(loaded, "preprocessing") != (given.picture is not None):
        raise UsageError("this model reads pictures: give one" if given.picture is None else "this model reads texts")
    return make(loaded, given)
