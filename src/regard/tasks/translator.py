"""The verb: a trained model, its tokenizer and its decoding settings, ready to translate and to be looked into."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from torch import nn

from regard.data.links import Links, to_pharaoh
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import generate
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.decoding.workers import Workers
from regard.errors import UsageError
from regard.tasks.alignment import Link, hard_links, merge_subwords
from regard.tasks.replay import aligning_attentions, attention_maps, cross_attentions, replay
from regard.tasks.unknowns import replaced_unknowns
from regard.tasks.verbs import DECODING, TOKENIZER, Verbs, as_json
from regard.views.look import Look, Shown
from regard.views.maps import AttentionMap


@dataclass(eq=False)
class Translated(Shown):
    """One translation: its text and score, and, when somebody looks, its attention."""

    source: str
    text: str
    score: float  # log p / length ** length_penalty
    tokens: list[int] = field(repr=False)
    translator: "Translator" = field(repr=False)
    nbest: tuple["Translated", ...] = field(default=(), repr=False)  # this one first

    @cached_property
    def attention(self) -> tuple[AttentionMap, ...]:
        """Every layer's exact weights, from one replay of the finished sentence; none if the model does not attend."""
        if not cross_attentions(self.translator.model):
            return ()
        return self.translator.look(self.source, tokens=self.tokens)

    def told(self) -> str:
        return f"{self.source} → {self.text} ({self.score:.2f})"

    def look(self) -> Look | None:
        return Look(self.text, self.attention, self.source, self.text, self.score) if self.attention else None


