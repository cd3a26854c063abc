"""The verbs of a trained language model: generate, score, perplexity, look."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import attentions, record
from regard.attention.masks import real_tokens
from regard.data.batching import in_order_of_length
from regard.data.streams import TokenStream, count_words
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import evaluating, generate, padded
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.tasks.language_model import Finished, model_files, rows_nll, safe_exp, stream_nll
from regard.training import checkpoints
from regard.views import Example, attention_page, merge_words, terminal
from regard.views.maps import AttentionMap
from regard.views.reading import reading_figure

SCORED_TOGETHER = 8192  # padded tokens per batch of texts; changes speed, never results
NEW_TOKENS = 64  # when neither the caller nor the checkpoint says how many


@dataclass(eq=False)
class Generated:
    """What a model made of a prompt: the whole text, and, when somebody looks, its attention."""

    prompt: str
    text: str  # the prompt and its continuation
    score: float  # log p / length ** length_penalty of the continuation
    tokens: list[int] = field(repr=False)  # of the continuation
    model: "LanguageModel" = field(repr=False)

    @cached_property
    def attention(self) -> tuple[AttentionMap, ...]:
        return self.model.look(self.text)


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
            f"{self.token_perplexity:.2f} per token ({self.tokens:,} tokens, {self.unknown:,} of them unknown)"
        )


@dataclass(frozen=True)
class Reading:
    """The state of a search: what the model carries, and the last token of each prompt, which it has not read yet."""

    carried: Any
    last: Tensor


class Continuation(nn.Module):
    """A language model as a decoder (regard.decoding.protocol.Decoder) whose source is the prompt.

    Every search begins with one and the same start token; here it stands for the last token of the prompt.
    """

    def __init__(self, model: nn.Module, tokenizer: Tokenizer):
        super().__init__()
        self.model: Any = model
        self.begin, self.pad = tokenizer.start, tokenizer.pad

    def start(self, source: Tensor) -> Reading:
        real = real_tokens(source, self.pad)
        places = torch.arange(source.shape[1], device=source.device)
        last = torch.where(real, places, -1).amax(1, keepdim=True)
        _, carried = self.model.read(source.scatter(1, last, self.pad))
        return Reading(carried, source.gather(1, last).squeeze(1))

    def step(self, tokens: Tensor, state: Reading) -> tuple[Tensor, Reading]:
        tokens = torch.where(tokens == self.begin, state.last, tokens)
        states, carried = self.model.read(tokens[:, None], state.carried)
        return self.model.logits(states[:, -1]), Reading(carried, state.last)


class LanguageModel:
    """`generate` text, `score` it, `look` at what each word looked back at; `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, decoding: Decoding, config_json: str = "{}"):
        self.model, self.tokenizer, self.decoding = model.eval(), tokenizer, decoding
        self.config_json = config_json
        self.vocabulary = Vocabulary(tokenizer.start, tokenizer.end, never=(tokenizer.pad, tokenizer.start))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

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
    ) -> list[Generated]:
        """Each prompt with the rest of its line; what is not given comes from the checkpoint's own settings.

        An empty prompt is the beginning of a line.
        """
        prompts = [prompts] if isinstance(prompts, str) else list(prompts)
        given: dict[str, Any] = {
            "num_beams": num_beams if not do_sample else 1,
            "length_penalty": length_penalty,
            "max_new_tokens": max_new_tokens or self.decoding.max_new_tokens or NEW_TOKENS,
            "do_sample": do_sample,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
        }
        settings = replace(self.decoding, **{key: value for key, value in given.items() if value is not None})
        told = [[self.tokenizer.end, *self.encode(prompt)[:-1]] for prompt in prompts]
        decoder = Continuation(self.model, self.tokenizer)
        found = generate(decoder, told, self.vocabulary, settings, pad=self.tokenizer.pad)
        return [self._generated(*known) for known in zip(prompts, told, (best[0] for best in found), strict=True)]

    def _generated(self, prompt: str, told: list[int], found: Hypothesis) -> Generated:
        return Generated(prompt, self.decode([*told[1:], *found.tokens]), found.score, found.tokens, self)

    def score(self, texts: str | Sequence[str]) -> list[Scored]:
        """How probable each text is, read from the beginning of a line to the end of one."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        tokens = [self.encode(text) for text in texts]
        results: list[Scored | None] = [None] * len(texts)
        pad, end = self.tokenizer.pad, self.tokenizer.end
        with evaluating(self.model), torch.inference_mode():
            for items in in_order_of_length([len(known) for known in tokens], SCORED_TOGETHER):
                said = padded([tokens[item] for item in items], pad).to(self.device)
                told = padded([[end, *tokens[item][:-1]] for item in items], pad).to(self.device)
                for item, nll in zip(items, rows_nll(self.model, told, said, pad).tolist(), strict=True):
                    words = count_words(texts[item].split("\n"))
                    results[item] = Scored(texts[item], -nll, len(tokens[item]), words)
        return [result for result in results if result is not None]

    def perplexity(self, text: str) -> float:
        """Of the text, per word: exp(-log p / (words + lines))."""
        return self.score([text])[0].perplexity

    def evaluate(self, stream: TokenStream, finished: Finished = None) -> TextEvaluation:
        """One pass over a whole split; each token is predicted from everything before it."""
        with evaluating(self.model), torch.inference_mode():
            nll = stream_nll(self.model, stream, self.tokenizer.pad, finished=finished)
        return TextEvaluation(nll, stream.words, len(stream), stream.report["unknown"])

    def look(self, text: str, *, layers: Any = None, heads: Any = None) -> tuple[AttentionMap, ...]:
        """What each token of a text looks back at: one map per layer.

        The first key is the end of the line before the text. Keys further back than the model's span are zero.
        """
        tokens = [self.tokenizer.end, *self.encode(text)[:-1]]
        if len(tokens) == 1:
            raise UsageError("there is nothing to look at in an empty text")
        if not attentions(self.model):
            raise UsageError("this model has no attention to look at: it was built with intra_attention: false")
        model: Any = self.model
        told = torch.tensor([tokens], device=self.device)
        with evaluating(model), torch.inference_mode(), record(model, layers=layers, heads=heads) as tape:
            model.read(told)
        pieces, words = self.tokenizer.pieces(tokens), own_words(self.tokenizer.words(tokens))
        return tuple(
            AttentionMap(
                name=f"intra-attention, layer {model.attention_layer(name)}",
                kind="decoder",
                layer=model.attention_layer(name),
                weights=model.over_tokens(weights)[0, :, 1:].cpu().numpy(),  # the first key is nobody's query
                queries=tuple(pieces[1:]),
                keys=tuple(pieces),
                query_words=tuple(words[1:]),
                key_words=tuple(words),
                causal=True,
                visible=tuple(range(1, len(tokens))),
            )
            for name, weights in tape.items()
        )

    def draw(self, text: str, output: str | None, *, layers: Any = None, heads: Any = None) -> str:
        """Write a page of all layers, or the picture of the last; what is returned is for the terminal."""
        maps = self.look(text, layers=layers, heads=heads)
        last = merge_words(maps[-1])
        if output is None:
            return terminal(last, colour=sys.stdout.isatty())
        if output.endswith(".html"):
            attention_page(text, [Example(text, text, maps=maps)], output)
        else:
            reading_figure(last, output)
        return f"wrote {Path(output)}"

    def encode(self, text: str) -> list[int]:
        """The tokens of every line, each line with its end."""
        return [token for line in self.tokenizer.encode_all(text.split("\n")) for token in (*line, self.tokenizer.end)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens, with a line break for every end of a line."""
        lines: list[list[int]] = [[]]
        for token in tokens:
            if token == self.tokenizer.end:
                lines.append([])
            else:
                lines[-1].append(token)
        return "\n".join(self.tokenizer.decode(line) for line in lines)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a checkpoint folder that `regard.load` opens, without the training state."""
        checkpoints.save(Path(folder), self.model, model_files(self.config_json, self.tokenizer, self.decoding))


def own_words(words: Sequence[int]) -> list[int]:
    """Word numbers in which every special token (-1) is a word of its own."""
    numbers: list[int] = []
    for place, word in enumerate(words):
        same = place > 0 and word >= 0 and word == words[place - 1]
        numbers.append(numbers[-1] + (not same) if numbers else 0)
    return numbers
