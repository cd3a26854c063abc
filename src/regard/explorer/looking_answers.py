"""What can be asked of a session: bytes where there are many numbers, JSON where there are few."""

import base64
import io
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.explorer import looking_asked as asked
from regard.explorer.limits import CELLS
from regard.explorer.looking import Session
from regard.explorer.looking_subjects import LONGEST_SEARCHED, Outcome, position_table
from regard.explorer.looking_through import through
from regard.inspect import Stage, beam_tree, head_importance, head_means, heads_off, logit_lens
from regard.inspect.results import jsonable
from regard.layers.scalar_mix import ScalarMix
from regard.views.maps import display

TOP = 200  # next tokens whose logits are sent
KEYS_TOLD = 32  # of a step: the most attended
SIZE_TOLD = 64  # numbers of a vector
DIGITS = 6
PLACES = 96  # rows of a table of positions
LENS_PLACES = 96


def weights(session: Session, given: asked.Weights) -> bytes:
    """float32 [heads, queries, keys], of one head or of all."""
    kept = session.attention(given.attention)
    count = (kept.heads if given.head is None else 1) * kept.queries * kept.keys
    if count > CELLS:
        raise UsageError(f"these are {count:,} weights, but at most {CELLS:,} are sent at once: ask for tiles")
    return kept.rows(range(kept.queries), given.head).astype("<f4").tobytes()


def tile(session: Session, given: asked.Tile) -> bytes:
    """uint8: square roots of weights, 255 for 1."""
    kept = session.attention(given.attention)
    return kept.tile(given.head, given.level, given.row, given.column, given.apart).tobytes()


def margins(session: Session, given: asked.Margins) -> bytes:
    """float32 [2 queries + keys]: paid to the first key, paid in all, received in all."""
    known = session.attention(given.attention).survey(given.head)
    return np.concatenate([known.first, known.paid, known.received]).astype("<f4").tobytes()


def row(session: Session, given: asked.Row) -> bytes:
    """float32 [rows, keys]: what one query of one head pays, and those after it, as many as there are."""
    kept = session.attention(given.attention)
    rows = range(given.query, max(given.query + 1, min(given.query + given.count, kept.queries)))
    return kept.rows(rows, given.head).astype("<f4").tobytes()


def overview(session: Session, given: asked.OfAttention) -> dict[str, Any]:
    """A small picture of every head and a few numbers."""
    pictures, statistics, rows = session.attention(given.attention).thumbnails()
    return {
        "shape": list(pictures.shape),
        "pictures": base64.b64encode(pictures.tobytes()).decode("ascii"),
        "statistics": statistics,
        "rows": rows,
    }


def steps(session: Session, given: asked.Steps) -> dict[str, Any]:
    """The stages of one query and head; of many keys, those that were attended to most."""
    story = session.seen(given.attention).steps(given.attention, given.query, given.head, given.row)
    paid = story["weights"]
    chosen = np.sort(np.argsort(-paid, kind="stable")[:KEYS_TOLD])
    labels = session.key_labels(given.attention, given.query, given.row, len(paid))
    return {
        "attention": story.attention,
        "kind": story.kind,
        "query": story.query,
        "head": story.head,
        "difference": story.difference,
        "keys": chosen.tolist(),
        "labels": [labels[key] if key < len(labels) else str(key + 1) for key in chosen],
        "keyCount": len(paid),
        "stages": [_stage(each, len(paid), chosen) for each in story.stages],
    }


def _stage(stage: Stage, keys: int, chosen: NDArray[np.int64]) -> dict[str, Any]:
    numbers = np.asarray(stage.numbers)
    for axis, name in enumerate(stage.axes):
        if name in ("keys", "cells") and numbers.shape[axis] == keys:
            numbers = numbers.take(chosen, axis)
        elif numbers.shape[axis] > SIZE_TOLD:
            numbers = numbers.take(range(SIZE_TOLD), axis)
    return {
        "name": stage.name,
        "formula": stage.formula,
        "about": stage.about,
        "axes": list(stage.axes),
        "shape": list(np.shape(stage.numbers)),
        "numbers": jsonable(_rounded(numbers)),
    }