class Translator(Verbs):
    """`translate` sentences, `align` their words, `look` at their attention; `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, decoding: Decoding, config_json: str = "{}"):
        super().__init__(model, config_json)
        for role in ("pad", "start", "end"):
            tokenizer.required(role)
        self.tokenizer, self.decoding = tokenizer, decoding
        self.vocabulary = Vocabulary(tokenizer.start, tokenizer.end, never=(tokenizer.pad, tokenizer.start))

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        num_return_sequences: int = 1,
        batch_tokens: int | None = None,
        first_number: int = 0,
        replace_unknowns: bool = False,
        dictionary: Mapping[str, str] | None = None,
        finished: Callable[[int], None] | None = None,
        workers: Workers | None = None,
    ) -> list[Translated]:
        """One result per text, in order; what is not given comes from the checkpoint's own settings.

        Empty texts give empty translations. `num_return_sequences` asks for so many hypotheses in `.nbest`.
        When the texts are part of a larger input, `first_number` is the place of the first: samples depend on it.
        `replace_unknowns` puts the source word looked at most, or what the `dictionary` has for it, in the place of
        each `<unk>`; the tokens stay as they were said. `workers` (regard.loading.workers) search side by side.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        settings = self.decoding.asked(
            num_beams=num_beams,
            length_penalty=length_penalty,
            max_new_tokens=max_new_tokens,
            do_sample=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            batch_tokens=batch_tokens,
        )
        if replace_unknowns:
            self.check_attention()
        elif dictionary is not None:
            raise UsageError("a dictionary serves only to replace unknown words: ask for that too (replace_unknowns)")
        if num_return_sequences < 1:
            raise UsageError(f"{num_return_sequences} hypotheses of each text are asked for; ask for at least 1")
        if num_return_sequences > settings.num_beams:
            raise UsageError(f"{num_return_sequences} hypotheses need at least as many beams, not {settings.num_beams}")
        found = self._search(texts, settings, first_number, finished, workers)
        results = [self._result(text, found.get(index, [])[:num_return_sequences]) for index, text in enumerate(texts)]
        if replace_unknowns:
            self._replace_unknowns(results, dictionary or {})
        return results

    @property
    def decoder(self) -> nn.Module:
        """What a search asks (regard.decoding.protocol.Decoder)."""
        return self.model

    def _search(
        self,
        texts: Sequence[str],
        settings: Decoding,
        first_number: int,
        finished: Callable[[int], None] | None,
        workers: Workers | None,
    ) -> dict[int, list[Hypothesis]]:
        """The hypotheses for every text that has a word, by its place."""
        sources = [self.encode(text) for text in texts]
        full = [index for index, source in enumerate(sources) if source]
        found = generate(
            self.decoder,
            [[*sources[index], self.tokenizer.end] for index in full],
            self.vocabulary,
            settings,
            pad=self.tokenizer.pad,
            numbers=[first_number + index for index in full],
            finished=finished,
            workers=workers,
        )
        return dict(zip(full, found, strict=True))

    def _result(self, source: str, hypotheses: Sequence[Hypothesis]) -> Translated:
        results = [
            Translated(source, self.tokenizer.decode(known.tokens), known.score, known.tokens, self)
            for known in hypotheses
        ]
        if not results:
            return Translated(source, "", 0.0, [], self)
        results[0].nbest = tuple(results)
        return results[0]

    def _replace_unknowns(self, results: Sequence[Translated], dictionary: Mapping[str, str]) -> None:
        """In the text of every hypothesis that has unknown words; only those are replayed, all together."""
        unknown = self.tokenizer.unknown
        unsure = [known for result in results for known in result.nbest if unknown in known.tokens]
        aligned = self.align([known.source for known in unsure], [known.tokens for known in unsure])
        for known, links in zip(unsure, aligned, strict=True):
            known.text = replaced_unknowns(self.tokenizer, known.source, known.tokens, links, dictionary)

    def check_attention(self) -> None:
        """Refuse a model without attention before anything is translated."""
        aligning_attentions(self.model)

    def look(
        self,
        source: str,
        target: str | None = None,
        *,
        tokens: Sequence[int] | None = None,
        layers: Any = None,
        heads: Any = None,
    ) -> tuple[AttentionMap, ...]:
        """The attention paid while saying `target` (or these tokens, or else our own translation)."""
        self.check_attention()
        if tokens is None:
            tokens = self.encode_target(target) if target is not None else self.translate(source)[0].tokens
        return attention_maps(self.model, self.tokenizer, self.encode(source), tokens, layers=layers, heads=heads)

    def align(self, sources: Sequence[str], targets: Sequence[Sequence[int] | str]) -> list[set[Link]]:
        """Word links (source, target) of each pair: where the mean cross-attention of all heads is strongest."""
        source_tokens = [self.encode(source) for source in sources]
        target_tokens = [self.encode_target(t) if isinstance(t, str) else list(t) for t in targets]
        names = aligning_attentions(self.model)
        links = []
        replayed = replay(self.model, self.tokenizer, source_tokens, target_tokens, layers=names)
        for source, target, weights in zip(source_tokens, target_tokens, replayed, strict=True):
            mean = sum(matrix.mean(0) for matrix in weights.values()) / len(names)
            links.append(hard_links(self.merge(mean, source, target)))
        return links

    def links(self, results: Sequence[Translated]) -> list[list[str]]:
        """For every hypothesis of every result its word links in Pharaoh form, `0-0 1-2`."""
        every = [hypothesis for result in results for hypothesis in result.nbest or (result,)]
        aligned = self.align([known.source for known in every], [known.tokens for known in every])
        told = (to_pharaoh(Links(frozenset(links))) for links in aligned)
        return [[next(told) for _ in result.nbest or (result,)] for result in results]

    def merge(self, weights: Any, source: Sequence[int], target: Sequence[int]) -> Any:
        """Cross-attention between pieces [..., said, read] as weights between words [..., target, source]."""
        read, said = [*source, self.tokenizer.end], [*target, self.tokenizer.end]
        return merge_subwords(weights, self.tokenizer.words(said), self.tokenizer.words(read))

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def encode_target(self, text: str) -> list[int]:
        return self.tokenizer.target.encode(text)

    def files(self) -> dict[str, str]:
        return super().files() | {TOKENIZER: self.tokenizer.to_json(), DECODING: as_json(asdict(self.decoding))}
