"""The verbs of a trained language model: generate, score, perplexity, look."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import nn

from regard.attention import attentions, record_own
from regard.data.batching import in_order_of_length
from regard.data.streams import TokenStream, count_words
from regard.data.tokenizer import NO_TOKEN, Tokenizer
from regard.decoding.generate import evaluating, generate, padded
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.layers.packed import packed
from regard.tasks.continuation import Continuation, Listener, cut
from regard.tasks.language_model import Finished, context_of, rows_nll, safe_exp, text_nll
from regard.tasks.verbs import DECODING, TOKENIZER, Verbs, as_json
from regard.views.look import Look, Shown
from regard.views.maps import AttentionMap

SCORED_TOGETHER = 8192  # padded tokens per batch of texts; changes speed, never results
NEW_TOKENS = 64  # when neither the caller nor the checkpoint says how many


@dataclass(eq=False)
class Generated(Shown):
    """What a model made of a prompt: the whole text, and, when somebody looks, its attention."""

    prompt: str
    text: str  # the prompt and its continuation
    score: float  # log p / length ** length_penalty of the continuation
    tokens: list[int] = field(repr=False)  # of the continuation
    model: "LanguageModel" = field(repr=False)
    nbest: tuple["Generated", ...] = field(default=(), repr=False)  # all that were asked for, this one first

    @cached_property
    def attention(self) -> tuple[AttentionMap, ...]:
        return self.model.look(self.text)

    def told(self) -> str:
        return f"{self.text} ({self.score:.2f})"

    def look(self) -> Look:
        return Look(self.text, self.attention, self.prompt, self.text, self.score)


@dataclass(frozen=True)
class Begun:
    """A prompt, how it comes back from its tokens, and what the model is told of it."""

    prompt: str
    text: str
    tokens: list[int]


@dataclass(frozen=True)
class Scored:
    """How probable a text is; perplexity is per word, each line's end being one."""

    text: str
    log_probability: float
    tokens: int
    words: int

    @property
    def perplexity(self) -> float:
        return safe_exp(-self.log_probability / self.words)


@dataclass(frozen=True)
class TextEvaluation:
    """Everything `regard evaluate` reports of a language model."""

    nll: float  # nats, of the whole split
    words: int
    tokens: int
    unknown: int  # tokens the vocabulary does not hold; each makes the text look more probable than it is

    @property
    def word_perplexity(self) -> float:
        return safe_exp(self.nll / self.words)

    @property
    def token_perplexity(self) -> float:
        return safe_exp(self.nll / self.tokens)

    def as_dict(self) -> dict[str, Any]:
        perplexities = {"word_perplexity": self.word_perplexity, "token_perplexity": self.token_perplexity}
        return {**perplexities, **vars(self), "nll_per_token": self.nll / self.tokens}

    def told(self) -> str:
        return (
            f"perplexity {self.word_perplexity:.2f} per word ({self.words:,} words, the ends of lines included), "
            f"{self.token_perplexity:.2f} per token ({self.tokens:,} tokens, {self.unknown:,} of them unknown), "
            f"{self.nll / self.tokens:.4f} nats per token"
        )


