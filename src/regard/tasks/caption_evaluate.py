"""How good is a captioner? Its captions against those of people, and how likely it finds theirs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from regard.data.captions import CaptionedImage, readable_pictures
from regard.errors import RegardError
from regard.layers.packed import packed
from regard.tasks.caption import Batch, caption_loss, caption_rows
from regard.tasks.caption_scores import CaptionScores, caption_scores
from regard.tasks.captioner import Captioner


@dataclass(frozen=True)
class CaptionEvaluation:
    """Everything `regard evaluate` reports of a captioner."""

    scores: CaptionScores
    nll: float  # nats per token of the references, the end included
    perplexity: float
    unreadable: int  # pictures left out
    captions: dict[str, str]  # by the picture's name

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the captions themselves."""
        return {
            **self.scores.as_dict(),
            "nll": self.nll,
            "perplexity": self.perplexity,
            "unreadable": self.unreadable,
        }

    def told(self) -> str:
        lines = [self.scores.told(), f"NLL {self.nll:.4f} per token, perplexity {self.perplexity:.3f}"]
        return "\n".join(lines + [f"{self.unreadable} pictures could not be read"] * bool(self.unreadable))


def evaluate_captioner(
    captioner: Captioner,
    pictures: Sequence[CaptionedImage],
    *,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    finished: Callable[[int], None] | None = None,
) -> CaptionEvaluation:
    """Caption every picture that can be read, and compare with what people said of it."""
    settings = captioner.decoding.asked(num_beams=num_beams, length_penalty=length_penalty)
    readable = readable_pictures(pictures, captioner.preprocessing)
    rows: list[int] = []
    captions: list[str] = []
    nll, count = 0.0, 0
    with packed(captioner.model), torch.inference_mode():
        while chunk := list(islice(readable, captioner.at_once)):
            numbers = [row for row, _ in chunk]
            regions = captioner.see([pixels for _, pixels in chunk])
            found = captioner.say(regions, settings, numbers)
            captions += [captioner.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
            rows += numbers
            owners = [place for place, row in enumerate(numbers) for _ in pictures[row].captions]
            references = [caption for row in numbers for caption in pictures[row].captions]
            told, said = caption_rows(list(captioner.tokenizer.encode_all(references)), captioner.tokenizer)
            batch = Batch(regions[torch.tensor(owners)], told.to(regions.device), said.to(regions.device))
            loss = caption_loss(captioner.model, batch, captioner.tokenizer.pad)
            nll, count = nll + loss.nll.item(), count + loss.count
            if finished is not None:
                finished(len(chunk))
    if not rows:
        raise RegardError("the split has no usable picture; check the data section")
    return CaptionEvaluation(
        scores=caption_scores(captions, [pictures[row].captions for row in rows]),
        nll=nll / count,
        perplexity=float(np.exp(min(nll / count, 700.0))),
        unreadable=len(pictures) - len(rows),
        captions={pictures[row].name: text for row, text in zip(rows, captions, strict=True)},
    )
