"""An exported folder beside our model, through `transformers` itself: tokens, logits, generated texts."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.export.companions import is_bert, told
from regard.export.hf import architecture
from regard.export.report import Finding, Report, compared, same
from regard.export.subject import NEW_TOKENS, TEXTS, Subject, batch

UNUSED = ("pooler.dense.weight", "pooler.dense.bias")  # of their bare BERT, which an embedder does not ask


def check(subject: Subject, folder: Path, quantization: str | None = None) -> Report:
    if importlib.util.find_spec("transformers") is None:
        return Report((), "transformers is not installed; pip install transformers, and export again to compare")
    with quiet_transformers() as transformers, torch.inference_mode():
        kind = getattr(transformers, architecture(subject))
        theirs, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        findings = [tensors_found(info)]
        if subject.family == "vit":
            findings.append(pictures(subject, theirs.eval()))
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            findings += [tokens(subject, tokenizer), *texts(subject, theirs.eval())]
    return Report(tuple(findings))


@contextmanager
def quiet_transformers() -> Iterator[Any]:
    """The package, without its bars and its advice."""
    import transformers
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error(), logging.disable_progress_bar()
    try:
        yield transformers
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def tensors_found(info: dict[str, Any]) -> Finding:
    lacking = sorted(set(info["missing_keys"]) - set(UNUSED))
    strange = sorted(info["unexpected_keys"])
    if lacking or strange:
        return Finding("tensors", f"missing {lacking[:4]}, unexpected {strange[:4]}", False)
    return Finding("tensors", "every one found its place")


def tokens(subject: Subject, theirs: Any) -> Finding:
    """The same numbers for the same texts; BERT's pairs too."""
    found = [theirs(text)["input_ids"] for text in TEXTS]
    ours = [told(subject, text) for text in TEXTS]
    if is_bert(subject):
        found.append(theirs(TEXTS[0], TEXTS[1])["input_ids"])
        ours.append([*ours[0], *ours[1][1:]])
    return same("tokens", ours, found)


def texts(subject: Subject, theirs: Any) -> list[Finding]:
    if subject.family == "gpt2":
        return [continued(subject, theirs), generated(subject, theirs)]
    if subject.family == "transformer":
        return [translated(subject, theirs), said(subject, theirs)]
    return encoded(subject, theirs)


def encoded(subject: Subject, theirs: Any) -> list[Finding]:
    """BERT, whatever its head."""
    read = batch(subject.framed(), subject.pad)
    mask = read.mask.long()
    segments = subject.model.encoder.segments_of(read.tokens) * mask
    found = theirs(input_ids=read.tokens, attention_mask=mask, token_type_ids=segments)
    states, real = subject.model.encoder(read.tokens.masked_fill(~read.mask, subject.pad))
    if subject.family == "bert-embedder":
        return [compared("states", read.real(states), read.real(found.last_hidden_state))]
    if subject.family == "bert-classifier":
        ours = subject.model.label(subject.model.pooler(states, real))
        return [compared("logits", [ours.numpy()], [found.logits.numpy()])]
    if subject.family == "bert-tagger":
        return [compared("logits", read.real(subject.model.label(states)), read.real(found.logits))]
    words = found.prediction_logits if subject.config.next_sentence else found.logits
    findings = [compared("logits", read.real(subject.model.logits(states)), read.real(words))]
    if subject.config.next_sentence:
        verdicts = subject.model.next_logits(states, real)
        findings.append(compared("next sentence", [verdicts.numpy()], [found.seq_relationship_logits.numpy()]))
    return findings


def pictures(subject: Subject, theirs: Any) -> Finding:
    images = subject.images()
    found = theirs(pixel_values=images, interpolate_pos_encoding=True).logits
    return compared("logits", [subject.model(images).numpy()], [found.numpy()])


def continued(subject: Subject, theirs: Any) -> Finding:
    rows = subject.rows(subject.config.context)
    read = batch(rows)
    ours = subject.model(read.tokens.masked_fill(~read.mask, subject.pad))
    found = theirs(input_ids=read.tokens, attention_mask=read.mask.long()).logits
    return compared("logits", read.real(ours), read.real(found))


def generated(subject: Subject, theirs: Any) -> Finding:
    """Greedy texts, all prompts in one batch, padded on the left as theirs must be."""
    room = max(1, subject.config.context - NEW_TOKENS)
    prompts = subject.prompts(room)
    new = min(NEW_TOKENS, subject.config.context - max(map(len, prompts)))
    if new < 1:
        return Finding("greedy", "the context is too short to write anything")
    ours = subject.greedy(prompts, new)
    read = batch([row[::-1] for row in prompts])
    found = theirs.generate(
        input_ids=read.tokens.flip(1),
        attention_mask=read.mask.flip(1).long(),
        max_new_tokens=new,
        **greedily(subject),
    )
    return same("greedy", ours, [ended(subject, row) for row in found[:, read.tokens.shape[1] :]])


def translated(subject: Subject, theirs: Any) -> Finding:
    sources, targets = subject.pairs()
    read, given = batch(sources, subject.pad), batch(targets, subject.pad)
    ours = subject.model(read.tokens, given.tokens)
    found = theirs(
        input_ids=read.tokens, attention_mask=read.mask.long(), decoder_input_ids=given.tokens, use_cache=False
    ).logits
    return compared("logits", given.real(ours), given.real(found))


def said(subject: Subject, theirs: Any) -> Finding:
    sources, _ = subject.pairs()
    read = batch(sources, subject.pad)
    found = theirs.generate(
        input_ids=read.tokens, attention_mask=read.mask.long(), max_new_tokens=NEW_TOKENS, **greedily(subject)
    )
    return same("greedy", subject.greedy(sources, NEW_TOKENS), [ended(subject, row[1:]) for row in found])


def greedily(subject: Subject) -> dict[str, Any]:
    pad = subject.tokenizer.pad if subject.tokenizer.pad >= 0 else subject.tokenizer.end
    return {"num_beams": 1, "do_sample": False, "pad_token_id": pad, "max_length": None}


def ended(subject: Subject, row: Tensor) -> list[int]:
    """Tokens up to the end of the text."""
    tokens: list[int] = row.tolist()
    return tokens[: tokens.index(subject.tokenizer.end)] if subject.tokenizer.end in tokens else tokens