class LanguageModel(Verbs):
    """`generate` text, `score` it, `look` at what each word looked back at; `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, decoding: Decoding, config_json: str = "{}"):
        super().__init__(model, config_json)
        tokenizer.required("end")
        self.tokenizer, self.decoding = tokenizer, decoding
        never = {tokenizer.pad, tokenizer.start} - {tokenizer.end, NO_TOKEN}
        self.vocabulary = Vocabulary(tokenizer.start, tokenizer.end, never=tuple(never))

    def generate(
        self,
        prompts: str | Sequence[str],
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
        stop: str | Sequence[str] = (),
        first_number: int = 0,
        streamed: Callable[[str], None] | None = None,
        finished: Finished = None,
    ) -> list[Generated]:
        """Each prompt and how it goes on; what is not given comes from the checkpoint's own settings.

        A text ends where its line does, or, if line ends are characters like others to the tokenizer, where the model
        says so; and before the first of the strings in `stop`, which may be one string.
        An empty prompt is the beginning of a text.
        `num_return_sequences` asks for so many samples, or best hypotheses of a beam, in `.nbest`. `first_number` is
        the place of the first prompt in a larger input: samples depend on it. `streamed` is told a single text part
        by part while it is made (by a beam search: at its end).
        """
        prompts = [prompts] if isinstance(prompts, str) else list(prompts)
        stop = [stop] if isinstance(stop, str) else stop
        settings = self.decoding.asked(
            num_beams=num_beams,
            length_penalty=length_penalty,
            max_new_tokens=self.decoding.max_new_tokens or NEW_TOKENS if max_new_tokens is None else max_new_tokens,
            do_sample=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            batch_tokens=batch_tokens,
        )
        _check_number(num_return_sequences, settings, len(prompts), streamed is not None)
        draws = num_return_sequences if settings.do_sample else 1
        begun = [self.begin(prompt) for prompt in prompts for _ in range(draws)]
        listener = Listener(lambda item, tokens: self._said(begun[item], tokens), stop, streamed)
        if streamed is not None:
            streamed(begun[0].text)
        found = generate(
            Continuation(self.model, self.tokenizer.start, self.tokenizer.pad),
            [known.tokens for known in begun],
            self.vocabulary,
            settings,
            pad=self.tokenizer.pad,
            numbers=[first_number * draws + place for place in range(len(begun))],
            finished=finished,
            stopped=listener if stop or streamed else None,
        )
        best = [some[:num_return_sequences] for some in found]
        results = [
            self._generated(begun[place], list(chain.from_iterable(best[place : place + draws])), stop)
            for place in range(0, len(begun), draws)
        ]
        if streamed is not None:
            listener.pass_on(results[0].text[len(begun[0].text) :])
        return results

    def begin(self, prompt: str) -> Begun:
        """What the model is told: an exact tokenizer's prompt as it is, or else after the end of the line before."""
        tokens = self._tokens(prompt)
        if not self.tokenizer.keeps_blanks:
            return Begun(prompt, self.decode(tokens), [self.tokenizer.end, *tokens])
        return Begun(prompt, prompt, tokens or [self.tokenizer.end])

    def _said(self, begun: Begun, tokens: list[int]) -> str:
        """What comes after the prompt; blanks between it and the prompt may depend on both."""
        if self.tokenizer.keeps_blanks:
            return self.decode(tokens)
        return self.decode([*begun.tokens[1:], *tokens])[len(begun.text) :]

    def _generated(self, begun: Begun, found: Sequence[Hypothesis], stop: Sequence[str]) -> Generated:
        nbest = tuple(
            Generated(begun.prompt, begun.text + cut(self._said(begun, one.tokens), stop), one.score, one.tokens, self)
            for one in found
        )
        nbest[0].nbest = nbest
        return nbest[0]

    def score(self, texts: str | Sequence[str]) -> list[Scored]:
        """How probable each text is, read from the beginning of a line to the end of one.

        The end of the last line counts, unless the tokenizer keeps every character: then a text is what it is.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        tokens = [self.encode(text) for text in texts]
        log_probability = [0.0] * len(texts)
        pad, end = self.tokenizer.pad, self.tokenizer.end
        with evaluating(self.model), packed(self.model), torch.inference_mode():
            for items in in_order_of_length([len(known) for known in tokens], SCORED_TOGETHER):
                said = padded([tokens[item] for item in items], pad).to(self.device)
                told = padded([[end, *tokens[item]][: len(tokens[item])] for item in items], pad).to(self.device)
                if said.shape[1]:
                    for item, nll in zip(items, rows_nll(self.model, told, said, pad).tolist(), strict=True):
                        log_probability[item] = -nll
        words = [count_words(text.split("\n")) - self.tokenizer.keeps_blanks for text in texts]
        return [
            Scored(*known)
            for known in zip(texts, log_probability, map(len, tokens), (max(1, n) for n in words), strict=True)
        ]

    def perplexity(self, text: str) -> float:
        """Of the text, per word: exp(-log p / (words + lines))."""
        return self.score([text])[0].perplexity

    def evaluate(self, stream: TokenStream, finished: Finished = None, stride: int | None = None) -> TextEvaluation:
        """One pass over a whole split; each token is predicted from everything before it.

        A model with a limited context reads the split in windows that move on by `stride` tokens, half a window unless
        given: the smaller, the more each token knows, and the longer it takes.
        """
        with evaluating(self.model), packed(self.model), torch.inference_mode():
            nll = text_nll(self.model, stream, self.tokenizer.pad, stride=stride, finished=finished)
        return TextEvaluation(nll, stream.words, len(stream), stream.report["unknown"])

    def look(self, text: str, *, layers: Any = None, heads: Any = None) -> tuple[AttentionMap, ...]:
        """What each token of a text looks back at: one map per layer.

        The first key is the end of the line before the text. Keys further back than the model's span are zero.
        """
        tokens = [self.tokenizer.end, *self._tokens(text)]
        if len(tokens) == 1:
            raise UsageError("there is nothing to look at in an empty text")
        context = context_of(self.model)
        if context is not None and len(tokens) > context:
            raise UsageError(
                f"the text has {len(tokens) - 1} tokens, but the model sees {context - 1} of them at once: shorten it"
            )
        if not attentions(self.model):
            raise UsageError("this model has no attention to look at: it was built with intra_attention: false")
        model: Any = self.model
        told = torch.tensor([tokens], device=self.device)
        with evaluating(model), torch.inference_mode(), record_own(model, layers=layers, heads=heads) as tape:
            model.read(told)
        pieces, words = self.tokenizer.pieces(tokens), own_words(self.tokenizer.words(tokens))
        # Does a token look at itself too (self-attention), or only at what was before it (intra-attention)?
        itself = any(bool(model.over_tokens(weights)[..., 0, 0].any()) for weights in tape.values())
        return tuple(
            AttentionMap(
                name=f"{'self' if itself else 'intra'}-attention, layer {model.attention_layer(name)}",
                kind="decoder",
                layer=model.attention_layer(name),
                weights=model.over_tokens(weights)[0, :, 1:].cpu().numpy(),  # the first key is nobody's query
                queries=tuple(pieces[1:]),
                keys=tuple(pieces),
                query_words=tuple(words[1:]),
                key_words=tuple(words),
                causal=True,
                visible=tuple(range(1 + itself, len(tokens) + itself)),
            )
            for name, weights in tape.items()
        )

    def encode(self, text: str) -> list[int]:
        """The tokens of every line, each line with its end; or of the text as it is, if the tokenizer keeps blanks."""
        if self.tokenizer.keeps_blanks:
            return self.tokenizer.encode(text)
        return [token for line in self.tokenizer.encode_all(text.split("\n")) for token in (*line, self.tokenizer.end)]

    def _tokens(self, text: str) -> list[int]:
        """The same, without the end of the last line."""
        return self.encode(text) if self.tokenizer.keeps_blanks else self.encode(text)[:-1]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens, with a line break for every end of a line."""
        if self.tokenizer.keeps_blanks:
            return self.tokenizer.decode(tokens)
        lines: list[list[int]] = [[]]
        for token in tokens:
            if token == self.tokenizer.end:
                lines.append([])
            else:
                lines[-1].append(token)
        return "\n".join(self.tokenizer.decode(line) for line in lines)

    def files(self) -> dict[str, str]:
        return super().files() | {TOKENIZER: self.tokenizer.to_json(), DECODING: as_json(asdict(self.decoding))}


def own_words(words: Sequence[int]) -> list[int]:
    """Word numbers in which every special token (-1) is a word of its own."""
    numbers: list[int] = []
    for place, word in enumerate(words):
        same = place > 0 and word >= 0 and word == words[place - 1]
        numbers.append(numbers[-1] + (not same) if numbers else 0)
    return numbers


def _check_number(wanted: int, settings: Decoding, prompts: int, is_streamed: bool) -> None:
    if wanted < 1:
        raise UsageError(f"{wanted} texts of each prompt are asked for; ask for at least 1")
    if wanted > settings.num_beams and not settings.do_sample:
        raise UsageError(f"{wanted} texts of each prompt need as many beams, or do_sample to draw them")
    if is_streamed and (prompts, wanted) != (1, 1):
        raise UsageError("only a single text can be told while it is made: give one prompt, and ask for one text")