def addressing(session: Session, given: asked.Addressing) -> dict[str, Any]:
    """What one head of a memory wished for at one time, and where it looked: of all cells."""
    story = session.seen(given.attention).steps(given.attention, given.query, given.head)
    if story.kind != "content focus":
        raise UsageError(f"{given.attention} looks for no place in a memory")
    names = ("cosine", "strength", "content", "gate", "before", "gated", "shifts", "shifted", "sharpness", "weights")
    return {name: jsonable(np.asarray(story[name])) for name in names}


def _rounded(numbers: Any) -> Any:
    array = np.asarray(numbers)
    if array.dtype == bool:
        return array
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = DIGITS - 1 - np.floor(np.log10(np.abs(array)))
        scale = 10.0 ** np.clip(np.where(np.isfinite(digits), digits, 0), -30, 30)
        return np.where(np.isfinite(array), np.round(array * scale) / scale, array)


def next_tokens(session: Session, given: asked.Next) -> dict[str, Any]:
    """The raw logits of the likeliest tokens after a place, and the sum all of them are divided by."""
    subject = session.subject
    if not subject.expected:
        raise UsageError("this model does not say one token after the other")
    with evaluating(subject.model), torch.inference_mode():
        states = subject.run()
        if given.place >= states.shape[1]:
            raise UsageError(f"there is no place {given.place}: there are {states.shape[1]}, counted from 0")
        values = subject.logits(states[:, given.place : given.place + 1])[0].double()
    best = values.topk(min(TOP, len(values)))
    ids = best.indices.tolist()
    said = subject.expected[given.place] if given.place < len(subject.expected) else None
    return {
        "place": given.place,
        "places": states.shape[1],
        "ids": ids,
        "pieces": subject.loaded.tokenizer.pieces(ids),
        "logits": best.values.tolist(),
        "logsumexp": float(values.logsumexp(0)),
        "entropy": float(torch.special.entr(values.softmax(0)).sum()),
        "vocabulary": len(values),
        "said": None if said is None else {"id": said, "logit": float(values[said])},
    }


def beam(session: Session, given: asked.Beam) -> dict[str, Any]:
    """Every candidate of a search."""
    subject = session.subject
    if subject.expected and "beam" not in subject.views:
        raise UsageError(f"a search is for texts of at most {LONGEST_SEARCHED:,} tokens here")
    example = subject.given.text if subject.given.picture is None else subject.given.picture
    tree = beam_tree(
        subject.loaded, example, num_beams=given.num_beams, length_penalty=given.length_penalty,
        max_new_tokens=given.max_new_tokens,
    )  # fmt: skip
    decode = subject.loaded.tokenizer.decode
    told = tree.as_dict()
    for hypothesis, known in zip(told["hypotheses"], tree.hypotheses, strict=True):
        hypothesis["text"] = decode(known.tokens)
    return told


def alignment(session: Session, given: asked.Path) -> dict[str, Any]:
    """What a search looked at when it chose the last token of a path: one row of one attention."""
    said = Session(session.name, session.subject.saying(given.tokens[:-1]))
    kept = said.attention(given.attention)
    row = kept.rows([kept.queries - 1], given.head).mean(0)[0]
    return {
        "title": said.title(given.attention, given.head),
        "keys": [display(token) for token in said.sides_of(given.attention).keys],
        "weights": row.tolist(),
    }


def what_if(session: Session, given: asked.WhatIf) -> dict[str, Any]:
    """The outcome with all heads, and without some."""
    subject = session.subject
    with evaluating(subject.model), torch.inference_mode():
        means = (
            head_means(subject.model, [subject.run], list(given.off)) if given.off and given.instead == "mean" else None
        )
        before = subject.outcome()
        with heads_off(subject.model, dict(given.off), means):
            after = subject.outcome()
    pieces = subject.loaded.tokenizer.pieces(subject.expected) if subject.expected else []
    return {"before": _outcome(before), "after": _outcome(after), "pieces": pieces}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {"text": outcome.text, "said": list(outcome.said), "labels": outcome.labels}


