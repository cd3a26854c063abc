"""The verb: a trained captioner, its tokenizer and its way to read pictures, ready to caption and to be looked into."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import attentions, record_own
from regard.attention.alignments import Hard
from regard.data.images import Picture, Pixels, Preprocessing, read_image
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import evaluating, search
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.errors import RegardError, UsageError
from regard.layers.packed import packed
from regard.tasks.alignment import merge_subwords
from regard.tasks.caption import caption_rows, encoding
from regard.tasks.verbs import DECODING, PREPROCESSING, TOKENIZER, Verbs, as_json
from regard.views.caption import CaptionMap
from regard.views.look import Look, Shown

LONGEST = 40  # tokens of a caption, unless max_new_tokens says otherwise
SHOWN = 480  # pixels of the longer side of a picture that is drawn


@dataclass(eq=False)
class Captioned(Shown):
    """One picture: its caption and score and, when somebody looks, where each word looked.

    A picture that could not be read has an empty caption and no tokens.
    """

    name: str  # its file, or its number
    text: str
    score: float  # log p / length ** length_penalty
    tokens: list[int] = field(repr=False)
    picture: Picture = field(repr=False)
    captioner: "Captioner" = field(repr=False)
    nbest: tuple["Captioned", ...] = field(default=(), repr=False)  # this one first

    @cached_property
    def attention(self) -> CaptionMap | None:
        """What every word looked at; None if the model does not attend, or there is no word."""
        if not self.captioner.attends or not self.tokens:
            return None
        return self.captioner.look(self.picture, tokens=self.tokens, score=self.score, name=self.name)

    @property
    def regions(self) -> list[dict[str, Any]]:
        """For machines: each word with its weights over the grid and its strongest region as shares of the picture."""
        known = self.attention
        if known is None:
            return []
        return [
            {"word": word, "box": list(known.box(number)), "weights": np.round(known.weights[number], 4).tolist()}
            for number, word in enumerate(known.words)
        ]

    def told(self) -> str:
        return f"{self.name}: {self.text} ({self.score:.2f})"

    def look(self) -> Look | None:
        if self.attention is None:
            return None
        return Look(f"{self.text} ({self.score:.2f})", self.attention, score=self.score)


class Captioner(Verbs):
    """`caption` pictures, `look` at where each word looked; `regard.load` makes one."""

    at_once = 32  # pictures captioned together; changes speed, never results

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer,
        decoding: Decoding,
        preprocessing: Preprocessing,
        config_json: str = "{}",
    ):
        super().__init__(model, config_json)
        for role in ("pad", "start", "end"):
            tokenizer.required(role)
        self.tokenizer, self.decoding, self.preprocessing = tokenizer, decoding, preprocessing
        # An unknown word is no word to say of a picture.
        never = (tokenizer.pad, tokenizer.start, tokenizer.unknown)
        self.vocabulary = Vocabulary(tokenizer.start, tokenizer.end, never=never)

    def caption(
        self,
        pictures: Picture | Sequence[Picture],
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
        first_number: int = 0,
        finished: Callable[[int], None] | None = None,
        unreadable: Callable[[RegardError], object] | None = None,
    ) -> list[Captioned]:
        """One result per picture, in order; a picture is a file, its bytes, a PIL image or an array uint8
        [height, width (, 3)].

        One that cannot be read is an error, or, when `unreadable` is there to hear of it, a result without a caption.
        """
        settings = self.decoding.asked(
            num_beams=num_beams,
            length_penalty=length_penalty,
            max_new_tokens=max_new_tokens,
            do_sample=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        if not 1 <= num_return_sequences <= settings.num_beams:
            raise UsageError(
                f"{num_return_sequences} captions of each picture need as many beams ({settings.num_beams})"
            )
        several: list[Any] = list(pictures) if isinstance(pictures, list | tuple) else [pictures]
        results: list[Captioned] = []
        with packed(self.model):
            for first in range(0, len(several), self.at_once):
                part = several[first : first + self.at_once]
                pixels = [self.preprocessing.read(picture, unreadable) for picture in part]
                readable = [row for row, known in enumerate(pixels) if known is not None]
                numbers = [first_number + first + row for row in readable]
                regions = self.see([known for known in pixels if known is not None])
                found = dict(zip(readable, self.say(regions, settings, numbers), strict=True))
                for row, picture in enumerate(part):
                    name = _name(picture, first_number + first + row)
                    results.append(self._result(name, picture, found.get(row, [])[:num_return_sequences]))
                if finished is not None:
                    finished(len(part))
        return results

    def see(self, pixels: Sequence[Pixels]) -> Tensor:
        """The regions [pictures, regions, size] of pictures as bytes."""
        if not pixels:
            return torch.zeros(0, 0, 0)
        return encoding(self.model, self.preprocessing)(np.stack(pixels))

    def say(self, regions: Tensor, settings: Decoding, numbers: Sequence[int]) -> list[list[Hypothesis]]:
        """The hypotheses for each picture's regions, the best first; `numbers` are the seeds of their samples."""
        if not len(regions):
            return []
        limits = [settings.max_new_tokens or LONGEST] * len(regions)
        with evaluating(self.model):
            return search(self.model, regions, self.vocabulary, limits, settings, numbers)

    def _result(self, name: str, picture: Picture, hypotheses: Sequence[Hypothesis]) -> Captioned:
        results = [
            Captioned(name, self.tokenizer.decode(known.tokens), known.score, known.tokens, picture, self)
            for known in hypotheses
        ]
        if not results:
            return Captioned(name, "", 0.0, [], picture, self)
        results[0].nbest = tuple(results)
        return results[0]

    @property
    def attends(self) -> bool:
        return bool(attentions(self.model))

    def check_attention(self) -> None:
        """Refuse a model without attention before anything is captioned."""
        if not self.attends:
            raise UsageError(
                f"{type(self.model).__name__} has no attention to look at; use a run of a model that attends"
            )

    def look(
        self,
        picture: Picture,
        caption: str | None = None,
        *,
        tokens: Sequence[int] | None = None,
        layers: Any = None,
        heads: Any = None,
        score: float | None = None,
        name: str = "",
    ) -> CaptionMap:
        """What was looked at while saying `caption` (or these tokens, or else our own): one replay, teacher forced.

        The mean of all heads and layers that look at the picture, or of the chosen ones.
        """
        self.check_attention()
        if tokens is None and caption is None:
            best = self.caption(picture)[0]
            tokens, score = best.tokens, best.score
        tokens = self.tokenizer.encode(caption or "") if tokens is None else tokens
        if not tokens:
            raise UsageError("there is no word to look at: the caption is empty")
        weights = self._replay(self.preprocessing.pixels(picture), tokens, layers, heads)
        numbers = self.tokenizer.words(tokens)
        merged = merge_subwords(weights, numbers, range(weights.shape[1]))
        words = [self.tokenizer.decode([t for t, n in zip(tokens, numbers, strict=True) if n == number])
                 for number in range(max(numbers) + 1)]  # fmt: skip
        rows, columns = self.model.encoder.grid
        return CaptionMap(
            image=self._shown(picture),
            words=tuple(words),
            weights=merged.reshape(len(words), rows, columns),
            score=score,
            hard=any(isinstance(module, Hard) for module in self.model.modules()),
            name=name or (str(picture) if isinstance(picture, str | Path) else ""),
        )

    def _replay(self, pixels: Pixels, tokens: Sequence[int], layers: Any, heads: Any) -> NDArray[np.float32]:
        """[tokens, regions]"""
        model: Any = self.model
        device = next(model.parameters()).device
        told, _ = caption_rows([tokens], self.tokenizer)
        with evaluating(model), torch.inference_mode(), record_own(model, layers=layers, heads=heads) as tape:
            model.decode(self.see([pixels]), told.to(device))
        crossing = [name for name in tape if model.attention_kind(name) == "cross"]
        if not crossing:
            raise UsageError(f"the layers {layers} hold no attention over the picture; choose others")
        mean = torch.stack([tape[name][0].mean(0) for name in crossing]).mean(0)
        return mean[: len(tokens)].float().cpu().numpy()

    def _shown(self, picture: Picture) -> NDArray[np.uint8]:
        """The picture the grid covers: all of it, or, where only the middle is read, that."""
        if self.preprocessing.crop is not None:
            return self.preprocessing.pixels(picture).transpose(1, 2, 0)
        image = read_image(picture, 3)
        image.thumbnail((SHOWN, SHOWN))
        return np.array(image)

    def files(self) -> dict[str, str]:
        said = {TOKENIZER: self.tokenizer.to_json(), DECODING: as_json(asdict(self.decoding))}
        return super().files() | said | {PREPROCESSING: self.preprocessing.to_json()}


def _name(picture: Picture, number: int) -> str:
    """Its file, or its number, counted from 1."""
    return str(picture) if isinstance(picture, str | Path) else f"picture {number + 1}"