def importance(session: Session, given: asked.Importance) -> dict[str, Any]:
    """What every head is worth, in nats per token; asked for one attention after the other, a reader sees it go on."""
    examples = session.examples(given.lines)
    found = head_importance(session.subject.loaded, examples, layers=given.attention, instead=given.instead)
    return {"nll": found.nll, "count": found.count, "examples": len(examples), "changes": jsonable(found.changes)}


def through_layers(session: Session, given: asked.Through) -> bytes:
    """float32 [queries, keys]"""
    return through(session, given.kind, given.how).astype("<f4").tobytes()


def lens(session: Session, given: asked.OfSession) -> dict[str, Any]:
    """What each layer would say, at the last places of the text."""
    subject = session.subject
    if not subject.inputs:
        raise UsageError("a logit lens is for Transformers that say words")
    length = subject.inputs[-1].shape[1]
    if length > LONGEST_SEARCHED:
        raise UsageError(f"a logit lens is for texts of at most {LONGEST_SEARCHED:,} tokens here, not for {length:,}")
    places = list(range(max(0, length - LENS_PLACES), length))
    seen = logit_lens(subject.model, *subject.inputs, top=3, places=places)
    tokenizer = subject.loaded.tokenizer
    pieces = tokenizer.pieces(seen.tokens.flatten().tolist())
    return {
        "places": seen.places.tolist(),
        "read": tokenizer.pieces([int(subject.inputs[-1][0, place]) for place in places]),
        "pieces": np.array(pieces, dtype=object).reshape(seen.tokens.shape).tolist(),
        "probabilities": jsonable(_rounded(seen.probabilities)),
        "entropy": jsonable(_rounded(seen.entropy)),
        "divergence": jsonable(_rounded(seen.divergence)),
    }


def positions(session: Session, given: asked.OfSession) -> dict[str, Any]:
    """Some rows of the table of positions, and how alike they are (cosine)."""
    table = position_table(session.subject.model)
    if table is None:
        raise UsageError("this model adds no vectors for positions")
    rows = np.unique(np.linspace(0, len(table) - 1, min(PLACES, len(table))).round().astype(int))
    vectors = table[torch.from_numpy(rows)].double().cpu().numpy()
    norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    unit = vectors / norms
    return {
        "rows": rows.tolist(),
        "count": len(table),
        "size": vectors.shape[1],
        "vectors": jsonable(_rounded(vectors[:, :PLACES])),
        "alike": jsonable(_rounded(unit @ unit.T)),
    }


def mix(session: Session, given: asked.OfSession) -> dict[str, Any]:
    """How much each layer of ELMo is worth to this task."""
    found = [module for module in session.subject.model.modules() if isinstance(module, ScalarMix)]
    if not found:
        raise UsageError("this model mixes no layers")
    return {"weights": found[0].weights.softmax(0).tolist(), "gamma": float(found[0].gamma.detach())}


def document(session: Session, given: asked.OfSession) -> dict[str, Any]:
    """Sentences and words with their weights and shades."""
    known = session.subject.document
    if known is None:
        raise UsageError("this model does not read documents")
    shades, sentences = known.word_shades(), known.sentence_shades()
    return {
        "verdict": known.verdict,
        "sentences": [
            {
                "weight": float(known.sentence_weights[number]),
                "shade": float(sentences[number]),
                "pieces": [
                    {"text": text}
                    if word is None
                    else {
                        "text": text,
                        "weight": float(known.word_weights[number][word]),
                        "shade": float(shades[number][word]),
                    }
                    for text, word in known.pieces(number)
                ],
            }
            for number in range(len(known.sentences))
        ],
    }


def picture(session: Session, given: asked.OfSession) -> bytes:
    """The picture as the model saw it, as PNG."""
    if session.subject.picture is None:
        raise UsageError("this model saw no picture")
    file = io.BytesIO()
    Image.fromarray(session.subject.picture).save(file, "PNG")
    return file.getvalue()
